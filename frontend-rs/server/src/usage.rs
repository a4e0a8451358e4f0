//! Token counts of an answer.

use serde_json::{Value, json};

/// Counts over all choices of one HTTP request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    pub prompt_tokens: u64,
    pub completion_tokens: u64,
    /// Prompt tokens found in the prefix cache; shown when the server is told to.
    pub cached_tokens: Option<u64>,
}

impl Usage {
    pub fn to_json(self) -> Value {
        let mut usage = json!({
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
        });
        if let Some(cached_tokens) = self.cached_tokens {
            usage["prompt_tokens_details"] = json!({"cached_tokens": cached_tokens});
        }
        usage
    }
}
