//! Metrics of requests and of the engine, under vLLM's names.

use std::sync::Mutex;

use super::buckets;
use super::primitives::{Counter, Histogram};
use super::render::{Exposition, labels};
use crate::engine::EngineSnapshot;

/// How a request ended; every request ends in exactly one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Terminal {
    Stop,
    Length,
    Abort,
    Error,
    Repetition,
}

impl Terminal {
    pub const ALL: [Self; 5] = [
        Self::Stop,
        Self::Length,
        Self::Abort,
        Self::Error,
        Self::Repetition,
    ];

    /// Value of the label `finished_reason`.
    pub fn label(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::Abort => "abort",
            Self::Error => "error",
            Self::Repetition => "repetition",
        }
    }
}

/// Everything that carries the labels `model_name` and `engine`.
#[derive(Debug)]
pub struct EngineMetrics {
    labels: String,
    model_name: String,
    pub requests_started: Counter,
    terminal: [Counter; 5],
    pub admission_rejections: Counter,
    pub prompt_tokens: Counter,
    pub prompt_tokens_cached: Counter,
    pub generation_tokens: Counter,
    pub preemptions: Counter,
    pub time_to_first_token_s: Histogram,
    pub inter_token_s: Histogram,
    pub time_per_output_token_s: Histogram,
    pub e2e_s: Histogram,
    pub queue_s: Histogram,
    pub prefill_s: Histogram,
    pub decode_s: Histogram,
    pub inference_s: Histogram,
    pub request_prompt_tokens: Histogram,
    pub request_generation_tokens: Histogram,
    pub request_max_generation_tokens: Histogram,
    pub request_prefill_computed_tokens: Histogram,
    pub request_n: Histogram,
    pub request_max_tokens: Histogram,
    pub iteration_tokens: Histogram,
    /// Bytes per part of the engine's memory, as it reported them.
    memory_bytes: Mutex<Vec<(String, f64)>>,
    /// Labels of `vllm:cache_config_info`.
    cache_config: Mutex<Vec<(String, String)>>,
}

impl EngineMetrics {
    pub fn new(model_name: &str, max_model_len: u64) -> Self {
        let tokens = buckets::token_counts(max_model_len);
        let seconds = || Histogram::new(buckets::REQUEST_S);
        Self {
            labels: labels(&[("model_name", model_name), ("engine", "0")]),
            model_name: model_name.to_owned(),
            requests_started: Counter::default(),
            terminal: Default::default(),
            admission_rejections: Counter::default(),
            prompt_tokens: Counter::default(),
            prompt_tokens_cached: Counter::default(),
            generation_tokens: Counter::default(),
            preemptions: Counter::default(),
            time_to_first_token_s: Histogram::new(buckets::TIME_TO_FIRST_TOKEN_S),
            inter_token_s: Histogram::new(buckets::INTER_TOKEN_S),
            time_per_output_token_s: Histogram::new(buckets::INTER_TOKEN_S),
            e2e_s: seconds(),
            queue_s: seconds(),
            prefill_s: seconds(),
            decode_s: seconds(),
            inference_s: seconds(),
            request_prompt_tokens: Histogram::new(&tokens),
            request_generation_tokens: Histogram::new(&tokens),
            request_max_generation_tokens: Histogram::new(&tokens),
            request_prefill_computed_tokens: Histogram::new(&tokens),
            request_n: Histogram::new(buckets::CHOICES),
            request_max_tokens: Histogram::new(&tokens),
            iteration_tokens: Histogram::new(buckets::ITERATION_TOKENS),
            memory_bytes: Mutex::default(),
            cache_config: Mutex::default(),
        }
    }

    pub fn terminal(&self, reason: Terminal) -> &Counter {
        &self.terminal[reason as usize]
    }

    pub fn finished(&self) -> u64 {
        self.terminal.iter().map(Counter::get).sum()
    }

    /// Replaces the memory table.
    pub fn set_memory(&self, parts: Vec<(String, f64)>) {
        if let Ok(mut memory) = self.memory_bytes.lock() {
            *memory = parts;
        }
    }

    /// Replaces the labels of `vllm:cache_config_info`.
    pub fn set_cache_config(&self, labels: Vec<(String, String)>) {
        if let Ok(mut current) = self.cache_config.lock() {
            *current = labels;
        }
    }

    pub fn render(&self, snapshot: EngineSnapshot, out: &mut Exposition) {
        self.render_gauges(snapshot, out);
        self.render_counters(snapshot, out);
        self.render_latency(out);
        self.render_sizes(out);
    }

    fn render_gauges(&self, snapshot: EngineSnapshot, out: &mut Exposition) {
        let base = &self.labels;
        let running = snapshot.running_requests as f64;
        out.gauge(
            "vllm:num_requests_running",
            "Requests in the engine's running batch.",
            base,
            running,
        );
        let waiting = snapshot.waiting_requests as f64;
        out.gauge(
            "vllm:num_requests_waiting",
            "Requests that wait to be scheduled.",
            base,
            waiting,
        );
        let usage = snapshot.kv_cache_usage;
        out.gauge(
            "vllm:kv_cache_usage_perc",
            "Share of KV-cache blocks in use, 0 to 1.",
            base,
            usage,
        );
        let mut config: Vec<(&str, &str)> = vec![("engine", "0")];
        let cache_config = self.cache_config.lock().map(|labels| labels.clone());
        let cache_config = cache_config.unwrap_or_default();
        config.extend(
            cache_config
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_str())),
        );
        out.gauge(
            "vllm:cache_config_info",
            "Configuration of the KV cache.",
            &labels(&config),
            1.0,
        );
        let memory = self
            .memory_bytes
            .lock()
            .map(|parts| parts.clone())
            .unwrap_or_default();
        if !memory.is_empty() {
            out.family(
                "vllm_rs:memory_bytes",
                "gauge",
                "Memory of the engine by part, bytes.",
            );
            for (part, bytes) in &memory {
                let set = labels(&[("model_name", &self.model_name), ("engine", "0"), ("part", part)]);
                out.sample(&set, *bytes);
            }
        }
    }

    fn render_counters(&self, snapshot: EngineSnapshot, out: &mut Exposition) {
        let base = &self.labels;
        let counters: [(&str, &str, u64); 9] = [
            (
                "vllm_rs:requests_started_total",
                "Sequences accepted for generation.",
                self.requests_started.get(),
            ),
            (
                "vllm_rs:engine_deaths_total",
                "Times the engine process died.",
                snapshot.deaths,
            ),
            (
                "vllm:admission_rejections_total",
                "Requests refused with 429.",
                self.admission_rejections.get(),
            ),
            (
                "vllm:prompt_tokens_total",
                "Prompt tokens processed.",
                self.prompt_tokens.get(),
            ),
            (
                "vllm:prompt_tokens_cached_total",
                "Prompt tokens found in the prefix cache.",
                self.prompt_tokens_cached.get(),
            ),
            (
                "vllm:generation_tokens_total",
                "Tokens generated.",
                self.generation_tokens.get(),
            ),
            (
                "vllm:num_preemptions_total",
                "Preemptions of running requests.",
                self.preemptions.get(),
            ),
            (
                "vllm:prefix_cache_queries_total",
                "Tokens looked up in the prefix cache.",
                snapshot.prefix_cache_queries_tokens,
            ),
            (
                "vllm:prefix_cache_hits_total",
                "Tokens found in the prefix cache.",
                snapshot.prefix_cache_hits_tokens,
            ),
        ];
        for (name, help, counter) in counters {
            out.counter(name, help, base, counter);
        }
        out.family(
            "vllm:request_success_total",
            "counter",
            "Sequences ended, by the reason.",
        );
        for reason in Terminal::ALL {
            let set = labels(&[
                ("model_name", &self.model_name),
                ("engine", "0"),
                ("finished_reason", reason.label()),
            ]);
            out.sample(&set, self.terminal(reason).get() as f64);
        }
    }

    fn render_latency(&self, out: &mut Exposition) {
        let rows: [(&str, &str, &Histogram); 8] = [
            (
                "vllm:time_to_first_token_seconds",
                "Arrival to first token.",
                &self.time_to_first_token_s,
            ),
            (
                "vllm:inter_token_latency_seconds",
                "Time between two tokens of a request.",
                &self.inter_token_s,
            ),
            (
                "vllm:request_time_per_output_token_seconds",
                "Mean time per token after the first, per request.",
                &self.time_per_output_token_s,
            ),
            (
                "vllm:e2e_request_latency_seconds",
                "Arrival to last token.",
                &self.e2e_s,
            ),
            (
                "vllm:request_queue_time_seconds",
                "Time in the waiting queue.",
                &self.queue_s,
            ),
            (
                "vllm:request_prefill_time_seconds",
                "Scheduled to first token.",
                &self.prefill_s,
            ),
            (
                "vllm:request_decode_time_seconds",
                "First to last token.",
                &self.decode_s,
            ),
            (
                "vllm:request_inference_time_seconds",
                "Scheduled to last token.",
                &self.inference_s,
            ),
        ];
        for (name, help, histogram) in rows {
            out.histogram(name, help, &self.labels, histogram);
        }
    }

    fn render_sizes(&self, out: &mut Exposition) {
        let rows: [(&str, &str, &Histogram); 7] = [
            (
                "vllm:request_prompt_tokens",
                "Prompt tokens per request.",
                &self.request_prompt_tokens,
            ),
            (
                "vllm:request_generation_tokens",
                "Generated tokens per request.",
                &self.request_generation_tokens,
            ),
            (
                "vllm:request_max_num_generation_tokens",
                "Longest choice of a request, tokens.",
                &self.request_max_generation_tokens,
            ),
            (
                "vllm:request_prefill_kv_computed_tokens",
                "Prompt tokens computed, not found in a cache.",
                &self.request_prefill_computed_tokens,
            ),
            (
                "vllm:iteration_tokens_total",
                "Tokens per engine step.",
                &self.iteration_tokens,
            ),
            ("vllm:request_params_n", "Choices asked for.", &self.request_n),
            (
                "vllm:request_params_max_tokens",
                "max_tokens asked for.",
                &self.request_max_tokens,
            ),
        ];
        for (name, help, histogram) in rows {
            out.histogram(name, help, &self.labels, histogram);
        }
    }
}
