//! What every test of the client needs.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "test support: each test binary uses its own part of it"
)]

use std::future::Future;
use std::time::Duration;

use futures::StreamExt;
use vllm_rs_engine_client::mock::MockConfig;
use vllm_rs_engine_client::{
    ClientConfig, EngineClient, EngineHealth, EngineSource, OutputStream, RestartPolicy, StreamError,
};
use vllm_rs_wire::{EngineCoreOutput, EngineCoreRequest, SamplingParams};

/// Long enough for a busy machine, short enough to notice a hang.
const PATIENCE: Duration = Duration::from_mins(1);

/// Fails the test instead of hanging it.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future)
        .await
        .unwrap_or_else(|_| panic!("{what} took too long"))
}

pub fn config(source: EngineSource) -> ClientConfig {
    ClientConfig {
        restart: RestartPolicy {
            backoff: Duration::from_millis(1),
            ..RestartPolicy::default()
        },
        ..ClientConfig::new(source)
    }
}

pub fn mock_config(mock: MockConfig) -> ClientConfig {
    config(EngineSource::Mock(Box::new(mock)))
}

pub async fn connect(mock: MockConfig) -> EngineClient {
    soon("connecting", EngineClient::connect(mock_config(mock)))
        .await
        .unwrap()
}

pub fn request(id: &str, max_tokens: u32) -> EngineCoreRequest {
    EngineCoreRequest {
        request_id: id.to_owned(),
        prompt_token_ids: Some(vec![1, 2, 3]),
        sampling_params: Some(SamplingParams {
            max_tokens: Some(max_tokens),
            ..SamplingParams::default()
        }),
        ..EngineCoreRequest::default()
    }
}

/// Everything a stream gives, to its end.
pub async fn collect(stream: OutputStream) -> Vec<Result<EngineCoreOutput, StreamError>> {
    soon("a stream", stream.collect()).await
}

/// The tokens of a stream that ends well.
pub async fn tokens(stream: OutputStream) -> Vec<u32> {
    collect(stream)
        .await
        .into_iter()
        .flat_map(|item| item.unwrap().new_token_ids)
        .collect()
}

/// The error that a stream ends with.
pub async fn failure(stream: OutputStream) -> StreamError {
    collect(stream)
        .await
        .pop()
        .expect("an item")
        .expect_err("an error at the end")
}

pub async fn health_becomes(client: &EngineClient, wanted: impl Fn(&EngineHealth) -> bool) -> EngineHealth {
    let mut health = client.health();
    soon("a change of health", health.wait_for(|health| wanted(health)))
        .await
        .unwrap()
        .clone()
}
