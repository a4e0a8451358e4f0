"""vllm-rs/exec."""
