"""vllm-rs/kv."""
