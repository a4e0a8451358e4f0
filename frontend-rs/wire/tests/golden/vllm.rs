//! Messages that vLLM 0.32.0 encoded with its own encoder (`tests/contract/make_vllm_golden.py`).

use vllm_rs_wire::{
    EngineCoreEventType, EngineCoreRequest, FinishReason, RequestOutputKind, StopStrings, Value,
    decode_outputs, decode_request, encode_payload,
};

use crate::{cases, golden};

const FILE: &str = "vllm-0.32.0.json";

fn request(name: &str) -> EngineCoreRequest {
    let frames = golden(FILE).remove(name).expect(name);
    let request = decode_request(&frames).expect(name);
    // Opaque parts included, what we read is what we would write: byte for byte, defaults and order.
    assert_eq!(encode_payload(&request), frames, "{name}");
    request
}

#[test]
fn vllms_requests_are_read_and_written_back_byte_for_byte() {
    let full = request("request");
    assert_eq!(full.prompt_token_ids, Some(vec![1, 2, 3]));
    assert_eq!((full.client_index, full.cache_salt.as_deref()), (1, Some("s")));
    let sampling = full.sampling_params.unwrap();
    assert_eq!(
        (sampling.top_k, sampling.max_tokens, sampling.seed),
        (40, Some(9), Some(11))
    );
    assert_eq!(sampling.stop, Some(StopStrings(vec!["x".into()])));
    assert_eq!(sampling.output_kind, RequestOutputKind::Delta);
    assert_eq!(sampling.all_stop_token_ids.into_iter().collect::<Vec<_>>(), [5]);
    let regex = sampling.structured_outputs.unwrap().as_map().unwrap()[1]
        .1
        .clone();
    assert_eq!(regex, Value::from("a+"));

    let lora = request("request_lora").lora_request.unwrap();
    assert_eq!(lora.as_array().unwrap()[0], Value::from("l"));
    let pooling = request("request_pooling");
    assert!(pooling.sampling_params.is_none());
    assert_eq!(
        pooling.pooling_params.unwrap().as_array().unwrap()[4],
        Value::from("embed")
    );
    let embeds = request("request_embeds").prompt_embeds.unwrap();
    assert_eq!(
        (embeds.shape.clone(), embeds.to_f32()),
        (vec![20, 8], Some(vec![0.5; 160]))
    );
}

#[test]
fn vllms_outputs_are_read() {
    let mut golden = golden(FILE);
    let decoded = decode_outputs(&golden.remove("outputs").unwrap()).unwrap();
    assert!(decoded.side_errors.is_empty());
    let [Ok(first), Ok(last)] = &decoded.outputs[..] else {
        panic!("two outputs")
    };
    assert_eq!(first.new_logprobs, Some(cases::logprobs()));
    let of_prompt = first.new_prompt_logprobs_tensors.as_ref().unwrap();
    assert_eq!((of_prompt.positions(), of_prompt.columns), (80, 3));
    assert_eq!(
        of_prompt.row(79).unwrap(),
        (&[237, 238, 239][..], &[-1.5; 3][..], 1)
    );
    let event = &first.events.as_ref().unwrap()[0];
    assert_eq!(
        (event.event_type, event.timestamp),
        (Some(EngineCoreEventType::Queued), 2.5)
    );
    let prefill = first.prefill_stats.as_ref().unwrap();
    assert_eq!((prefill.num_prompt_tokens, prefill.num_cached_tokens), (81, 16));
    assert_eq!(
        (last.finish_reason, &last.new_token_ids[..]),
        (Some(FinishReason::Length), &[8, 9][..])
    );
    let stats = decoded.scheduler_stats.unwrap();
    assert_eq!((stats.num_running_reqs, stats.prefix_cache_stats.hits), (2, 16));

    let pooled = decode_outputs(&golden.remove("outputs_pooling").unwrap()).unwrap();
    let vector = pooled.outputs[0]
        .as_ref()
        .unwrap()
        .pooling_output
        .as_ref()
        .unwrap();
    assert_eq!(vector.to_f32(), Some(vec![0.5; 4]));
    let answered = decode_outputs(&golden.remove("outputs_utility").unwrap()).unwrap();
    let answer = answered.utility_output.unwrap();
    assert_eq!(
        (answer.call_id, answer.result.unwrap().0),
        (7, Value::Array(vec!["generate".into()]))
    );
}
