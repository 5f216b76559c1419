"""Models in, tokens and tensors out: the LLM server, reached by everything above over HTTP."""
