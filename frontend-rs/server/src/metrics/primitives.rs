//! Counters, gauges and histograms made of atomics: recording a token event takes no lock.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Relaxed);
    }

    pub fn inc(&self) {
        self.add(1);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A number of things that exist now.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    pub fn inc(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    /// Undoes one `inc`.
    pub fn dec(&self) {
        self.0.fetch_sub(1, Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Counts of observations at or below each bound.
#[derive(Debug)]
pub struct Histogram {
    bounds: Vec<f64>,
    /// One per bound and one above the last; not cumulative.
    counts: Vec<AtomicU64>,
    /// Bits of an `f64`.
    sum: AtomicU64,
}

/// What a histogram held at one moment, cumulative as Prometheus wants it.
#[derive(Debug, Clone, PartialEq)]
pub struct HistogramSnapshot {
    pub buckets: Vec<(f64, u64)>,
    pub count: u64,
    pub sum: f64,
}

impl Histogram {
    /// `bounds` ascend; the bucket above the last is implied.
    pub fn new(bounds: &[f64]) -> Self {
        Self {
            bounds: bounds.to_vec(),
            counts: (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect(),
            sum: AtomicU64::new(0),
        }
    }

    pub fn observe(&self, value: f64) {
        self.observe_many(value, 1);
    }

    /// Records `times` equal observations at the cost of one.
    pub fn observe_many(&self, value: f64, times: u64) {
        if times == 0 || !value.is_finite() {
            return;
        }
        let index = self.bounds.partition_point(|bound| *bound < value);
        self.counts[index].fetch_add(times, Relaxed);
        let add = |bits: u64| (f64::from_bits(bits) + value * times as f64).to_bits();
        // Fails only while another thread adds; the loop inside retries.
        let _ = self.sum.fetch_update(Relaxed, Relaxed, |bits| Some(add(bits)));
    }

    pub fn snapshot(&self) -> HistogramSnapshot {
        let mut count = 0;
        let mut buckets = Vec::with_capacity(self.bounds.len());
        for (bound, bucket) in self.bounds.iter().zip(&self.counts) {
            count += bucket.load(Relaxed);
            buckets.push((*bound, count));
        }
        count += self.counts[self.bounds.len()].load(Relaxed);
        HistogramSnapshot {
            buckets,
            count,
            sum: f64::from_bits(self.sum.load(Relaxed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_cumulative_and_bounds_inclusive() {
        let histogram = Histogram::new(&[1.0, 2.0]);
        histogram.observe(1.0);
        histogram.observe(1.5);
        histogram.observe_many(9.0, 2);
        let snapshot = histogram.snapshot();
        assert_eq!(snapshot.buckets, vec![(1.0, 1), (2.0, 2)]);
        assert_eq!(snapshot.count, 4);
        assert!((snapshot.sum - 20.5).abs() < 1e-9);
    }
}
