//! Which requests are open, and the way out to the engine that serves them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::mpsc;
use vllm_rs_wire::{EngineCoreRequest, encode_request};

use crate::error::{ClientError, StreamError};
use crate::sender::Outgoing;
use crate::snapshot::Counters;
use crate::stream::{AbortCause, OutputStream, StreamShared};
use crate::watchdog::Debt;

/// Open requests of one engine. The queue to the engine is bounded by their number: each has at most
/// one ADD and one ABORT in it.
#[derive(Debug)]
pub(crate) struct Registry {
    state: Mutex<State>,
    pub(crate) counters: Arc<Counters>,
    max_open_requests: usize,
}

#[derive(Debug)]
struct State {
    streams: HashMap<Arc<str>, Arc<StreamShared>>,
    /// Present while an engine is registered.
    outgoing: Option<mpsc::UnboundedSender<Outgoing>>,
    /// Since when the engine owes a sign of life: it was sent a request or could not be understood, and
    /// nothing good has come since. `None` if it owes none.
    silent_since: Option<Instant>,
    /// It could not be understood, and nothing good has come since.
    faulty: bool,
}

impl Registry {
    pub(crate) fn new(counters: Arc<Counters>, max_open_requests: usize) -> Self {
        let state = State {
            streams: HashMap::new(),
            outgoing: None,
            silent_since: None,
            faulty: false,
        };
        Self {
            state: Mutex::new(state),
            counters,
            max_open_requests,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An engine is there: requests may be sent through `outgoing`.
    pub(crate) fn connect(&self, outgoing: mpsc::UnboundedSender<Outgoing>) {
        let mut state = self.lock();
        state.outgoing = Some(outgoing);
        state.silent_since = None;
        state.faulty = false;
    }

    /// The engine is gone: nothing more is sent, and every stream ends with `error`.
    pub(crate) fn disconnect(&self, error: &StreamError) {
        let streams = {
            let mut state = self.lock();
            state.outgoing = None;
            std::mem::take(&mut state.streams)
        };
        for stream in streams.into_values() {
            stream.fail(error.clone());
        }
    }

    /// Every stream ends with `error`, and the engine is told to stop working on them. It owes a sign
    /// that it can still be understood.
    pub(crate) fn fail_all(&self, error: &StreamError) {
        let mut state = self.lock();
        state.faulty = true;
        state.silent_since.get_or_insert_with(Instant::now);
        let streams = std::mem::take(&mut state.streams);
        for (request_id, stream) in streams {
            stream.fail(error.clone());
            state.send(Outgoing::Abort(request_id));
            Counters::add(&self.counters.aborts_other, 1);
        }
    }

    /// Ends one stream with `error`; false if there is none of that id.
    pub(crate) fn fail(&self, request_id: &str, error: StreamError) -> bool {
        let removed = self.lock().streams.remove_entry(request_id);
        let Some((request_id, stream)) = removed else {
            return false;
        };
        stream.fail(error);
        self.send_abort(request_id, AbortCause::Fault);
        true
    }

    /// Registers and sends a request.
    pub(crate) fn submit(
        self: &Arc<Self>,
        request: &EngineCoreRequest,
        not_ready: impl FnOnce() -> ClientError,
    ) -> Result<OutputStream, ClientError> {
        // Encoded before the lock: a long prompt takes its time.
        let frames = encode_request(request);
        let request_id: Arc<str> = Arc::from(request.request_id.as_str());
        let shared = Arc::new(StreamShared::default());
        let mut state = self.lock();
        if state.outgoing.is_none() {
            drop(state);
            return Err(not_ready());
        }
        let open = state.streams.len();
        if open >= self.max_open_requests {
            return Err(ClientError::TooManyRequests {
                limit: self.max_open_requests,
                open,
            });
        }
        if state.streams.contains_key(&request_id) {
            return Err(ClientError::DuplicateRequest {
                request_id: request_id.to_string(),
            });
        }
        state.silent_since.get_or_insert_with(Instant::now);
        state.streams.insert(request_id.clone(), shared.clone());
        state.send(Outgoing::Add {
            request_id: request_id.clone(),
            frames,
        });
        drop(state);
        Counters::add(&self.counters.requests_sent, 1);
        Ok(OutputStream::new(request_id, shared, Arc::downgrade(self)))
    }

    /// Sends something that is not bound to a request; false if there is no engine.
    pub(crate) fn send(&self, message: Outgoing) -> bool {
        self.lock().send(message)
    }

    /// Takes a request off the books on behalf of its reader.
    pub(crate) fn abort(&self, request_id: &Arc<str>, cause: AbortCause) {
        if self.lock().streams.remove(request_id).is_some() {
            self.send_abort(request_id.clone(), cause);
        }
    }

    fn send_abort(&self, request_id: Arc<str>, cause: AbortCause) {
        let counters = &self.counters;
        let counter = match cause {
            AbortCause::ClientGone => &counters.aborts_client_gone,
            AbortCause::StopString => &counters.aborts_stop_string,
            AbortCause::Timeout => &counters.aborts_timeout,
            AbortCause::Shutdown => &counters.aborts_shutdown,
            AbortCause::Fault => &counters.aborts_other,
        };
        Counters::add(counter, 1);
        self.lock().send(Outgoing::Abort(request_id));
    }

    /// The streams of a batch, looked up under one lock; a finished one is taken off the books.
    pub(crate) fn look_up<'a>(
        &self,
        ids: impl Iterator<Item = (&'a str, bool)>,
    ) -> Vec<Option<Arc<StreamShared>>> {
        let mut state = self.lock();
        ids.map(|(id, finished)| {
            if finished {
                state.streams.remove(id)
            } else {
                state.streams.get(id).cloned()
            }
        })
        .collect()
    }

    /// The engine gave a sign of life; it owes the next one only if there is work left.
    pub(crate) fn note_progress(&self) {
        let mut state = self.lock();
        state.silent_since = (!state.streams.is_empty()).then(Instant::now);
        state.faulty = false;
    }

    pub(crate) fn debt(&self) -> Debt {
        let state = self.lock();
        Debt {
            silent_for: state.silent_since.map(|since| since.elapsed()),
            faulty: state.faulty,
            open: state.streams.len(),
        }
    }
}

impl State {
    fn send(&self, message: Outgoing) -> bool {
        self.outgoing
            .as_ref()
            .is_some_and(|outgoing| outgoing.send(message).is_ok())
    }
}
