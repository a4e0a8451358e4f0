//! What a frontend asks of an engine.

use std::collections::BTreeMap;

use rmpv::Value;

use crate::array::Tensor;
use crate::macros::wire_array;
use crate::sampling::SamplingParams;

/// The one-byte frame that precedes a message to an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RequestType {
    Add = 0,
    Abort = 1,
    /// From the data-parallel coordinator only.
    StartDpWave = 2,
    Utility = 3,
}

impl RequestType {
    /// Reads the type frame; anything but one known byte is `None`.
    pub fn from_frame(frame: &[u8]) -> Option<Self> {
        match frame {
            [0] => Some(Self::Add),
            [1] => Some(Self::Abort),
            [2] => Some(Self::StartDpWave),
            [3] => Some(Self::Utility),
            _ => None,
        }
    }

    pub fn frame(self) -> &'static [u8] {
        match self {
            Self::Add => &[0],
            Self::Abort => &[1],
            Self::StartDpWave => &[2],
            Self::Utility => &[3],
        }
    }
}

wire_array! {
    /// One request, 22 positions. Exactly one of `sampling_params` and `pooling_params` is set.
    pub struct EngineCoreRequest, min 6 {
        /// Unique within an engine for as long as the request lives.
        pub request_id: String = String::new(),
        pub prompt_token_ids: Option<Vec<u32>> = None,
        pub mm_features: Option<Value> = None,
        pub sampling_params: Option<SamplingParams> = None,
        pub pooling_params: Option<Value> = None,
        /// Wall clock, seconds since the epoch.
        pub arrival_time: f64 = 0.0,
        pub lora_request: Option<Value> = None,
        pub cache_salt: Option<String> = None,
        pub data_parallel_rank: Option<u32> = None,
        pub prompt_embeds: Option<Tensor> = None,
        pub prompt_is_token_ids: Option<Vec<bool>> = None,
        /// Selects the output socket of the engine.
        pub client_index: u32 = 0,
        pub current_wave: u64 = 0,
        /// Lower is served first.
        pub priority: i64 = 0,
        pub trace_headers: Option<BTreeMap<String, String>> = None,
        pub resumable: bool = false,
        /// The id the user sees.
        pub external_req_id: Option<String> = None,
        pub reasoning_ended: Option<bool> = None,
        pub reasoning_parser_kwargs: Option<Value> = None,
        pub abort_immediately: bool = false,
        pub session_id: Option<String> = None,
        pub kv_hints: Option<Value> = None,
    }
}
