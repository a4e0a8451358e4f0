//! What is written is read back equal, and known bytes mean what the protocol says.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use vllm_rs_wire::{
    EngineCoreEvent, EngineCoreEventType, EngineCoreOutput, EngineCoreOutputs, EngineCoreReadyResponse,
    EngineCoreRequest, FinishReason, HandshakeMessage, HandshakeStatus, LogprobsLists, LogprobsTensors,
    PrefillStats, SamplingParams, SchedulerStats, StopReason, Tensor, UtilityOutput, UtilityRequest,
    UtilityResult, Value, WireErrorKind, decode_aborts, decode_outputs, decode_payload, decode_request,
    encode_aborts, encode_outputs, encode_payload, encode_request,
};

fn bytes(hex: &str) -> Vec<Bytes> {
    let digits: Vec<u8> = hex
        .chars()
        .filter_map(|digit| digit.to_digit(16))
        .map(|digit| digit as u8)
        .collect();
    vec![
        digits
            .chunks(2)
            .map(|pair| pair[0] << 4 | pair[1])
            .collect::<Vec<u8>>()
            .into(),
    ]
}

fn logprobs(positions: usize, columns: usize) -> LogprobsLists {
    LogprobsLists {
        columns,
        token_ids: (0..positions * columns).map(|i| i as u32 * 7).collect(),
        logprobs: (0..positions * columns).map(|i| -0.5 * i as f32).collect(),
        ranks: (1..=positions as u32).collect(),
    }
}

fn request() -> EngineCoreRequest {
    EngineCoreRequest {
        request_id: "req-1".into(),
        prompt_token_ids: Some(vec![1, 2, 300, 70_000]),
        sampling_params: Some(SamplingParams {
            temperature: 0.0,
            seed: Some(-3),
            max_tokens: Some(5),
            eos_token_id: Some(2),
            all_stop_token_ids: BTreeSet::from([2, 9]),
            logit_bias: Some(BTreeMap::from([(4, -1.5)])),
            extra_args: Some(Value::Map(vec![(
                "vllm_rs".into(),
                Value::Map(vec![("replay".into(), 1.into())]),
            )])),
            ..SamplingParams::default()
        }),
        arrival_time: 1234.5,
        client_index: 3,
        priority: -2,
        trace_headers: Some(BTreeMap::from([("traceparent".into(), "00-ab".into())])),
        ..EngineCoreRequest::default()
    }
}

#[test]
fn a_request_survives_the_wire() {
    assert_eq!(decode_request(&encode_request(&request())).unwrap(), request());
}

#[test]
fn large_tensors_travel_beside_the_message() {
    let embeds = Tensor::from_f32(vec![16, 8], &[0.25; 128]);
    let request = EngineCoreRequest {
        prompt_embeds: Some(embeds),
        ..request()
    };
    let frames = encode_request(&request);
    assert_eq!(frames.len(), 2);
    assert_eq!(frames[1].len(), 512);
    assert_eq!(decode_request(&frames).unwrap(), request);
}

#[test]
fn outputs_survive_the_wire() {
    let output = EngineCoreOutput {
        request_id: "a".into(),
        new_token_ids: vec![5, 6],
        new_logprobs: Some(logprobs(2, 3)),
        new_prompt_logprobs_tensors: Some(LogprobsTensors {
            columns: 2,
            token_ids: (0..200).collect(),
            logprobs: vec![-1.0; 200],
            ranks: vec![1; 100],
        }),
        finish_reason: Some(FinishReason::Stop),
        stop_reason: Some(StopReason::TokenId(6)),
        events: Some(vec![EngineCoreEvent {
            event_type: Some(EngineCoreEventType::Scheduled),
            timestamp: 1.5,
        }]),
        prefill_stats: Some(PrefillStats {
            num_prompt_tokens: 9,
            ..PrefillStats::default()
        }),
        ..EngineCoreOutput::default()
    };
    let batch = EngineCoreOutputs {
        engine_index: 1,
        outputs: vec![
            output.clone(),
            EngineCoreOutput {
                request_id: "b".into(),
                ..EngineCoreOutput::default()
            },
        ],
        scheduler_stats: Some(Box::new(SchedulerStats {
            num_running_reqs: 2,
            ..SchedulerStats::default()
        })),
        timestamp: 7.25,
        finished_requests: Some(vec!["a".into()]),
        ..EngineCoreOutputs::default()
    };
    let frames = encode_outputs(&batch);
    assert!(
        frames.len() > 1,
        "prompt logprobs are large enough for frames of their own"
    );
    let decoded = decode_outputs(&frames).unwrap();
    assert_eq!(decoded.outputs[0].as_ref().unwrap(), &output);
    assert_eq!(decoded.outputs.len(), 2);
    assert_eq!(decoded.scheduler_stats, batch.scheduler_stats);
    assert_eq!((decoded.engine_index, decoded.timestamp), (1, 7.25));
    assert!(decoded.side_errors.is_empty());
}

#[test]
fn small_messages_have_the_bytes_the_protocol_documents() {
    let hello = HandshakeMessage {
        status: Some(HandshakeStatus::Hello),
        local: Some(false),
        headless: Some(true),
        parallel_config_hash: None,
    };
    let wire = bytes("83a6737461747573a548454c4c4fa56c6f63616cc2a8686561646c657373c3");
    assert_eq!(encode_payload(&hello), wire);
    assert_eq!(decode_payload::<HandshakeMessage>(&wire).unwrap(), hello);
    assert_eq!(encode_aborts(&["req-1"]), bytes("91a57265712d31"));
    assert_eq!(decode_aborts(&bytes("91a57265712d31")).unwrap(), ["req-1"]);
}

#[test]
fn logprobs_have_the_bytes_the_protocol_documents() {
    let wire = bytes(
        "9493a33c6934920103c70c03070000000700000009000000 93a33c6634920103c70c03000000bf000000bf000000c0 \
         93a33c69389101d7030100000000000000 c0",
    );
    let lists = LogprobsLists {
        columns: 3,
        token_ids: vec![7, 7, 9],
        logprobs: vec![-0.5, -0.5, -2.0],
        ranks: vec![1],
    };
    assert_eq!(decode_payload::<LogprobsLists>(&wire).unwrap(), lists);
    assert_eq!(encode_payload(&lists), wire);
}

/// As the engine answers for a prompt of one token.
#[test]
fn prompt_logprobs_may_have_no_position() {
    let wire =
        bytes("9593a5696e743332920004c70003 93a7666c6f61743332920004c70003 93a5696e7436349100c70003 c0c0");
    let tensors = decode_payload::<LogprobsTensors>(&wire).unwrap();
    assert_eq!((tensors.positions(), tensors.columns), (0, 4));
}

#[test]
fn utility_calls_survive_the_wire() {
    let call = UtilityRequest {
        client_index: 0,
        call_id: u64::MAX,
        method: "is_sleeping".into(),
        args: vec![1.into()],
    };
    assert_eq!(
        decode_payload::<UtilityRequest>(&encode_payload(&call)).unwrap(),
        call
    );
    for call_id in [-1, 7, i128::from(u64::MAX)] {
        let answer = UtilityOutput {
            call_id,
            failure_message: None,
            result: Some(UtilityResult(Value::Boolean(true))),
        };
        assert_eq!(
            decode_payload::<UtilityOutput>(&encode_payload(&answer)).unwrap(),
            answer
        );
    }
}

#[test]
fn arrays_may_be_shorter_or_longer_than_ours() {
    // ["req-1", [43], nil, nil, nil, 0] and the same with 20 positions.
    let short = bytes("96a57265712d31912bc0c0c000");
    assert_eq!(
        decode_payload::<EngineCoreOutput>(&short).unwrap().finish_reason,
        Some(FinishReason::Stop)
    );
    let long = bytes(
        "dc0014a57265712d31912bc0c0c000c0c0c0c0c0c0c000c0c0c0c0 83a4636f6465cd01f4a76d657373616765a178a97265747279\
         61626c65c3 93010203",
    );
    assert_eq!(
        decode_payload::<EngineCoreOutput>(&long).unwrap().new_token_ids,
        [43]
    );
    let too_short = decode_payload::<EngineCoreOutput>(&bytes("91a161")).unwrap_err();
    assert_eq!(too_short.kind, WireErrorKind::TooShort { min: 2, given: 1 });
}

#[test]
fn unknown_keys_are_ignored_and_missing_ones_default() {
    // {"max_model_len": 4096, "future": [1, {"a": 2}]}
    let ready = bytes("82ad6d61785f6d6f64656c5f6c656ecd1000a6667574757265920181a16102");
    let decoded = decode_payload::<EngineCoreReadyResponse>(&ready).unwrap();
    assert_eq!((decoded.max_model_len, decoded.block_size), (4096, 16));
}

#[test]
fn errors_name_the_field() {
    let mut bad = request();
    bad.sampling_params = None;
    let mut wire = encode_request(&bad)[0].to_vec();
    // Position 3 (sampling_params) becomes the integer 5.
    let at = wire
        .windows(4)
        .position(|w| w == [0xc0, 0xc0, 0xc0, 0xcb])
        .unwrap();
    wire[at + 1] = 5;
    let error = decode_request(&[wire.into()]).unwrap_err();
    assert_eq!(
        (error.request_id.as_deref(), error.client_index),
        (Some("req-1"), Some(3))
    );
    assert_eq!(error.error.field, "sampling_params");
    assert!(error.to_string().contains("expected map, found int"), "{error}");
}
