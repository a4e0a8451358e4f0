//! Prometheus text exposition, format 0.0.4.

use std::fmt::Write as _;

use super::primitives::Histogram;

/// `Content-Type` of the exposition.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Collects the exposition of all metrics, one family after the other.
#[derive(Debug, Default)]
pub struct Exposition {
    text: String,
    family: String,
}

fn escape(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

/// Joins labels as they stand between braces.
pub fn labels(pairs: &[(&str, &str)]) -> String {
    let mut out = String::new();
    for (name, value) in pairs {
        if !out.is_empty() {
            out.push(',');
        }
        let _ = write!(out, "{name}=\"{}\"", escape(value));
    }
    out
}

fn join(base: &str, extra: &str) -> String {
    match (base.is_empty(), extra.is_empty()) {
        (true, _) => extra.to_owned(),
        (_, true) => base.to_owned(),
        _ => format!("{base},{extra}"),
    }
}

impl Exposition {
    /// Starts a family: all its samples follow.
    pub fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        name.clone_into(&mut self.family);
    }

    /// One sample of the family; `labels` as made by [`labels`].
    pub fn sample(&mut self, labels: &str, value: f64) {
        self.suffixed("", labels, value);
    }

    fn suffixed(&mut self, suffix: &str, labels: &str, value: f64) {
        let _ = if labels.is_empty() {
            writeln!(self.text, "{}{suffix} {value}", self.family)
        } else {
            writeln!(self.text, "{}{suffix}{{{labels}}} {value}", self.family)
        };
    }

    pub fn counter(&mut self, name: &str, help: &str, labels: &str, value: u64) {
        self.family(name, "counter", help);
        self.sample(labels, value as f64);
    }

    pub fn gauge(&mut self, name: &str, help: &str, labels: &str, value: f64) {
        self.family(name, "gauge", help);
        self.sample(labels, value);
    }

    pub fn histogram(&mut self, name: &str, help: &str, labels: &str, histogram: &Histogram) {
        self.family(name, "histogram", help);
        self.histogram_samples(labels, histogram);
    }

    /// The samples of one label set of a histogram family.
    pub fn histogram_samples(&mut self, labels: &str, histogram: &Histogram) {
        let snapshot = histogram.snapshot();
        for (bound, count) in &snapshot.buckets {
            let bucket = join(labels, &format!("le=\"{bound:?}\""));
            self.suffixed("_bucket", &bucket, *count as f64);
        }
        self.suffixed("_bucket", &join(labels, "le=\"+Inf\""), snapshot.count as f64);
        self.suffixed("_count", labels, snapshot.count as f64);
        self.suffixed("_sum", labels, snapshot.sum);
    }

    pub fn into_text(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renders_the_text_format() {
        let mut exposition = Exposition::default();
        let base = labels(&[("model_name", "a\"b")]);
        exposition.counter("x_total", "Help.", &base, 3);
        let histogram = Histogram::new(&[1.0]);
        histogram.observe(0.5);
        exposition.histogram("h", "Help.", "", &histogram);
        assert_eq!(
            exposition.into_text(),
            "# HELP x_total Help.\n# TYPE x_total counter\nx_total{model_name=\"a\\\"b\"} 3\n\
             # HELP h Help.\n# TYPE h histogram\nh_bucket{le=\"1.0\"} 1\nh_bucket{le=\"+Inf\"} 1\nh_count 1\nh_sum 0.5\n"
        );
    }
}
