"""The routes, one module for each of OpenAI's resources and for our own."""
