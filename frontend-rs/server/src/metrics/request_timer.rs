//! The times and counts of one sequence, from its start to its single end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use super::engine_metrics::{EngineMetrics, Terminal};

/// The sequences of one HTTP request; the last one to end records the longest.
#[derive(Debug)]
pub struct RequestGroup {
    metrics: Arc<EngineMetrics>,
    max_output_tokens: AtomicU64,
}

impl RequestGroup {
    pub fn new(metrics: Arc<EngineMetrics>) -> Arc<Self> {
        Arc::new(Self {
            metrics,
            max_output_tokens: AtomicU64::new(0),
        })
    }
}

impl Drop for RequestGroup {
    fn drop(&mut self) {
        self.metrics
            .request_max_generation_tokens
            .observe(*self.max_output_tokens.get_mut() as f64);
    }
}

/// Follows one sequence. Dropped before `finish`, it counts as aborted, so that every sequence started is one ended.
#[derive(Debug)]
pub struct RequestTimer {
    metrics: Arc<EngineMetrics>,
    group: Arc<RequestGroup>,
    arrival: Instant,
    first_token: Option<Instant>,
    last_token: Option<Instant>,
    queue_s: Option<f64>,
    prompt_tokens: u64,
    cached_tokens: u64,
    output_tokens: u64,
    ended: bool,
}

impl RequestTimer {
    pub fn start(group: Arc<RequestGroup>, arrival: Instant, prompt_tokens: u64) -> Self {
        let metrics = group.metrics.clone();
        metrics.requests_started.inc();
        Self {
            metrics,
            group,
            arrival,
            first_token: None,
            last_token: None,
            queue_s: None,
            prompt_tokens,
            cached_tokens: 0,
            output_tokens: 0,
            ended: false,
        }
    }

    pub fn output_tokens(&self) -> u64 {
        self.output_tokens
    }

    pub fn set_queue_time(&mut self, seconds: f64) {
        self.queue_s.get_or_insert(seconds.max(0.0));
    }

    pub fn set_cached_tokens(&mut self, tokens: u64) {
        self.cached_tokens = tokens.min(self.prompt_tokens);
    }

    /// Records that `tokens` new tokens came from the engine at once, `at` that time. When the client takes them is
    /// another matter.
    pub fn on_tokens(&mut self, tokens: u64, at: Instant) {
        if tokens == 0 {
            return;
        }
        let metrics = &self.metrics;
        metrics.generation_tokens.add(tokens);
        if let Some(last) = self.last_token {
            let each_s = at.duration_since(last).as_secs_f64() / tokens as f64;
            metrics.inter_token_s.observe_many(each_s, tokens);
        } else {
            self.first_token = Some(at);
            metrics.prompt_tokens.add(self.prompt_tokens);
            metrics.prompt_tokens_cached.add(self.cached_tokens);
            metrics
                .time_to_first_token_s
                .observe(at.duration_since(self.arrival).as_secs_f64());
        }
        self.last_token = Some(at);
        self.output_tokens += tokens;
    }

    /// Ends the sequence; later calls change nothing.
    pub fn finish(&mut self, reason: Terminal) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        let metrics = &self.metrics;
        metrics.terminal(reason).inc();
        let end = match reason {
            Terminal::Abort | Terminal::Error => None,
            Terminal::Stop | Terminal::Length | Terminal::Repetition => self.last_token,
        };
        let e2e = end.unwrap_or_else(Instant::now).duration_since(self.arrival);
        metrics.e2e_s.observe(e2e.as_secs_f64());
        self.group
            .max_output_tokens
            .fetch_max(self.output_tokens, Relaxed);
        metrics.request_prompt_tokens.observe(self.prompt_tokens as f64);
        metrics
            .request_generation_tokens
            .observe(self.output_tokens as f64);
        let (Some(first), Some(last)) = (self.first_token, self.last_token) else {
            return;
        };
        let decode_s = last.duration_since(first).as_secs_f64();
        metrics.decode_s.observe(decode_s);
        if self.output_tokens > 1 {
            metrics
                .time_per_output_token_s
                .observe(decode_s / (self.output_tokens - 1) as f64);
        }
        metrics
            .request_prefill_computed_tokens
            .observe((self.prompt_tokens - self.cached_tokens) as f64);
        if let Some(queue_s) = self.queue_s {
            let first_s = first.duration_since(self.arrival).as_secs_f64();
            let prefill_s = (first_s - queue_s).max(0.0);
            metrics.queue_s.observe(queue_s);
            metrics.prefill_s.observe(prefill_s);
            metrics.inference_s.observe(prefill_s + decode_s);
        }
    }
}

impl Drop for RequestTimer {
    fn drop(&mut self) {
        self.finish(Terminal::Abort);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_start_has_exactly_one_end() {
        let metrics = Arc::new(EngineMetrics::new("m", 100));
        let group = RequestGroup::new(metrics.clone());
        let start = || RequestTimer::start(group.clone(), Instant::now(), 3);
        let mut stopped = start();
        stopped.on_tokens(2, Instant::now());
        stopped.finish(Terminal::Stop);
        stopped.finish(Terminal::Error);
        drop(stopped);
        drop(start());
        let running = start();
        assert_eq!(metrics.requests_started.get(), 3);
        assert_eq!(metrics.finished(), 2);
        assert_eq!(metrics.terminal(Terminal::Stop).get(), 1);
        assert_eq!(metrics.terminal(Terminal::Abort).get(), 1);
        drop(running);
        assert_eq!(metrics.finished(), 3);
        assert_eq!(metrics.generation_tokens.get(), 2);
        drop(group);
        let longest = metrics.request_max_generation_tokens.snapshot();
        assert_eq!((longest.count, longest.sum as u64), (1, 2));
    }

    #[test]
    fn latencies_are_the_engine_s_per_token() {
        let metrics = Arc::new(EngineMetrics::new("m", 100));
        let arrival = Instant::now();
        let after = |milliseconds| arrival + Duration::from_millis(milliseconds);
        let mut timer = RequestTimer::start(RequestGroup::new(metrics.clone()), arrival, 3);
        // All of it is taken now, long before it "came".
        timer.on_tokens(1, after(1000));
        timer.on_tokens(1, after(1300));
        timer.on_tokens(3, after(1900));
        timer.finish(Terminal::Length);
        let sums = |histogram: &super::super::primitives::Histogram| {
            let snapshot = histogram.snapshot();
            (snapshot.count, (snapshot.sum * 1e3).round() as u64)
        };
        assert_eq!(sums(&metrics.time_to_first_token_s), (1, 1000));
        // 300 ms, then three of 200 ms.
        assert_eq!(sums(&metrics.inter_token_s), (4, 900));
        assert_eq!(sums(&metrics.e2e_s), (1, 1900));
        assert_eq!(sums(&metrics.decode_s), (1, 900));
    }
}
