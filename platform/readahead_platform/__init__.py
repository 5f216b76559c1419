"""The product: gateway, API, web app, command line and supervisor."""
