//! The line for whoever watches the log: throughput and queue lengths, every ten seconds while requests run.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use vllm_rs_engine_client::SchedulerSnapshot;

use crate::metrics::EngineMetrics;

const PERIOD: Duration = Duration::from_secs(10);

/// Counters at the last line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "the unit belongs to each name")]
struct Totals {
    prompt_tokens: u64,
    generation_tokens: u64,
    prefix_queries_tokens: u64,
    prefix_hits_tokens: u64,
}

impl Totals {
    fn of(metrics: &EngineMetrics, snapshot: &SchedulerSnapshot) -> Self {
        Self {
            prompt_tokens: metrics.prompt_tokens.get(),
            generation_tokens: metrics.generation_tokens.get(),
            prefix_queries_tokens: snapshot.totals.prefix_cache_queries_tokens,
            prefix_hits_tokens: snapshot.totals.prefix_cache_hits_tokens,
        }
    }
}

/// The line about the time since `before`, or nothing if the server did nothing.
fn line(before: Totals, now: Totals, snapshot: &SchedulerSnapshot, elapsed: Duration) -> Option<String> {
    if before == now && snapshot.num_running_reqs == 0 && snapshot.num_waiting_reqs == 0 {
        return None;
    }
    let per_second = |before: u64, now: u64| now.saturating_sub(before) as f64 / elapsed.as_secs_f64();
    let queries = now
        .prefix_queries_tokens
        .saturating_sub(before.prefix_queries_tokens);
    let hits = now.prefix_hits_tokens.saturating_sub(before.prefix_hits_tokens);
    let hit_rate = if queries == 0 {
        0.0
    } else {
        100.0 * hits as f64 / queries as f64
    };
    Some(format!(
        "prompt {:.1} tokens/s, generation {:.1} tokens/s, running {}, waiting {}, KV cache {:.1} % in use, \
         prefix cache hits {hit_rate:.1} %",
        per_second(before.prompt_tokens, now.prompt_tokens),
        per_second(before.generation_tokens, now.generation_tokens),
        snapshot.num_running_reqs,
        snapshot.num_waiting_reqs,
        100.0 * snapshot.kv_cache_usage,
    ))
}

/// Writes the lines until the engine's client is gone.
pub async fn follow(stats: watch::Receiver<SchedulerSnapshot>, metrics: Arc<EngineMetrics>) {
    let mut ticks = tokio::time::interval(PERIOD);
    let mut before = Totals::of(&metrics, &stats.borrow());
    ticks.tick().await;
    while stats.has_changed().is_ok() {
        ticks.tick().await;
        let snapshot = *stats.borrow();
        let now = Totals::of(&metrics, &snapshot);
        if let Some(line) = line(before, now, &snapshot, PERIOD) {
            tracing::info!("{line}");
        }
        before = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_the_period_and_silence_is_kept() {
        let mut snapshot = SchedulerSnapshot::default();
        let before = Totals::default();
        assert_eq!(line(before, before, &snapshot, PERIOD), None);
        let now = Totals {
            prompt_tokens: 100,
            generation_tokens: 50,
            prefix_queries_tokens: 200,
            prefix_hits_tokens: 50,
        };
        snapshot.num_running_reqs = 3;
        snapshot.kv_cache_usage = 0.25;
        assert_eq!(
            line(before, now, &snapshot, PERIOD).unwrap(),
            "prompt 10.0 tokens/s, generation 5.0 tokens/s, running 3, waiting 0, KV cache 25.0 % in use, \
             prefix cache hits 25.0 %"
        );
        // Nothing new, but a request is still running.
        assert!(line(now, now, &snapshot, PERIOD).is_some());
    }
}
