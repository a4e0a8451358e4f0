//! No bytes make a decoder panic, and damage to one output stays with that output.
//!
//! `FUZZ_CASES` sets the number of mutated messages per direction.

use bytes::Bytes;
use proptest::prelude::*;
use vllm_rs_wire::{
    EngineCoreOutput, EngineCoreOutputs, EngineCoreReadyResponse, EngineCoreRequest, FinishReason,
    HandshakeInit, HandshakeMessage, LogprobsLists, LogprobsTensors, SamplingParams, SchedulerStats, Tensor,
    UtilityRequest, Value, decode_aborts, decode_outputs, decode_payload, decode_request, encode_outputs,
    encode_payload, encode_request,
};

fn fuzz_cases() -> usize {
    std::env::var("FUZZ_CASES")
        .ok()
        .and_then(|count| count.parse().ok())
        .unwrap_or(20_000)
}

/// `SplitMix64`.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

/// Markers that lie about what follows: lengths of 32 bits, extensions, the unused byte.
const NASTY: [u8; 12] = [
    0xc1, 0xdd, 0xdf, 0xdb, 0xc6, 0xc9, 0xd4, 0xd8, 0xff, 0x00, 0xc0, 0xcf,
];

/// One to four small injuries to a message.
fn mutate(random: &mut Random, frames: &[Bytes]) -> Vec<Bytes> {
    let mut frames: Vec<Vec<u8>> = frames.iter().map(|frame| frame.to_vec()).collect();
    for _ in 0..=random.below(4) {
        let which = random.below(frames.len());
        let frame = &mut frames[which];
        let at = random.below(frame.len());
        match random.below(8) {
            0 => frame.truncate(at),
            1 if !frame.is_empty() => frame[at] ^= 1 << random.below(8),
            2 if !frame.is_empty() => frame[at] = NASTY[random.below(NASTY.len())],
            3 => frame.insert(at, random.next() as u8),
            4 if !frame.is_empty() => drop(frame.remove(at)),
            5 => {
                let end = (at + random.below(16)).min(frame.len());
                let copy = frame[at..end].to_vec();
                frame.splice(at..at, copy);
            }
            6 if which > 0 => drop(frames.remove(which)),
            _ => frames.push(vec![random.next() as u8; random.below(300)]),
        }
        if frames.is_empty() {
            frames.push(Vec::new());
        }
    }
    frames.into_iter().map(Bytes::from).collect()
}

fn request() -> EngineCoreRequest {
    EngineCoreRequest {
        request_id: "cmpl-7f".into(),
        prompt_token_ids: Some((0..40).map(|token| token * 37).collect()),
        sampling_params: Some(SamplingParams {
            temperature: 0.7,
            logprobs: Some(3),
            stop_token_ids: Some(vec![2, 7]),
            logit_bias: Some([(5, 1.0)].into()),
            bad_words_token_ids: Some(vec![vec![1, 2], vec![3]]),
            structured_outputs: Some(Value::Map(vec![("regex".into(), "a+".into())])),
            ..SamplingParams::default()
        }),
        prompt_embeds: Some(Tensor::from_f32(vec![8, 16], &[1.0; 128])),
        client_index: 0,
        ..EngineCoreRequest::default()
    }
}

fn output(id: usize) -> EngineCoreOutput {
    EngineCoreOutput {
        request_id: format!("cmpl-{id}"),
        new_token_ids: vec![id as u32, 2, 3],
        new_logprobs: Some(LogprobsLists {
            columns: 2,
            token_ids: vec![1; 6],
            logprobs: vec![-1.0; 6],
            ranks: vec![1; 3],
        }),
        new_prompt_logprobs_tensors: (id == 1).then(|| LogprobsTensors {
            columns: 1,
            token_ids: vec![4; 90],
            logprobs: vec![-2.0; 90],
            ranks: vec![1; 90],
        }),
        finish_reason: (id == 2).then_some(FinishReason::Length),
        ..EngineCoreOutput::default()
    }
}

fn batch() -> EngineCoreOutputs {
    EngineCoreOutputs {
        outputs: (0..5).map(output).collect(),
        scheduler_stats: Some(Box::new(SchedulerStats::default())),
        timestamp: 3.0,
        ..EngineCoreOutputs::default()
    }
}

/// Every decoder there is, on the same bytes.
fn decode_everything(frames: &[Bytes]) {
    let _ = decode_request(frames);
    let _ = decode_outputs(frames);
    let _ = decode_aborts(frames);
    let _ = decode_payload::<EngineCoreReadyResponse>(frames);
    let _ = decode_payload::<HandshakeMessage>(frames);
    let _ = decode_payload::<HandshakeInit>(frames);
    let _ = decode_payload::<UtilityRequest>(frames);
    let _ = decode_payload::<LogprobsLists>(frames);
    let _ = decode_payload::<Value>(frames);
}

#[test]
fn mutated_requests_are_refused_or_read() {
    let mut random = Random(1);
    let valid = encode_request(&request());
    let mut attributed = 0;
    for _ in 0..fuzz_cases() {
        if let Err(error) = decode_request(&mutate(&mut random, &valid)) {
            attributed += usize::from(error.request_id.is_some() && error.client_index.is_some());
        }
    }
    assert!(attributed > 0, "some damage leaves enough to answer the request");
}

#[test]
fn mutated_outputs_are_refused_or_read() {
    let mut random = Random(2);
    let valid = encode_outputs(&batch());
    for _ in 0..fuzz_cases() {
        let frames = mutate(&mut random, &valid);
        if let Ok(decoded) = decode_outputs(&frames) {
            // What was read can be written and read again: nothing half-read gets through.
            for output in decoded.outputs.into_iter().flatten() {
                let again = decode_payload::<EngineCoreOutput>(&encode_payload(&output));
                assert_eq!(
                    again.as_ref().map(|again| &again.new_token_ids),
                    Ok(&output.new_token_ids)
                );
            }
        }
    }
}

#[test]
fn a_wrong_value_costs_only_its_own_output() {
    let mut random = Random(3);
    let whole: Vec<Value> = (0..5)
        .map(|id| {
            let frames = encode_payload(&output(id));
            decode_payload::<Value>(&frames[..1]).unwrap()
        })
        .collect();
    for _ in 0..fuzz_cases() / 10 {
        let victim = random.below(5);
        let mut outputs = whole.clone();
        let Value::Array(slots) = &mut outputs[victim] else {
            panic!("an output is an array")
        };
        let slot = 1 + random.below(slots.len() - 1);
        slots[slot] = [
            Value::from("x"),
            Value::from(-1),
            Value::Ext(1, vec![0x80]),
            Value::Map(vec![]),
        ][random.below(4)]
        .clone();
        let mut frames = encode_payload(&Value::Array(vec![0.into(), Value::Array(outputs)]));
        frames.extend(encode_outputs(&batch()).split_off(1));
        let decoded = decode_outputs(&frames).unwrap();
        assert_eq!(decoded.outputs.len(), 5);
        for (id, output) in decoded.outputs.iter().enumerate() {
            match output {
                Ok(output) => assert!(id == victim || output.new_token_ids[0] == id as u32),
                Err(error) => {
                    assert_eq!(
                        (id, error.request_id.as_deref()),
                        (victim, Some(&*format!("cmpl-{victim}")))
                    );
                }
            }
        }
    }
}

#[test]
fn lengths_that_lie_cost_no_memory() {
    // An array, a map, a string and a buffer of four billion elements, and an array of arrays of them.
    for head in ["dd", "df", "db", "c6", "dddddddddd"] {
        let digits: Vec<u8> = head.bytes().collect();
        let mut bytes: Vec<u8> = digits
            .chunks(2)
            .filter_map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
            .collect();
        bytes.extend([0xff; 4]);
        decode_everything(&[Bytes::from(bytes.clone())]);
        assert!(decode_payload::<Value>(&[bytes.into()]).is_err());
    }
    let deep = Bytes::from(vec![0x91; 100_000]);
    decode_everything(std::slice::from_ref(&deep));
    assert!(decode_payload::<Value>(&[deep]).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_never_panic(frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..400), 0..4)) {
        decode_everything(&frames.into_iter().map(Bytes::from).collect::<Vec<_>>());
    }

    #[test]
    fn requests_round_trip(
        id in "\\PC{0,20}",
        tokens in prop::collection::vec(any::<u32>(), 0..200),
        temperature in 0.0..2.0f64,
        seed in any::<Option<i64>>(),
        max_tokens in any::<Option<u32>>(),
        priority in any::<i64>(),
        salt in any::<Option<String>>(),
        bias in prop::collection::btree_map(any::<u32>(), -100.0..100.0f64, 0..5),
    ) {
        let request = EngineCoreRequest {
            request_id: id,
            prompt_token_ids: Some(tokens),
            sampling_params: Some(SamplingParams {
                temperature, seed, max_tokens, logit_bias: Some(bias), ..SamplingParams::default()
            }),
            priority,
            cache_salt: salt,
            ..EngineCoreRequest::default()
        };
        prop_assert_eq!(decode_request(&encode_request(&request)).unwrap(), request);
    }

    #[test]
    fn outputs_round_trip(
        id in "\\PC{0,20}",
        tokens in prop::collection::vec(any::<u32>(), 0..50),
        columns in 1usize..6,
        timestamp in any::<f64>().prop_filter("comparable", |t| !t.is_nan()),
    ) {
        let output = EngineCoreOutput {
            request_id: id,
            new_logprobs: Some(LogprobsLists {
                columns,
                token_ids: (0..tokens.len() * columns).map(|i| i as u32).collect(),
                logprobs: vec![-0.25; tokens.len() * columns],
                ranks: vec![3; tokens.len()],
            }),
            new_token_ids: tokens,
            ..EngineCoreOutput::default()
        };
        let batch = EngineCoreOutputs { outputs: vec![output.clone()], timestamp, ..EngineCoreOutputs::default() };
        let decoded = decode_outputs(&encode_outputs(&batch)).unwrap();
        prop_assert_eq!(decoded.outputs, vec![Ok(output)]);
        prop_assert_eq!(decoded.timestamp.to_bits(), timestamp.to_bits());
    }
}
