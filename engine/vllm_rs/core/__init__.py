"""vllm-rs/core."""
