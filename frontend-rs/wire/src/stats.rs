//! What the scheduler reports about itself, at most once per step.

use std::collections::BTreeMap;

use rmpv::Value;

use crate::macros::wire_map;

wire_map! {
    /// Prefix cache activity since the last report.
    pub struct PrefixCacheStats, write_all {
        "reset" => pub reset: bool = false,
        "requests" => pub requests: u64 = 0,
        /// Tokens looked up.
        "queries" => pub queries: u64 = 0,
        /// Tokens found.
        "hits" => pub hits: u64 = 0,
        "preempted_requests" => pub preempted_requests: u64 = 0,
        "preempted_queries" => pub preempted_queries: u64 = 0,
        "preempted_hits" => pub preempted_hits: u64 = 0,
        "hits_by_source" => pub hits_by_source: BTreeMap<String, u64> = BTreeMap::new(),
    }
}

wire_map! {
    /// Speculative decoding since the last report.
    pub struct SpecDecodingStats, write_all {
        "num_spec_tokens" => pub num_spec_tokens: u64 = 0,
        "num_drafts" => pub num_drafts: u64 = 0,
        "num_draft_tokens" => pub num_draft_tokens: u64 = 0,
        "num_accepted_tokens" => pub num_accepted_tokens: u64 = 0,
        "num_accepted_tokens_per_pos" => pub num_accepted_tokens_per_pos: Vec<u64> = Vec::new(),
        "num_draft_tokens_per_pos" => pub num_draft_tokens_per_pos: Vec<u64> = Vec::new(),
    }
}

wire_map! {
    /// Gauges (`num_*_reqs`, usage) and deltas per step (everything else).
    pub struct SchedulerStats, write_all {
        "num_running_reqs" => pub num_running_reqs: u64 = 0,
        "num_waiting_reqs" => pub num_waiting_reqs: u64 = 0,
        "num_skipped_waiting_reqs" => pub num_skipped_waiting_reqs: u64 = 0,
        "num_kv_fetch_reqs_by_stage" => pub num_kv_fetch_reqs_by_stage: BTreeMap<String, u64> = BTreeMap::new(),
        "step_counter" => pub step_counter: u64 = 0,
        "current_wave" => pub current_wave: u64 = 0,
        /// Fraction of KV blocks in use, 0 to 1.
        "kv_cache_usage" => pub kv_cache_usage: f64 = 0.0,
        "iteration_details" => pub iteration_details: Option<Value> = None,
        "prefix_cache_stats" => pub prefix_cache_stats: PrefixCacheStats = PrefixCacheStats::default(),
        "connector_prefix_cache_stats" => pub connector_prefix_cache_stats: Option<PrefixCacheStats> = None,
        "kv_cache_eviction_events" => pub kv_cache_eviction_events: Vec<Value> = Vec::new(),
        "spec_decoding_stats" => pub spec_decoding_stats: Option<SpecDecodingStats> = None,
        "kv_connector_stats" => pub kv_connector_stats: Option<Value> = None,
        "ec_connector_stats" => pub ec_connector_stats: Option<Value> = None,
        "waiting_lora_adapters" => pub waiting_lora_adapters: BTreeMap<String, i64> = BTreeMap::new(),
        "running_lora_adapters" => pub running_lora_adapters: BTreeMap<String, i64> = BTreeMap::new(),
        "cudagraph_stats" => pub cudagraph_stats: Option<Value> = None,
        "perf_stats" => pub perf_stats: Option<Value> = None,
    }
}
