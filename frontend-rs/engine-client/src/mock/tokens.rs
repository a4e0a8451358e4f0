//! Tokens and logprobs out of thin air, the same ones every time.

use vllm_rs_wire::{Logprobs, SamplingParams};

use crate::mock::{MockConfig, MockTokens};

/// One step of `SplitMix64`: a well-mixed hash of its input.
fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Where a request's tokens come from.
#[derive(Debug, Clone)]
pub(crate) struct TokenSource {
    key: u64,
    vocab_size: u32,
    /// Repeated in this order, if not empty.
    echo: Vec<u32>,
}

impl TokenSource {
    pub(crate) fn new(config: &MockConfig, prompt_token_ids: &[u32], params: &SamplingParams) -> Self {
        let seed = params.seed.map_or(0, i64::cast_unsigned);
        let key = prompt_token_ids
            .iter()
            .fold(mix(config.seed) ^ mix(seed), |key, &token| {
                mix(key ^ u64::from(token))
            });
        let echo = match config.tokens {
            MockTokens::Random => Vec::new(),
            MockTokens::EchoPrompt => prompt_token_ids.to_vec(),
        };
        Self {
            key,
            vocab_size: config.vocab_size.max(1),
            echo,
        }
    }

    fn below_vocab(&self, value: u64) -> u32 {
        (value % u64::from(self.vocab_size)) as u32
    }

    /// Output token number `position`. Tokens in `forbidden` are stepped over.
    pub(crate) fn token(&self, position: usize, forbidden: impl Fn(u32) -> bool) -> u32 {
        if !self.echo.is_empty() {
            return self.echo[position % self.echo.len()];
        }
        let first = self.below_vocab(mix(self.key ^ position as u64));
        let candidates =
            (0..u64::from(self.vocab_size)).map(|step| self.below_vocab(u64::from(first) + step));
        candidates
            .into_iter()
            .find(|&token| !forbidden(token))
            .unwrap_or(first)
    }

    /// Plausible logprobs of `tokens` from output position `start`: each token is the most likely one
    /// at its place, the `top_k` after it ever less.
    pub(crate) fn logprobs<const TORCH: bool>(
        &self,
        start: usize,
        tokens: &[u32],
        top_k: usize,
    ) -> Logprobs<TORCH> {
        let mut rows = Logprobs {
            columns: top_k + 1,
            ranks: vec![1; tokens.len()],
            ..Logprobs::default()
        };
        for (offset, &token) in tokens.iter().enumerate() {
            let noise = mix(self.key ^ (start + offset) as u64 ^ 0xabcd);
            let best = -0.05 - (noise % 1000) as f32 / 2000.0;
            rows.token_ids.push(token);
            rows.logprobs.push(best);
            for rank in 0..top_k {
                rows.token_ids
                    .push(self.below_vocab(u64::from(token) + rank as u64));
                rows.logprobs.push(best - 0.7 * rank as f32);
            }
        }
        rows
    }
}
