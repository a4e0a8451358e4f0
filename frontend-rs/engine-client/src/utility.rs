//! Calls of the engine's methods that wait for their answers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use vllm_rs_wire::{UtilityOutput, Value};

/// A result, or the failure in words.
pub(crate) type Answer = Result<Value, String>;

#[derive(Debug, Default)]
pub(crate) struct Utilities {
    next_call_id: AtomicU64,
    waiting: Mutex<HashMap<u64, oneshot::Sender<Answer>>>,
}

impl Utilities {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, oneshot::Sender<Answer>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new call id, and where its answer will come.
    pub(crate) fn open(&self) -> (u64, oneshot::Receiver<Answer>) {
        let call_id = self.next_call_id.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = oneshot::channel();
        self.lock().insert(call_id, sender);
        (call_id, receiver)
    }

    /// Nobody waits for this answer any more.
    pub(crate) fn forget(&self, call_id: u64) {
        self.lock().remove(&call_id);
    }

    pub(crate) fn answer(&self, output: UtilityOutput) {
        let Ok(call_id) = u64::try_from(output.call_id) else {
            tracing::debug!(call_id = %output.call_id, "notification from the engine ignored");
            return;
        };
        let answer = match output.failure_message {
            Some(message) => Err(message),
            None => Ok(output.result.map_or(Value::Nil, |result| result.0)),
        };
        let waiting = self.lock().remove(&call_id);
        if let Some(waiting) = waiting {
            // The caller may have given up between the look-up and the sending.
            let _ = waiting.send(answer);
        } else {
            tracing::debug!(call_id, "answer to a call that nobody waits for");
        }
    }

    pub(crate) fn fail(&self, call_id: u64, reason: String) {
        if let Some(waiting) = self.lock().remove(&call_id) {
            let _ = waiting.send(Err(reason));
        }
    }

    pub(crate) fn fail_all(&self, reason: &str) {
        for waiting in std::mem::take(&mut *self.lock()).into_values() {
            let _ = waiting.send(Err(reason.to_owned()));
        }
    }
}
