//! What an engine says about itself when it registers.

use rmpv::Value;

use crate::macros::wire_map;

wire_map! {
    /// The registration message. Upstream requires the keys up to `max_loras`; we take defaults, since
    /// an engine may also register with an empty payload.
    #[allow(clippy::struct_excessive_bools, reason = "the protocol's own switches")]
    pub struct EngineCoreReadyResponse, write_all {
        /// Tokens, prompt and output together; 0 means that the engine did not say.
        "max_model_len" => pub max_model_len: u64 = 0,
        "num_gpu_blocks" => pub num_gpu_blocks: u64 = 0,
        /// Tokens per block.
        "block_size" => pub block_size: u64 = 16,
        "dp_stats_address" => pub dp_stats_address: Option<String> = None,
        "dtype" => pub dtype: String = String::new(),
        "vllm_version" => pub vllm_version: String = String::new(),
        "world_size" => pub world_size: u64 = 1,
        "data_parallel_size" => pub data_parallel_size: u64 = 1,
        "tensor_parallel_size" => pub tensor_parallel_size: u64 = 1,
        "pipeline_parallel_size" => pub pipeline_parallel_size: u64 = 1,
        "decode_context_parallel_size" => pub decode_context_parallel_size: u64 = 1,
        "data_parallel_rank" => pub data_parallel_rank: u64 = 0,
        "max_num_seqs" => pub max_num_seqs: u64 = 0,
        "max_num_batched_tokens" => pub max_num_batched_tokens: u64 = 0,
        "instance_id" => pub instance_id: String = String::new(),
        "supports_lora" => pub supports_lora: bool = false,
        "max_loras" => pub max_loras: u64 = 0,
        "mamba_block_size" => pub mamba_block_size: Option<u64> = None,
        "kv_cache_size_tokens" => pub kv_cache_size_tokens: Option<u64> = None,
        "kv_cache_max_concurrency" => pub kv_cache_max_concurrency: Option<f64> = None,
        "kv_events_config" => pub kv_events_config: Option<Value> = None,
        "weight_transfer_backend" => pub weight_transfer_backend: Option<String> = None,
        "enable_sleep_mode" => pub enable_sleep_mode: bool = false,
        "supports_draft_weight_updates" => pub supports_draft_weight_updates: bool = false,
        "effective_attention_block_size" => pub effective_attention_block_size: Option<u64> = None,
        /// Ours: private facts under the key `vllm_rs`. Absent from other engines.
        "extensions" => pub extensions: Value = Value::Map(Vec::new()),
    }
}

impl EngineCoreReadyResponse {
    /// A fact of our own engine (`version`, `build_id`), if it sent it as a string.
    pub fn extension_str(&self, key: &str) -> Option<&str> {
        find(find(&self.extensions, "vllm_rs")?, key)?.as_str()
    }
}

fn find<'a>(map: &'a Value, key: &str) -> Option<&'a Value> {
    map.as_map()?
        .iter()
        .find(|(name, _)| name.as_str() == Some(key))
        .map(|(_, value)| value)
}
