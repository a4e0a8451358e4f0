//! An engine that comes back, and what the routes then know of it.

mod common;

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use vllm_rs_engine_client::mock::{MockConfig, run_mock_engine};
use vllm_rs_engine_client::{ClientConfig, EngineClient, EngineHealth, EngineSource, RuntimeDir};
use vllm_rs_flags::Config;
use vllm_rs_server::engine::EngineSnapshot;
use vllm_rs_server::facts;
use vllm_rs_server::metrics::EngineMetrics;
use vllm_rs_server::metrics::render::Exposition;

const PATIENCE: Duration = Duration::from_mins(1);

#[tokio::test]
async fn the_facts_are_those_of_the_engine_that_serves_now() {
    let dir = RuntimeDir::create(None).expect("a folder");
    let handshake_address = dir.address("h");
    let mut config = ClientConfig::new(EngineSource::External {
        handshake_address: handshake_address.clone(),
    });
    config.restart.backoff = Duration::from_millis(1);
    let client = EngineClient::start(config).expect("sockets");
    let model = Arc::new(common::tiny_model::model());
    let metrics = Arc::new(EngineMetrics::new("tiny", 100));
    tokio::spawn(facts::follow(
        Config::default(),
        client.clone(),
        model.clone(),
        metrics.clone(),
    ));
    for (max_model_len, num_gpu_blocks) in [(100, 7), (60, 5)] {
        let stop = CancellationToken::new();
        let mock = MockConfig {
            max_model_len,
            num_gpu_blocks,
            ..MockConfig::default()
        };
        let engine = tokio::spawn(run_mock_engine(mock, handshake_address.clone(), stop.clone()));
        let mut health = client.health();
        tokio::time::timeout(PATIENCE, health.wait_for(EngineHealth::is_ready))
            .await
            .expect("in time")
            .expect("the client lives");
        tokio::time::timeout(PATIENCE, async {
            let expected = format!("num_gpu_blocks=\"{num_gpu_blocks}\"");
            while model.max_model_len.get() != max_model_len || !exposed(&metrics).contains(&expected) {
                tokio::task::yield_now().await;
            }
        })
        .await
        .expect("the facts in time");
        stop.cancel();
        engine.await.expect("no panic").expect("it stops when told");
        tokio::time::timeout(PATIENCE, health.wait_for(|health| !health.is_ready()))
            .await
            .expect("in time")
            .expect("the client lives");
    }
}

fn exposed(metrics: &EngineMetrics) -> String {
    let mut out = Exposition::default();
    metrics.render(EngineSnapshot::default(), &mut out);
    out.into_text()
}
