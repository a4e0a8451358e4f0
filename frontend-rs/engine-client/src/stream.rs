//! The outputs of one request, as a stream that never holds more than it must.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use futures::Stream;
use vllm_rs_wire::EngineCoreOutput;

use crate::error::StreamError;
use crate::registry::Registry;

/// Why a request was aborted by our side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AbortCause {
    /// The stream was dropped: its reader went away.
    ClientGone,
    /// The text so far contains a stop string; the engine cannot know.
    StopString,
    Timeout,
    Shutdown,
    /// The stream ended with an error here while the engine may still be working on it.
    Fault,
}

/// When tokens came from the engine, however late they are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    pub at: Instant,
    pub tokens: usize,
}

/// What arrived and was not taken yet.
#[derive(Debug, Default)]
struct Inbox {
    outputs: VecDeque<EngineCoreOutput>,
    /// One per output delivered with tokens, merged or not; so no more than there are buffered tokens.
    arrivals: VecDeque<Arrival>,
    buffered_tokens: usize,
    /// Set once: `Ok` after the last output, `Err` in place of it.
    end: Option<Result<(), StreamError>>,
    waker: Option<Waker>,
}

/// The half that the dispatcher writes to.
#[derive(Debug, Default)]
pub(crate) struct StreamShared {
    inbox: Mutex<Inbox>,
}

/// What became of a delivered output.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Delivered {
    Queued,
    Coalesced,
    /// The reader is hopelessly behind; the stream has ended with an error.
    Overflow {
        request_id: String,
    },
}

impl StreamShared {
    fn lock(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the inbox, then wakes its reader outside the lock.
    fn change<R>(&self, work: impl FnOnce(&mut Inbox) -> R) -> R {
        let mut inbox = self.lock();
        let result = work(&mut inbox);
        let waker = inbox.waker.take();
        drop(inbox);
        if let Some(waker) = waker {
            waker.wake();
        }
        result
    }

    fn poll(
        &self,
        context: &Context<'_>,
        arrivals: &mut Vec<Arrival>,
    ) -> Poll<Option<Result<EngineCoreOutput, StreamError>>> {
        arrivals.clear();
        let mut inbox = self.lock();
        if let Some(output) = inbox.outputs.pop_front() {
            let mut tokens = output.new_token_ids.len();
            inbox.buffered_tokens -= tokens;
            while let Some(arrival) = inbox.arrivals.pop_front_if(|arrival| arrival.tokens <= tokens) {
                tokens -= arrival.tokens;
                arrivals.push(arrival);
            }
            return Poll::Ready(Some(Ok(output)));
        }
        match inbox.end.take() {
            Some(Ok(())) => Poll::Ready(None),
            Some(Err(error)) => Poll::Ready(Some(Err(error))),
            None => {
                inbox.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Adds an output, merging it into the last one not yet taken where nothing is lost by that.
    pub(crate) fn deliver(&self, output: EngineCoreOutput, max_buffered_tokens: usize) -> Delivered {
        self.change(|inbox| {
            if inbox.end.is_some() {
                return Delivered::Queued;
            }
            inbox.buffered_tokens += output.new_token_ids.len();
            if inbox.buffered_tokens > max_buffered_tokens {
                let given = inbox.buffered_tokens;
                inbox.end = Some(Err(StreamError::Overflow {
                    limit: max_buffered_tokens,
                    given,
                }));
                inbox.outputs.clear();
                inbox.arrivals.clear();
                inbox.buffered_tokens = 0;
                return Delivered::Overflow {
                    request_id: output.request_id,
                };
            }
            if output.finish_reason.is_some() {
                inbox.end = Some(Ok(()));
            }
            if !output.new_token_ids.is_empty() {
                inbox.arrivals.push_back(Arrival {
                    at: Instant::now(),
                    tokens: output.new_token_ids.len(),
                });
            }
            let unmerged = match inbox.outputs.back_mut() {
                Some(last) => merge(last, output),
                None => Some(output),
            };
            let Some(output) = unmerged else {
                return Delivered::Coalesced;
            };
            inbox.outputs.push_back(output);
            Delivered::Queued
        })
    }

    /// Ends the stream with an error, after what it already holds.
    pub(crate) fn fail(&self, error: StreamError) {
        self.change(|inbox| {
            if inbox.end.is_none() {
                inbox.end = Some(Err(error));
            }
        });
    }
}

/// Appends `later` to `earlier`; gives it back if their rows of logprobs would no longer line up.
fn merge(earlier: &mut EngineCoreOutput, later: EngineCoreOutput) -> Option<EngineCoreOutput> {
    let lines_up = match (&earlier.new_logprobs, &later.new_logprobs) {
        (None, None) => true,
        (Some(a), Some(b)) => a.columns == b.columns,
        (Some(_), None) => later.new_token_ids.is_empty(),
        (None, Some(_)) => earlier.new_token_ids.is_empty(),
    };
    if !lines_up {
        return Some(later);
    }
    earlier.new_token_ids.extend(later.new_token_ids);
    match (&mut earlier.new_logprobs, later.new_logprobs) {
        (Some(rows), Some(more)) => {
            // The widths were compared above.
            let _ = rows.try_extend(more);
        }
        (rows @ None, more) => *rows = more,
        (Some(_), None) => {}
    }
    match (&mut earlier.events, later.events) {
        (Some(events), Some(more)) => events.extend(more),
        (events @ None, more) => *events = more,
        (Some(_), None) => {}
    }
    macro_rules! take_later {
        ($($field:ident),*) => {$( if later.$field.is_some() { earlier.$field = later.$field; } )*};
    }
    take_later!(
        new_prompt_logprobs_tensors,
        pooling_output,
        finish_reason,
        stop_reason,
        kv_transfer_params,
        ec_transfer_params,
        trace_headers,
        prefill_stats,
        routed_experts,
        mm_cache_miss_hashes,
        new_sampling_mask,
        spec_decode_metrics,
        prompt_token_id_logprobs
    );
    earlier.num_nans_in_logits = earlier
        .num_nans_in_logits
        .saturating_add(later.num_nans_in_logits);
    None
}

/// The outputs of one request. Dropped before its end, it aborts the request.
///
/// Outputs that arrive faster than they are taken are merged, so an item may hold several tokens.
#[derive(Debug)]
pub struct OutputStream {
    request_id: Arc<str>,
    shared: Arc<StreamShared>,
    registry: Weak<Registry>,
    ended: bool,
    arrivals: Vec<Arrival>,
}

impl OutputStream {
    pub(crate) fn new(request_id: Arc<str>, shared: Arc<StreamShared>, registry: Weak<Registry>) -> Self {
        Self {
            request_id,
            shared,
            registry,
            ended: false,
            arrivals: Vec::new(),
        }
    }

    /// When the tokens of the item taken last came, in order.
    pub fn arrivals(&self) -> &[Arrival] {
        &self.arrivals
    }

    pub fn request_id(&self) -> &str {
        &self.request_id
    }

    /// Stops the request, saying why. Nothing more comes from the engine for it.
    pub fn abort(mut self, cause: AbortCause) {
        self.abort_with(cause);
    }

    fn abort_with(&mut self, cause: AbortCause) {
        if self.ended {
            return;
        }
        self.ended = true;
        if let Some(registry) = self.registry.upgrade() {
            registry.abort(&self.request_id, cause);
        }
    }
}

impl Stream for OutputStream {
    type Item = Result<EngineCoreOutput, StreamError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let this = &mut *self;
        let item = this.shared.poll(context, &mut this.arrivals);
        match &item {
            Poll::Pending => {}
            Poll::Ready(Some(Ok(output))) => self.ended = output.finish_reason.is_some(),
            Poll::Ready(_) => self.ended = true,
        }
        item
    }
}

impl Drop for OutputStream {
    fn drop(&mut self) {
        self.abort_with(AbortCause::ClientGone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_outputs_keep_the_time_each_of_them_came() {
        let shared = StreamShared::default();
        for tokens in [1, 3] {
            let output = EngineCoreOutput {
                new_token_ids: vec![7; tokens],
                ..EngineCoreOutput::default()
            };
            shared.deliver(output, 100);
        }
        let delivered = Instant::now();
        let mut arrivals = Vec::new();
        let item = shared.poll(&Context::from_waker(Waker::noop()), &mut arrivals);
        assert!(matches!(item, Poll::Ready(Some(Ok(output))) if output.new_token_ids.len() == 4));
        assert_eq!(
            arrivals.iter().map(|arrival| arrival.tokens).collect::<Vec<_>>(),
            [1, 3]
        );
        assert!(arrivals[0].at <= arrivals[1].at && arrivals[1].at <= delivered);
        assert!(
            shared
                .poll(&Context::from_waker(Waker::noop()), &mut arrivals)
                .is_pending()
        );
        assert!(arrivals.is_empty());
    }
}
