//! Admission: how much may wait for its first token before the server says 429.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::error::ApiError;
use crate::limits::Limits;

/// What waits for its first token.
#[derive(Debug, Default)]
pub struct Admission {
    waiting_requests: AtomicU64,
    waiting_tokens: AtomicU64,
}

/// A place in the queue; given back when dropped.
#[derive(Debug)]
pub struct Ticket {
    admission: Arc<Admission>,
    tokens: u64,
}

impl Admission {
    pub fn waiting_requests(&self) -> u64 {
        self.waiting_requests.load(Relaxed)
    }

    /// Admits all of a request's sequences, or none. An empty queue admits anything, or a single request larger
    /// than the token limit could never run.
    pub fn admit(self: &Arc<Self>, prompt_tokens: &[u64], limits: &Limits) -> Result<Vec<Ticket>, ApiError> {
        let requests = prompt_tokens.len() as u64;
        let tokens: u64 = prompt_tokens.iter().sum();
        let ahead_requests = self.waiting_requests.fetch_add(requests, Relaxed);
        let ahead_tokens = self.waiting_tokens.fetch_add(tokens, Relaxed);
        // The tickets own the amounts from here: an early return gives them back.
        let tickets: Vec<Ticket> = prompt_tokens
            .iter()
            .map(|tokens| Ticket {
                admission: self.clone(),
                tokens: *tokens,
            })
            .collect();
        let retry_after_s = 1 + ahead_requests / 64;
        let refuse = |what, flag, limit, waiting| ApiError::QueueFull {
            what,
            flag,
            limit,
            waiting,
            retry_after_s: retry_after_s.min(30),
        };
        if ahead_requests > 0 && ahead_requests + requests > limits.queued_requests {
            return Err(refuse(
                "queued requests",
                "--max-num-queued-reqs",
                limits.queued_requests,
                ahead_requests,
            ));
        }
        if ahead_tokens > 0 && ahead_tokens.saturating_add(tokens) > limits.queued_tokens {
            return Err(refuse(
                "queued prompt tokens",
                "--max-num-queued-tokens",
                limits.queued_tokens,
                ahead_tokens,
            ));
        }
        Ok(tickets)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.admission.waiting_requests.fetch_sub(1, Relaxed);
        self.admission.waiting_tokens.fetch_sub(self.tokens, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_refuses_and_recovers() {
        let admission = Arc::new(Admission::default());
        let limits = Limits {
            queued_requests: 2,
            queued_tokens: 100,
            ..Limits::default()
        };
        let first = admission.admit(&[10, 10], &limits).expect("room for two");
        let error = admission.admit(&[1], &limits).expect_err("full");
        assert_eq!(error.status().as_u16(), 429);
        assert_eq!(admission.waiting_requests(), 2);
        drop(first);
        assert_eq!(admission.waiting_requests(), 0);
        assert!(admission.admit(&[1], &limits).is_ok());
    }

    #[test]
    fn one_huge_prompt_may_run_alone() {
        let admission = Arc::new(Admission::default());
        let limits = Limits {
            queued_tokens: 100,
            ..Limits::default()
        };
        let huge = admission
            .admit(&[1000], &limits)
            .expect("an empty queue admits it");
        assert!(admission.admit(&[1], &limits).is_err());
        drop(huge);
    }
}
