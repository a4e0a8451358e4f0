//! The messages of `tests/contract/cases.py`, value for value.

use std::collections::{BTreeMap, BTreeSet};

use vllm_rs_wire::{
    EngineAddresses, EngineCoreEvent, EngineCoreEventType, EngineCoreOutput, EngineCoreOutputs,
    EngineCoreReadyResponse, EngineCoreRequest, FinishReason, HandshakeInit, HandshakeMessage,
    HandshakeStatus, LogprobsLists, LogprobsTensors, NdArray, PrefillStats, PrefixCacheStats,
    RequestOutputKind, SamplingParams, SchedulerStats, SpecDecodingStats, StopReason, StopStrings, Tensor,
    UtilityOutput, UtilityRequest, UtilityResult, Value,
};

fn request(request_id: &str) -> EngineCoreRequest {
    EngineCoreRequest {
        request_id: request_id.into(),
        prompt_token_ids: Some(vec![1, 200, 70_000]),
        sampling_params: Some(SamplingParams {
            temperature: 0.0,
            max_tokens: Some(5),
            ..SamplingParams::default()
        }),
        arrival_time: 1234.5,
        ..EngineCoreRequest::default()
    }
}

fn trace_headers() -> BTreeMap<String, String> {
    BTreeMap::from([("traceparent".into(), "00-ab-cd-01".into())])
}

fn sampling() -> SamplingParams {
    let replay = Value::Array(vec![1.into(), Value::Nil, true.into()]);
    SamplingParams {
        presence_penalty: 0.5,
        frequency_penalty: -0.25,
        repetition_penalty: 1.5,
        temperature: 0.75,
        top_p: 0.5,
        top_k: -1,
        min_p: 0.125,
        seed: Some(-9_000_000_000),
        stop: Some(StopStrings(vec!["a".into(), "é".into()])),
        stop_token_ids: Some(vec![7, 128, 40_000]),
        ignore_eos: true,
        max_tokens: None,
        min_tokens: 300,
        logprobs: Some(-1),
        prompt_logprobs: Some(3),
        prompt_logprob_token_ids: Some(NdArray::from_i32(vec![1, 2], &[1, 2])),
        detokenize: false,
        output_kind: RequestOutputKind::Delta,
        eos_token_id: Some(2),
        all_stop_token_ids: BTreeSet::from([2, 7]),
        logit_bias: Some(BTreeMap::from([(5, 1.5)])),
        allowed_token_ids: Some(vec![1, 2]),
        extra_args: Some(map([("vllm_rs", map([("replay", replay)]))])),
        bad_words_token_ids: Some(vec![vec![1, 2], vec![3]]),
        skip_reading_prefix_cache: Some(true),
        ..SamplingParams::default()
    }
}

fn map<const N: usize>(pairs: [(&str, Value); N]) -> Value {
    Value::Map(
        pairs
            .into_iter()
            .map(|(key, value)| (key.into(), value))
            .collect(),
    )
}

fn build() -> Value {
    map([("version", "0.1.0".into()), ("build_id", "abc".into())])
}

pub(crate) fn requests() -> Vec<(&'static str, EngineCoreRequest)> {
    let full = EngineCoreRequest {
        sampling_params: Some(sampling()),
        cache_salt: Some("salt".into()),
        client_index: 1,
        priority: -5,
        trace_headers: Some(trace_headers()),
        external_req_id: Some("user-1".into()),
        ..request("req-é")
    };
    let embeds = EngineCoreRequest {
        prompt_token_ids: None,
        prompt_embeds: Some(Tensor::from_f32(vec![16, 8], &[0.25; 128])),
        ..request("req-2")
    };
    let nil = || Value::Nil;
    let pooling_params = Value::Array(vec![
        nil(),
        nil(),
        nil(),
        nil(),
        "embed".into(),
        false.into(),
        nil(),
        nil(),
        nil(),
        2.into(),
    ]);
    let pooling = EngineCoreRequest {
        sampling_params: None,
        pooling_params: Some(pooling_params),
        ..request("req-3")
    };
    vec![
        ("request", request("req-1")),
        ("request_sampling", full),
        ("request_embeds", embeds),
        ("request_pooling", pooling),
    ]
}

pub(crate) fn utility_request() -> UtilityRequest {
    UtilityRequest {
        client_index: 0,
        call_id: (1 << 63) + 1,
        method: "reset_prefix_cache".into(),
        args: vec![false.into(), Value::Nil],
    }
}

pub(crate) fn init() -> HandshakeInit {
    HandshakeInit {
        addresses: EngineAddresses {
            inputs: vec!["ipc:///tmp/a/i0".into()],
            outputs: vec!["ipc:///tmp/a/o0".into()],
            ..EngineAddresses::default()
        },
        extensions: build(),
        ..HandshakeInit::default()
    }
}

pub(crate) fn handshake() -> Vec<(&'static str, HandshakeMessage)> {
    let hello = HandshakeMessage {
        status: Some(HandshakeStatus::Hello),
        local: Some(false),
        headless: Some(true),
        parallel_config_hash: None,
    };
    let ready = HandshakeMessage {
        status: Some(HandshakeStatus::Ready),
        local: Some(true),
        parallel_config_hash: Some("ff".into()),
        ..hello.clone()
    };
    vec![("hello", hello), ("ready", ready)]
}

pub(crate) fn registration() -> EngineCoreReadyResponse {
    EngineCoreReadyResponse {
        max_model_len: 8192,
        num_gpu_blocks: 512,
        block_size: 16,
        dtype: "bfloat16".into(),
        vllm_version: "0.32.0".into(),
        max_num_seqs: 64,
        max_num_batched_tokens: 512,
        instance_id: "i".into(),
        kv_cache_size_tokens: Some(8192),
        kv_cache_max_concurrency: Some(1.0),
        extensions: build(),
        ..EngineCoreReadyResponse::default()
    }
}

fn output(request_id: &str, tokens: &[u32]) -> EngineCoreOutput {
    EngineCoreOutput {
        request_id: request_id.into(),
        new_token_ids: tokens.to_vec(),
        ..EngineCoreOutput::default()
    }
}

fn batch(outputs: Vec<EngineCoreOutput>) -> EngineCoreOutputs {
    EngineCoreOutputs {
        outputs,
        timestamp: 12.5,
        ..EngineCoreOutputs::default()
    }
}

fn finished() -> EngineCoreOutput {
    let event = |event_type, timestamp| EngineCoreEvent {
        event_type: Some(event_type),
        timestamp,
    };
    EngineCoreOutput {
        finish_reason: Some(FinishReason::Stop),
        stop_reason: Some(StopReason::TokenId(2)),
        events: Some(vec![
            event(EngineCoreEventType::Queued, 0.5),
            event(EngineCoreEventType::Scheduled, 1.5),
        ]),
        trace_headers: Some(trace_headers()),
        prefill_stats: Some(PrefillStats {
            num_prompt_tokens: 100,
            num_computed_tokens: 36,
            num_cached_tokens: 64,
            ..PrefillStats::default()
        }),
        ..output("req-1", &[43, 2])
    }
}

fn stats() -> SchedulerStats {
    SchedulerStats {
        num_running_reqs: 3,
        num_waiting_reqs: 300,
        step_counter: 70_000,
        kv_cache_usage: 0.25,
        prefix_cache_stats: PrefixCacheStats {
            requests: 1,
            queries: 100,
            hits: 64,
            hits_by_source: BTreeMap::from([("device".into(), 64)]),
            ..PrefixCacheStats::default()
        },
        spec_decoding_stats: Some(SpecDecodingStats {
            num_spec_tokens: 2,
            num_drafts: 5,
            num_draft_tokens: 10,
            num_accepted_tokens: 7,
            num_accepted_tokens_per_pos: vec![4, 3],
            ..SpecDecodingStats::default()
        }),
        ..SchedulerStats::default()
    }
}

pub(crate) fn logprobs() -> LogprobsLists {
    LogprobsLists {
        columns: 3,
        token_ids: vec![7, 7, 9],
        logprobs: vec![-0.5, -0.5, -2.0],
        ranks: vec![1],
    }
}

pub(crate) fn outputs() -> Vec<(&'static str, EngineCoreOutputs)> {
    let prompt_logprobs = LogprobsTensors {
        columns: 2,
        token_ids: (0..200).collect(),
        logprobs: vec![-1.25; 200],
        ranks: vec![3; 100],
    };
    let with_logprobs = EngineCoreOutput {
        new_logprobs: Some(logprobs()),
        ..output("req-1", &[7])
    };
    let with_prompt_logprobs = EngineCoreOutput {
        new_prompt_logprobs_tensors: Some(prompt_logprobs),
        ..output("req-1", &[7])
    };
    let failed = EngineCoreOutput {
        finish_reason: Some(FinishReason::Error),
        ..output("req-2", &[])
    };
    let repeated = EngineCoreOutput {
        finish_reason: Some(FinishReason::Repetition),
        stop_reason: Some(StopReason::Text("repetition_detected".into())),
        ..output("req-1", &[1])
    };
    let tasks = Value::Array(vec!["generate".into()]);
    let answer = UtilityOutput {
        call_id: 7,
        failure_message: None,
        result: Some(UtilityResult(tasks)),
    };
    let no_answer = UtilityOutput {
        call_id: 8,
        failure_message: Some("Call to fly method failed: no wings".into()),
        result: None,
    };
    vec![
        ("outputs_token", batch(vec![output("req-1", &[42])])),
        ("outputs_logprobs", batch(vec![with_logprobs])),
        (
            "outputs_prompt_logprobs",
            EngineCoreOutputs {
                engine_index: 1,
                ..batch(vec![with_prompt_logprobs])
            },
        ),
        ("outputs_finished", batch(vec![finished(), failed])),
        (
            "outputs_repetition",
            EngineCoreOutputs {
                finished_requests: Some(vec!["req-1".into()]),
                weight_version: Some("default".into()),
                ..batch(vec![repeated])
            },
        ),
        (
            "outputs_stats",
            EngineCoreOutputs {
                scheduler_stats: Some(Box::new(stats())),
                ..batch(vec![])
            },
        ),
        (
            "outputs_utility",
            EngineCoreOutputs {
                utility_output: Some(answer),
                ..batch(vec![])
            },
        ),
        (
            "outputs_utility_failed",
            EngineCoreOutputs {
                utility_output: Some(no_answer),
                ..batch(vec![])
            },
        ),
    ]
}
