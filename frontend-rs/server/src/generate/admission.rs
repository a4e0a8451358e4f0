//! Admission: how much may wait for its first token before the server says 429.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::ApiError;
use crate::limits::Limits;

#[derive(Debug, Default)]
struct Waiting {
    requests: u64,
    tokens: u64,
}

/// What waits for its first token.
#[derive(Debug, Default)]
pub struct Admission(Mutex<Waiting>);

/// A place in the queue; given back when dropped.
#[derive(Debug)]
pub struct Ticket {
    admission: Arc<Admission>,
    tokens: u64,
}

impl Admission {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn waiting_requests(&self) -> u64 {
        self.lock().requests
    }

    /// Admits all of a request's sequences, or none; others never see what was not admitted. An empty queue admits
    /// anything, or a single request larger than the token limit could never run.
    pub fn admit(self: &Arc<Self>, prompt_tokens: &[u64], limits: &Limits) -> Result<Vec<Ticket>, ApiError> {
        let requests = prompt_tokens.len() as u64;
        let tokens: u64 = prompt_tokens.iter().sum();
        let mut waiting = self.lock();
        let retry_after_s = (1 + waiting.requests / 64).min(30);
        let refuse = |what, flag, limit, waiting| ApiError::QueueFull {
            what,
            flag,
            limit,
            waiting,
            retry_after_s,
        };
        if waiting.requests > 0 && waiting.requests + requests > limits.queued_requests {
            return Err(refuse(
                "queued requests",
                "--max-num-queued-reqs",
                limits.queued_requests,
                waiting.requests,
            ));
        }
        if waiting.tokens > 0 && waiting.tokens.saturating_add(tokens) > limits.queued_tokens {
            return Err(refuse(
                "queued prompt tokens",
                "--max-num-queued-tokens",
                limits.queued_tokens,
                waiting.tokens,
            ));
        }
        waiting.requests += requests;
        waiting.tokens += tokens;
        let ticket = |tokens: &u64| Ticket {
            admission: self.clone(),
            tokens: *tokens,
        };
        Ok(prompt_tokens.iter().map(ticket).collect())
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut waiting = self.admission.lock();
        waiting.requests -= 1;
        waiting.tokens -= self.tokens;
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
