//! What an engine answers.

use std::collections::BTreeMap;

use rmpv::Value;

use crate::array::{NdArray, Tensor};
use crate::codec::Wire;
use crate::error::WireError;
use crate::logprobs::{LogprobsLists, LogprobsTensors};
use crate::macros::{wire_array, wire_enum, wire_map};
use crate::reader::Reader;
use crate::stats::SchedulerStats;
use crate::utility::UtilityOutput;
use crate::writer::Writer;

wire_enum! {
    /// Why a request ended.
    pub enum FinishReason, "finish reason" {
        Stop = 0,
        Length = 1,
        Abort = 2,
        Error = 3,
        Repetition = 4,
    }
}

impl FinishReason {
    /// The name used in API responses and metric labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::Abort => "abort",
            Self::Error => "error",
            Self::Repetition => "repetition",
        }
    }
}

/// What exactly stopped a request; nil for the end-of-sequence token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopReason {
    TokenId(u32),
    Text(String),
}

impl Wire for StopReason {
    fn encode(&self, writer: &mut Writer) {
        match self {
            Self::TokenId(id) => id.encode(writer),
            Self::Text(text) => text.encode(writer),
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        if reader.next_is_str() {
            String::decode(reader).map(Self::Text)
        } else {
            u32::decode(reader).map(Self::TokenId)
        }
    }
}

wire_enum! {
    /// A step in the life of a request.
    pub enum EngineCoreEventType, "event type" {
        Queued = 1,
        Scheduled = 2,
        Preempted = 3,
    }
}

wire_map! {
    /// When something happened to a request.
    pub struct EngineCoreEvent, write_all {
        "type" => pub event_type: Option<EngineCoreEventType> = None,
        /// The engine's monotonic clock, seconds.
        "timestamp" => pub timestamp: f64 = 0.0,
    }
}

wire_map! {
    /// Where the prompt's tokens came from; sent with the first output.
    pub struct PrefillStats, write_all {
        "num_prompt_tokens" => pub num_prompt_tokens: u64 = 0,
        "num_computed_tokens" => pub num_computed_tokens: u64 = 0,
        "num_cached_tokens" => pub num_cached_tokens: u64 = 0,
        "num_local_cached_tokens" => pub num_local_cached_tokens: u64 = 0,
        "num_external_cached_tokens" => pub num_external_cached_tokens: u64 = 0,
        "num_cache_creation_tokens" => pub num_cache_creation_tokens: u64 = 0,
    }
}

wire_array! {
    /// News of one request, 18 positions. A finish reason makes it the last.
    pub struct EngineCoreOutput, min 2 {
        pub request_id: String = String::new(),
        pub new_token_ids: Vec<u32> = Vec::new(),
        /// One row per new token.
        pub new_logprobs: Option<LogprobsLists> = None,
        /// All of the prompt's, once.
        pub new_prompt_logprobs_tensors: Option<LogprobsTensors> = None,
        pub pooling_output: Option<Tensor> = None,
        pub finish_reason: Option<FinishReason> = None,
        pub stop_reason: Option<StopReason> = None,
        pub events: Option<Vec<EngineCoreEvent>> = None,
        pub kv_transfer_params: Option<Value> = None,
        pub ec_transfer_params: Option<Value> = None,
        pub trace_headers: Option<BTreeMap<String, String>> = None,
        pub prefill_stats: Option<PrefillStats> = None,
        pub routed_experts: Option<NdArray> = None,
        pub num_nans_in_logits: u64 = 0,
        pub mm_cache_miss_hashes: Option<Vec<String>> = None,
        pub new_sampling_mask: Option<Value> = None,
        pub spec_decode_metrics: Option<Value> = None,
        pub prompt_token_id_logprobs: Option<Tensor> = None,
    }
}

wire_array! {
    /// One message of an engine, 9 positions. Written as a whole; read with
    /// [`crate::decode_outputs`], which survives a bad element.
    pub struct EngineCoreOutputs, min 0 {
        pub engine_index: u32 = 0,
        pub outputs: Vec<EngineCoreOutput> = Vec::new(),
        pub scheduler_stats: Option<Box<SchedulerStats>> = None,
        /// The engine's monotonic clock, seconds.
        pub timestamp: f64 = 0.0,
        pub utility_output: Option<UtilityOutput> = None,
        pub finished_requests: Option<Vec<String>> = None,
        pub wave_complete: Option<u64> = None,
        pub start_wave: Option<u64> = None,
        pub weight_version: Option<String> = None,
    }
}
