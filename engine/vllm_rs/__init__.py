"""vllm-rs."""
