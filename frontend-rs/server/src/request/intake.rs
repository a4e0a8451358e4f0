//! How much may be on its way in: requests and bytes whose bodies are being read, parsed and tokenised.
//!
//! Admission (`generate::admission`) counts prompt tokens, which are known only after all that work.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::ApiError;
use crate::limits::Limits;

/// The first bytes of each body are bounded by the number of requests alone, so that a few long bodies cannot keep
/// short ones out.
const FREE_BYTES: u64 = 64 << 10;
const RETRY_AFTER_S: u64 = 1;
/// Bodies above this many bytes are prepared a few at a time, since each may take much memory, and so that others
/// find a thread.
const LONG_BODY_BYTES: u64 = 512 << 10;
const LONG_BODIES_AT_ONCE: usize = 2;

#[derive(Debug, Default)]
struct Held {
    requests: u64,
    bytes: u64,
}

/// What is on its way in.
#[derive(Debug)]
pub struct Intake {
    held: Mutex<Held>,
    long: Arc<Semaphore>,
}

impl Default for Intake {
    fn default() -> Self {
        Self {
            held: Mutex::default(),
            long: Arc::new(Semaphore::new(LONG_BODIES_AT_ONCE)),
        }
    }
}

/// The share of one request, from before its body is read until its sequences are submitted; given back when dropped.
#[derive(Debug)]
pub struct IntakeTicket {
    intake: Arc<Intake>,
    body_bytes: u64,
}

fn charged(body_bytes: u64) -> u64 {
    body_bytes.saturating_sub(FREE_BYTES)
}

impl Intake {
    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn requests(&self) -> u64 {
        self.lock().requests
    }

    pub fn enter(self: &Arc<Self>, limits: &Limits) -> Result<IntakeTicket, ApiError> {
        let mut held = self.lock();
        if held.requests >= limits.preparing_requests {
            return Err(ApiError::QueueFull {
                what: "requests being prepared",
                flag: "a fixed limit",
                limit: limits.preparing_requests,
                waiting: held.requests,
                retry_after_s: RETRY_AFTER_S,
            });
        }
        held.requests += 1;
        Ok(IntakeTicket {
            intake: self.clone(),
            body_bytes: 0,
        })
    }
}

impl IntakeTicket {
    /// Waits for the turn of a long body; short ones need none.
    pub async fn turn(&self) -> Result<Option<OwnedSemaphorePermit>, ApiError> {
        if self.body_bytes <= LONG_BODY_BYTES {
            return Ok(None);
        }
        // Never closed.
        let turn = self.intake.long.clone().acquire_owned().await;
        turn.map(Some).map_err(ApiError::internal)
    }

    /// Counts further bytes of the body, before they are kept.
    pub fn add_body_bytes(&mut self, bytes: u64, limits: &Limits) -> Result<(), ApiError> {
        let more = charged(self.body_bytes + bytes) - charged(self.body_bytes);
        let mut held = self.intake.lock();
        if more > 0 && held.bytes + more > limits.preparing_bytes {
            return Err(ApiError::QueueFull {
                what: "bytes of requests being prepared",
                flag: "8 times --max-request-bytes",
                limit: limits.preparing_bytes,
                waiting: held.bytes,
                retry_after_s: RETRY_AFTER_S,
            });
        }
        held.bytes += more;
        drop(held);
        self.body_bytes += bytes;
        Ok(())
    }
}

impl Drop for IntakeTicket {
    fn drop(&mut self) {
        let mut held = self.intake.lock();
        held.requests -= 1;
        held.bytes -= charged(self.body_bytes);
    }
}

/// Tells work on another thread that nobody waits for its result any more.
#[derive(Debug, Clone, Default)]
pub struct Departure(Arc<AtomicBool>);

impl Departure {
    /// An error once the client is gone: looked at between the steps of long work.
    pub fn check(&self) -> Result<(), ApiError> {
        if self.0.load(Relaxed) {
            return Err(ApiError::internal("the client went away"));
        }
        Ok(())
    }
}

/// Held by the handler; dropped with it when the client goes away.
#[derive(Debug)]
pub struct DepartureGuard(pub Departure);

impl Drop for DepartureGuard {
    fn drop(&mut self) {
        self.0.0.store(true, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_bytes_are_bounded_and_given_back() {
        let limits = Limits {
            preparing_requests: 2,
            preparing_bytes: 1000,
            ..Limits::default()
        };
        let intake = Arc::new(Intake::default());
        let mut long = intake.enter(&limits).expect("empty");
        let mut short = intake.enter(&limits).expect("room for one more");
        assert_eq!(intake.enter(&limits).expect_err("full").status().as_u16(), 429);
        long.add_body_bytes(FREE_BYTES + 1000, &limits).expect("fits");
        short
            .add_body_bytes(FREE_BYTES, &limits)
            .expect("short bodies need no room");
        let error = short.add_body_bytes(1, &limits).expect_err("no bytes left");
        assert_eq!((error.status().as_u16(), error.retry_after_s()), (429, Some(1)));
        drop(long);
        short.add_body_bytes(1, &limits).expect("given back");
        drop(short);
        assert_eq!((intake.requests(), intake.lock().bytes), (0, 0));
    }
}
