//! Requests in, outputs out: against the mock engine, over real sockets.

mod common;

use std::collections::BTreeSet;
use std::time::Duration;

use common::{collect, config, connect, mock_config, request, soon, tokens};
use futures::StreamExt;
use vllm_rs_engine_client::mock::{MockConfig, MockTokens};
use vllm_rs_engine_client::{AbortCause, ClientError, EngineClient, EngineSource};
use vllm_rs_wire::{EngineCoreRequest, FinishReason, SamplingParams, StopReason, Tensor, Value};

#[tokio::test]
async fn a_request_runs_to_its_length_and_repeats_itself() {
    let client = connect(MockConfig {
        tokens_per_output: 3,
        ..MockConfig::default()
    })
    .await;
    let items = collect(client.submit(request("a", 10)).unwrap()).await;
    let last = items.last().unwrap().as_ref().unwrap();
    assert_eq!(last.finish_reason, Some(FinishReason::Length));
    let first: Vec<u32> = items
        .into_iter()
        .flat_map(|item| item.unwrap().new_token_ids)
        .collect();
    assert_eq!(first.len(), 10);
    assert_eq!(tokens(client.submit(request("b", 10)).unwrap()).await, first);
    let mut seeded = request("c", 10);
    seeded.sampling_params.as_mut().unwrap().seed = Some(1);
    assert_ne!(tokens(client.submit(seeded).unwrap()).await, first);
    assert_eq!(client.open_requests(), 0);
}

#[tokio::test]
async fn many_requests_share_the_engine() {
    let client = connect(MockConfig {
        tokens_per_output: 2,
        ..MockConfig::default()
    })
    .await;
    let streams: Vec<_> = (0..200)
        .map(|i| client.submit(request(&format!("r{i}"), 1 + i % 40)).unwrap())
        .collect();
    for (i, stream) in streams.into_iter().enumerate() {
        assert_eq!(tokens(stream).await.len(), 1 + i % 40);
    }
    assert_eq!(client.counters().requests_sent, 200);
    assert_eq!(client.counters().aborts_sent, 0);
}

#[tokio::test]
async fn stop_tokens_end_a_request_once_it_may_stop() {
    let client = connect(MockConfig {
        tokens: MockTokens::EchoPrompt,
        ..MockConfig::default()
    })
    .await;
    let mut stopped = request("a", 50);
    stopped.sampling_params.as_mut().unwrap().stop_token_ids = Some(vec![3]);
    let last = collect(client.submit(stopped).unwrap())
        .await
        .pop()
        .unwrap()
        .unwrap();
    assert_eq!(last.finish_reason, Some(FinishReason::Stop));
    assert_eq!(last.stop_reason, Some(StopReason::TokenId(3)));

    let client = connect(MockConfig::default()).await;
    let sampling = SamplingParams {
        max_tokens: Some(20),
        min_tokens: 20,
        all_stop_token_ids: (0..31_999).collect::<BTreeSet<u32>>(),
        ..SamplingParams::default()
    };
    let held = EngineCoreRequest {
        sampling_params: Some(sampling),
        ..request("b", 0)
    };
    assert_eq!(tokens(client.submit(held).unwrap()).await, [31_999; 20]);
}

#[tokio::test]
async fn logprobs_line_up_with_their_tokens_even_when_merged() {
    let client = connect(MockConfig {
        tokens_per_output: 2,
        ..MockConfig::default()
    })
    .await;
    let mut scored = request("a", 301);
    let sampling = scored.sampling_params.as_mut().unwrap();
    (sampling.logprobs, sampling.prompt_logprobs) = (Some(4), Some(2));
    let stream = client.submit(scored).unwrap();
    let mut stats = client.stats();
    soon("the last step", stats.wait_for(|stats| stats.step_counter >= 151))
        .await
        .unwrap();
    let items = collect(stream).await;
    assert!(items.len() < 151, "a slow reader gets merged outputs");
    let mut seen = 0;
    for (index, item) in items.into_iter().map(Result::unwrap).enumerate() {
        let rows = item.new_logprobs.unwrap();
        assert_eq!((rows.positions(), rows.columns), (item.new_token_ids.len(), 5));
        for (position, &token) in item.new_token_ids.iter().enumerate() {
            assert_eq!(rows.row(position).unwrap().0[0], token);
        }
        let of_prompt = item
            .new_prompt_logprobs_tensors
            .map(|rows| (rows.positions(), rows.columns));
        assert_eq!(of_prompt, (index == 0).then_some((2, 3)));
        seen += item.new_token_ids.len();
    }
    assert_eq!(seen, 301);
}

/// Slow enough that a request of 1000 tokens cannot end by itself within a test.
fn slow() -> MockConfig {
    MockConfig {
        tokens_per_second: 20.0,
        max_num_seqs: 1,
        ..MockConfig::default()
    }
}

#[tokio::test]
async fn dropping_a_stream_aborts_its_request() {
    // The engine runs one request at a time, so the second runs only if the first is gone.
    let client = connect(slow()).await;
    let mut dropped = client.submit(request("a", 1000)).unwrap();
    soon("the first token", dropped.next()).await.unwrap().unwrap();
    drop(dropped);
    assert_eq!(tokens(client.submit(request("b", 1)).unwrap()).await.len(), 1);
    let counters = client.counters();
    assert_eq!((counters.aborts_client_gone, counters.aborts_sent), (1, 1));
}

#[tokio::test]
async fn an_abort_keeps_its_cause_and_a_finished_stream_needs_none() {
    let client = connect(slow()).await;
    let mut stopped = client.submit(request("a", 1000)).unwrap();
    soon("the first token", stopped.next()).await.unwrap().unwrap();
    stopped.abort(AbortCause::StopString);
    let finished = client.submit(request("a", 1)).unwrap();
    assert_eq!(tokens(finished).await.len(), 1);
    let counters = client.counters();
    assert_eq!((counters.aborts_stop_string, counters.aborts_client_gone), (1, 0));
}

#[tokio::test]
async fn what_cannot_be_sent_is_an_error_and_not_silence() {
    let source = EngineSource::External {
        handshake_address: "tcp://127.0.0.1:0".into(),
    };
    let client = EngineClient::start(config(source)).unwrap();
    let error = client.submit(request("a", 1)).unwrap_err();
    assert!(matches!(error, ClientError::NotReady { .. }), "{error}");
    let error = soon("the call", client.utility("is_sleeping", vec![]))
        .await
        .unwrap_err();
    assert!(matches!(error, ClientError::NotReady { .. }), "{error}");
    client.shutdown().await;
    assert!(matches!(
        client.submit(request("a", 1)),
        Err(ClientError::Dead { .. })
    ));
}

#[tokio::test]
async fn ids_are_unique_and_open_requests_are_bounded() {
    let config = vllm_rs_engine_client::ClientConfig {
        max_open_requests: 2,
        ..mock_config(slow())
    };
    let client = soon("connecting", EngineClient::connect(config)).await.unwrap();
    let first = client.submit(request("a", 1000)).unwrap();
    assert!(matches!(
        client.submit(request("a", 1)),
        Err(ClientError::DuplicateRequest { .. })
    ));
    let _second = client.submit(request("b", 1000)).unwrap();
    let refused = client.submit(request("c", 1)).unwrap_err();
    assert_eq!(refused, ClientError::TooManyRequests { limit: 2, open: 2 });
    drop(first);
    client.submit(request("c", 1)).unwrap();
}

#[tokio::test]
async fn utility_calls_find_their_answers() {
    let client = connect(MockConfig::default()).await;
    let tasks = soon("a call", client.utility("get_supported_tasks", vec![]))
        .await
        .unwrap();
    assert_eq!(tasks, Value::Array(vec!["generate".into()]));
    let calls = ["is_sleeping", "reset_prefix_cache"].map(|method| client.utility(method, vec![]));
    let [sleeping, reset] = soon("two calls", futures::future::join_all(calls))
        .await
        .try_into()
        .unwrap();
    assert_eq!(
        (sleeping.unwrap(), reset.unwrap()),
        (Value::Boolean(false), Value::Boolean(true))
    );
    let error = soon("a call", client.utility("fly", vec![])).await.unwrap_err();
    assert!(
        matches!(&error, ClientError::Utility { method, .. } if method == "fly"),
        "{error}"
    );
}

#[tokio::test]
async fn a_message_of_many_megabytes_arrives_whole() {
    let client = connect(MockConfig {
        max_model_len: 4 << 20,
        ..MockConfig::default()
    })
    .await;
    let prompt: Vec<u32> = (0..1_000_000).collect();
    let embeds = Tensor::from_f32(vec![1 << 20, 4], &vec![0.5; 4 << 20]);
    let big = EngineCoreRequest {
        prompt_token_ids: Some(prompt),
        prompt_embeds: Some(embeds),
        ..request("big", 2)
    };
    let items = collect(client.submit(big).unwrap()).await;
    let stats = items[0].as_ref().unwrap().prefill_stats.clone().unwrap();
    assert_eq!(stats.num_prompt_tokens, 1_000_000);
}

#[tokio::test]
async fn a_stream_keeps_only_so_much_for_a_reader_that_does_not_read() {
    let config = vllm_rs_engine_client::ClientConfig {
        max_buffered_tokens: 100,
        ..mock_config(MockConfig::default())
    };
    let client = soon("connecting", EngineClient::connect(config)).await.unwrap();
    let stream = client.submit(request("a", 5000)).unwrap();
    let mut stats = client.stats();
    soon("the overflow", stats.wait_for(|stats| stats.step_counter > 100))
        .await
        .unwrap();
    let error = common::failure(stream).await;
    assert!(
        matches!(
            error,
            vllm_rs_engine_client::StreamError::Overflow { limit: 100, .. }
        ),
        "{error}"
    );
    assert_eq!(client.open_requests(), 0);
}

#[tokio::test]
async fn first_token_delay_and_rate_are_kept() {
    let mock = MockConfig {
        first_token_delay: Duration::from_millis(60),
        tokens_per_second: 100.0,
        ..MockConfig::default()
    };
    let client = connect(mock).await;
    let started = std::time::Instant::now();
    assert_eq!(tokens(client.submit(request("a", 11)).unwrap()).await.len(), 11);
    assert!(
        started.elapsed() >= Duration::from_millis(155),
        "{:?}",
        started.elapsed()
    );
}
