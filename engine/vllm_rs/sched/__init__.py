"""vllm-rs/sched."""
