//! Figures that outlive a single message: the scheduler's last word, running totals, our own counters.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use vllm_rs_wire::{SchedulerStats, SpecDecodingStats};

/// Sums of the per-step deltas since this client started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StatsTotals {
    /// Tokens looked up in the prefix cache.
    pub prefix_cache_queries_tokens: u64,
    /// Tokens found there.
    pub prefix_cache_hits_tokens: u64,
    pub num_drafts: u64,
    pub num_draft_tokens: u64,
    pub num_accepted_tokens: u64,
}

/// What the scheduler last said, and the sums.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SchedulerSnapshot {
    pub num_running_reqs: u64,
    pub num_waiting_reqs: u64,
    /// Fraction of KV blocks in use, 0 to 1.
    pub kv_cache_usage: f64,
    pub step_counter: u64,
    /// When it came; `None` before the first.
    pub received_at: Option<Instant>,
    pub totals: StatsTotals,
}

impl SchedulerSnapshot {
    pub(crate) fn apply(&mut self, stats: &SchedulerStats) {
        self.num_running_reqs = stats.num_running_reqs;
        self.num_waiting_reqs = stats
            .num_waiting_reqs
            .saturating_add(stats.num_skipped_waiting_reqs);
        self.kv_cache_usage = stats.kv_cache_usage;
        self.step_counter = stats.step_counter;
        self.received_at = Some(Instant::now());
        let totals = &mut self.totals;
        let prefix = &stats.prefix_cache_stats;
        totals.prefix_cache_queries_tokens =
            totals.prefix_cache_queries_tokens.saturating_add(prefix.queries);
        totals.prefix_cache_hits_tokens = totals.prefix_cache_hits_tokens.saturating_add(prefix.hits);
        if let Some(SpecDecodingStats {
            num_drafts,
            num_draft_tokens,
            num_accepted_tokens,
            ..
        }) = stats.spec_decoding_stats
        {
            totals.num_drafts = totals.num_drafts.saturating_add(num_drafts);
            totals.num_draft_tokens = totals.num_draft_tokens.saturating_add(num_draft_tokens);
            totals.num_accepted_tokens = totals.num_accepted_tokens.saturating_add(num_accepted_tokens);
        }
    }

    /// After a death nothing runs or waits; the sums stay.
    pub(crate) fn clear_gauges(&mut self) {
        *self = Self {
            totals: self.totals,
            ..Self::default()
        };
    }
}

macro_rules! counters {
    ($($(#[$meta:meta])* $name:ident),* $(,)?) => {
        /// What the client itself has seen, counted since it started.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct ClientCounters { $( $(#[$meta])* pub $name: u64, )* }

        #[derive(Debug, Default)]
        pub(crate) struct Counters { $( pub(crate) $name: AtomicU64, )* }

        impl Counters {
            pub(crate) fn read(&self) -> ClientCounters {
                ClientCounters { $( $name: self.$name.load(Ordering::Relaxed), )* }
            }
        }
    };
}

counters! {
    /// Requests handed to the engine.
    requests_sent,
    /// Ids in ABORT messages.
    aborts_sent,
    aborts_client_gone,
    aborts_stop_string,
    aborts_timeout,
    aborts_shutdown,
    aborts_other,
    /// Messages read in full or in part.
    messages_received,
    /// Outputs for requests that were already over here.
    late_outputs,
    /// Outputs that could not be read but belonged to a known request.
    malformed_outputs,
    /// Messages that could not be attributed.
    malformed_messages,
    /// Faults in parts that no request depends on.
    malformed_side_parts,
    /// Outputs merged into one that a slow reader had not taken yet.
    coalesced_outputs,
    engine_deaths,
    /// Questions to an engine that was silent or made no sense, to see whether it still answers.
    probes_sent,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, count: usize) {
        counter.fetch_add(count as u64, Ordering::Relaxed);
    }
}
