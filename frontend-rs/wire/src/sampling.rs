//! How one request wants its tokens chosen.

use std::collections::{BTreeMap, BTreeSet};

use rmpv::Value;

use crate::array::NdArray;
use crate::codec::Wire;
use crate::error::WireError;
use crate::macros::{wire_enum, wire_map};
use crate::reader::Reader;
use crate::writer::Writer;

wire_enum! {
    /// What an output message carries.
    pub enum RequestOutputKind, "output kind" {
        Cumulative = 0,
        Delta = 1,
        FinalOnly = 2,
    }
}

/// Stop strings; on the wire one string or an array of them. Only frontends look at these.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StopStrings(pub Vec<String>);

impl Wire for StopStrings {
    fn encode(&self, writer: &mut Writer) {
        self.0.encode(writer);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        if reader.next_is_str() {
            String::decode(reader).map(|text| Self(vec![text]))
        } else {
            Vec::decode(reader).map(Self)
        }
    }
}

wire_map! {
    /// Sampling parameters, in the order in which upstream declares them. Keys equal to their default
    /// are left out. The frontend has validated every range before it sends: an engine may end over one.
    #[allow(clippy::struct_excessive_bools, reason = "the protocol's own switches")]
    pub struct SamplingParams, omit_defaults {
        /// Always 1 on the wire; the frontend fans out.
        "n" => pub n: u32 = 1,
        "presence_penalty" => pub presence_penalty: f64 = 0.0,
        "frequency_penalty" => pub frequency_penalty: f64 = 0.0,
        "repetition_penalty" => pub repetition_penalty: f64 = 1.0,
        /// 0 is greedy.
        "temperature" => pub temperature: f64 = 1.0,
        "watermarking" => pub watermarking: Option<bool> = None,
        "top_p" => pub top_p: f64 = 1.0,
        /// 0 and -1 both mean "all".
        "top_k" => pub top_k: i32 = 0,
        "min_p" => pub min_p: f64 = 0.0,
        "seed" => pub seed: Option<i64> = None,
        "stop" => pub stop: Option<StopStrings> = None,
        "stop_token_ids" => pub stop_token_ids: Option<Vec<u32>> = None,
        "ignore_eos" => pub ignore_eos: bool = false,
        "max_tokens" => pub max_tokens: Option<u32> = Some(16),
        "min_tokens" => pub min_tokens: u32 = 0,
        /// Top-k logprobs per sampled token; -1 is the whole vocabulary.
        "logprobs" => pub logprobs: Option<i32> = None,
        "prompt_logprobs" => pub prompt_logprobs: Option<i32> = None,
        "prompt_logprob_token_ids" => pub prompt_logprob_token_ids: Option<NdArray> = None,
        "prompt_logprob_start" => pub prompt_logprob_start: Option<u32> = None,
        "logprob_token_ids" => pub logprob_token_ids: Option<Vec<u32>> = None,
        "flat_logprobs" => pub flat_logprobs: bool = false,
        "detokenize" => pub detokenize: bool = true,
        "skip_special_tokens" => pub skip_special_tokens: bool = true,
        "spaces_between_special_tokens" => pub spaces_between_special_tokens: bool = true,
        "include_stop_str_in_output" => pub include_stop_str_in_output: bool = false,
        "output_kind" => pub output_kind: RequestOutputKind = RequestOutputKind::Cumulative,
        "stream_interval" => pub stream_interval: Option<u32> = None,
        "skip_clone" => pub skip_clone: bool = false,
        "output_text_buffer_length" => pub output_text_buffer_length: u32 = 0,
        /// The primary end-of-sequence token, unless it is ignored.
        "_eos_token_id" => pub eos_token_id: Option<u32> = None,
        /// Stop token ids and end-of-sequence ids together: what `min_tokens` masks.
        "_all_stop_token_ids" => pub all_stop_token_ids: BTreeSet<u32> = BTreeSet::new(),
        "_watermarking_skipped" => pub watermarking_skipped: bool = false,
        "structured_outputs" => pub structured_outputs: Option<Value> = None,
        "logit_bias" => pub logit_bias: Option<BTreeMap<u32, f64>> = None,
        "allowed_token_ids" => pub allowed_token_ids: Option<Vec<u32>> = None,
        /// Free map; our private fields live under its key `vllm_rs`.
        "extra_args" => pub extra_args: Option<Value> = None,
        "bad_words" => pub bad_words: Option<Vec<String>> = None,
        "_bad_words_token_ids" => pub bad_words_token_ids: Option<Vec<Vec<u32>>> = None,
        "skip_reading_prefix_cache" => pub skip_reading_prefix_cache: Option<bool> = None,
        "thinking_token_budget" => pub thinking_token_budget: Option<i64> = None,
        "repetition_detection" => pub repetition_detection: Option<Value> = None,
        "routed_experts_prompt_start" => pub routed_experts_prompt_start: u32 = 0,
        "trace_decode_token_ids" => pub trace_decode_token_ids: Option<Vec<u32>> = None,
    }
}
