"""vllm-rs/models."""
