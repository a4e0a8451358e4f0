//! What only the engine knows, kept current: an engine that comes back may have found less memory than
//! the one before it, or be another one altogether.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use vllm_rs_engine_client::{EngineClient, EngineHealth};
use vllm_rs_flags::Config;
use vllm_rs_wire::EngineCoreReadyResponse;

use crate::metrics::EngineMetrics;
use crate::model::Model;

/// Tokens, prompt and answer together.
#[derive(Debug)]
pub struct MaxModelLen(AtomicU32);

impl From<u32> for MaxModelLen {
    fn from(tokens: u32) -> Self {
        Self(AtomicU32::new(tokens))
    }
}

impl MaxModelLen {
    pub fn get(&self) -> u32 {
        self.0.load(Relaxed)
    }

    /// Takes the engine's word for it.
    pub fn learn(&self, ready: &EngineCoreReadyResponse) {
        // Engines of other kinds may leave it out.
        if ready.max_model_len == 0 {
            return;
        }
        let tokens = u32::try_from(ready.max_model_len).unwrap_or(u32::MAX);
        let before = self.0.swap(tokens, Relaxed);
        if before != tokens {
            tracing::info!(
                before,
                max_model_len = tokens,
                "the engine has the last word on the context length"
            );
        }
    }
}

/// Takes over what the engine said when it last registered.
pub fn learn(config: &Config, ready: &EngineCoreReadyResponse, model: &Model, metrics: &EngineMetrics) {
    model.max_model_len.learn(ready);
    let cache = [
        ("block_size", ready.block_size.to_string()),
        ("num_gpu_blocks", ready.num_gpu_blocks.to_string()),
        ("cache_dtype", config.cache.kv_cache_dtype.as_str().to_owned()),
        (
            "enable_prefix_caching",
            config.cache.enable_prefix_caching.to_string(),
        ),
    ];
    metrics.set_cache_config(
        cache
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
    );
}

/// Does so each time the engine is ready again, until it is gone for good.
pub async fn follow(config: Config, client: EngineClient, model: Arc<Model>, metrics: Arc<EngineMetrics>) {
    let mut health = client.health();
    loop {
        let state = health.borrow_and_update().clone();
        match state {
            EngineHealth::Ready => learn(&config, &client.ready(), &model, &metrics),
            EngineHealth::Dead { .. } => return,
            _ => {}
        }
        if health.changed().await.is_err() {
            return;
        }
    }
}
