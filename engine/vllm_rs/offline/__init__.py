"""The offline Python API: LLM, LLMEngine and AsyncLLM over one engine core."""
