"""vLLM's module path of the OpenAI-compatible server."""
