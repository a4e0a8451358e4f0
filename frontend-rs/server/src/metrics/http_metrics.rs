//! Metrics of HTTP itself, under the names of the Python server's instrumentation.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use super::buckets;
use super::primitives::{Counter, Gauge, Histogram};
use super::render::{Exposition, labels};

/// (handler, method, status class).
type RequestKey = (String, &'static str, &'static str);

/// Requests and their durations by handler. Keys are route patterns and known methods, so their number is bounded.
#[derive(Debug)]
pub struct HttpMetrics {
    requests: Mutex<BTreeMap<RequestKey, Counter>>,
    durations_s: Mutex<BTreeMap<(String, &'static str), Histogram>>,
    duration_fine_s: Histogram,
    pub open_connections: Gauge,
}

impl Default for HttpMetrics {
    fn default() -> Self {
        Self {
            requests: Mutex::default(),
            durations_s: Mutex::default(),
            duration_fine_s: Histogram::new(buckets::HTTP_FINE_S),
            open_connections: Gauge::default(),
        }
    }
}

fn known_method(method: &str) -> &'static str {
    const KNOWN: [&str; 7] = ["GET", "POST", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS"];
    KNOWN.into_iter().find(|name| *name == method).unwrap_or("OTHER")
}

fn status_class(status: u16) -> &'static str {
    ["1xx", "2xx", "3xx", "4xx", "5xx"][usize::from((status / 100).clamp(1, 5) - 1)]
}

impl HttpMetrics {
    /// Records one answered request; `handler` is the route's pattern, or "none".
    pub fn record(&self, handler: &str, method: &str, status: u16, duration: Duration) {
        let method = known_method(method);
        let seconds = duration.as_secs_f64();
        self.duration_fine_s.observe(seconds);
        if let Ok(mut requests) = self.requests.lock() {
            requests
                .entry((handler.to_owned(), method, status_class(status)))
                .or_default()
                .inc();
        }
        if let Ok(mut durations) = self.durations_s.lock() {
            let new = || Histogram::new(buckets::HTTP_S);
            durations
                .entry((handler.to_owned(), method))
                .or_insert_with(new)
                .observe(seconds);
        }
    }

    pub fn render(&self, out: &mut Exposition) {
        out.gauge(
            "vllm_rs:open_connections",
            "Client connections that are open.",
            "",
            self.open_connections.get() as f64,
        );
        out.family(
            "http_requests_total",
            "counter",
            "HTTP requests by handler, method and status class.",
        );
        if let Ok(requests) = self.requests.lock() {
            for ((handler, method, status), counter) in requests.iter() {
                let set = labels(&[("handler", handler), ("method", method), ("status", status)]);
                out.sample(&set, counter.get() as f64);
            }
        }
        out.family(
            "http_request_duration_seconds",
            "histogram",
            "Time to the response's head, by handler.",
        );
        if let Ok(durations) = self.durations_s.lock() {
            for ((handler, method), histogram) in durations.iter() {
                out.histogram_samples(&labels(&[("handler", handler), ("method", method)]), histogram);
            }
        }
        out.histogram(
            "http_request_duration_highr_seconds",
            "Time to the response's head, all handlers, fine buckets.",
            "",
            &self.duration_fine_s,
        );
    }
}
