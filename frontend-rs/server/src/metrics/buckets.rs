//! Histogram bounds: vLLM's, with finer ones below, where small models and fast decoding live.

pub const TIME_TO_FIRST_TOKEN_S: &[f64] = &[
    0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0,
    40.0, 80.0, 160.0, 640.0, 2560.0,
];

pub const INTER_TOKEN_S: &[f64] = &[
    0.0005, 0.001, 0.002, 0.003, 0.004, 0.006, 0.008, 0.01, 0.015, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3,
    0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
];

pub const REQUEST_S: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0,
    50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0,
];

pub const CHOICES: &[f64] = &[1.0, 2.0, 5.0, 10.0, 20.0];

pub const ITERATION_TOKENS: &[f64] = &[
    1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0,
];

/// Bounds of `http_request_duration_seconds`, as the Python server's instrumentation has them.
pub const HTTP_S: &[f64] = &[0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0];

/// Bounds of `http_request_duration_highr_seconds`.
pub const HTTP_FINE_S: &[f64] = &[
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0,
    4.5, 5.0, 7.5, 10.0, 30.0, 60.0,
];

/// The 1-2-5 series up to `max_model_len`.
pub fn token_counts(max_model_len: u64) -> Vec<f64> {
    let mut bounds = Vec::new();
    let mut decade = 1_u64;
    loop {
        for mantissa in [1, 2, 5] {
            let bound = mantissa * decade;
            if bound > max_model_len {
                return bounds;
            }
            bounds.push(bound as f64);
        }
        decade *= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_ascend() {
        for bounds in [
            TIME_TO_FIRST_TOKEN_S,
            INTER_TOKEN_S,
            REQUEST_S,
            ITERATION_TOKENS,
            HTTP_S,
            HTTP_FINE_S,
        ] {
            assert!(bounds.windows(2).all(|pair| pair[0] < pair[1]));
        }
        assert_eq!(token_counts(60), vec![1.0, 2.0, 5.0, 10.0, 20.0, 50.0]);
    }
}
