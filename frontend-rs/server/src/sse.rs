//! Server-sent events: a generation becomes a response body.
//!
//! Events are written straight into a byte buffer. All deltas that are ready at once leave in one write.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use futures::stream::SelectAll;
use futures::{Stream, StreamExt};

use crate::error::ApiError;
use crate::generate::{ChoiceDelta, ChoiceStream};

/// Bytes after which a write leaves even though more deltas are ready.
const FLUSH_BYTES: usize = 16 << 10;

/// Writes one protocol's events.
pub trait EventWriter: Send + Unpin + 'static {
    /// Appends the events for one delta; none when there is nothing to show.
    fn delta(&mut self, delta: ChoiceDelta, out: &mut Vec<u8>);
    /// Appends what follows the last delta (usage), without the end marker.
    fn closing(&mut self, out: &mut Vec<u8>);
}

/// Appends `text` as a JSON string.
pub fn push_json_str(out: &mut Vec<u8>, text: &str) {
    // Writing a str into a Vec cannot fail.
    let _ = serde_json::to_writer(out, text);
}

/// Appends a number in decimal.
pub fn push_number(out: &mut Vec<u8>, number: u64) {
    let _ = serde_json::to_writer(out, &number);
}

struct EventStream<W> {
    choices: SelectAll<ChoiceStream>,
    writer: W,
    done: bool,
    /// Until the first write: whose station it is.
    unsent: Option<String>,
}

impl<W: EventWriter> EventStream<W> {
    fn log_first_write(&mut self) {
        if let Some(request_id) = self.unsent.take() {
            tracing::debug!(target: "vllm_rs::request", request_id, station = "sent");
        }
    }

    fn close(&mut self, error: Option<&ApiError>, out: &mut Vec<u8>) {
        self.done = true;
        if let Some(error) = error {
            out.extend_from_slice(b"data: ");
            let _ = serde_json::to_writer(&mut *out, &error.body());
            out.extend_from_slice(b"\n\n");
            // What is left is aborted by being dropped.
            self.choices.clear();
        } else {
            self.writer.closing(out);
        }
        out.extend_from_slice(b"data: [DONE]\n\n");
    }
}

impl<W: EventWriter> Stream for EventStream<W> {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if this.done {
            return Poll::Ready(None);
        }
        let mut out = Vec::new();
        loop {
            let next = this.choices.poll_next_unpin(context);
            if next.is_ready() {
                this.log_first_write();
            }
            match next {
                Poll::Ready(Some(Ok(delta))) => {
                    this.writer.delta(delta, &mut out);
                    if out.len() >= FLUSH_BYTES {
                        return Poll::Ready(Some(Ok(out.into())));
                    }
                }
                Poll::Ready(Some(Err(error))) => {
                    this.close(Some(&error), &mut out);
                    return Poll::Ready(Some(Ok(out.into())));
                }
                Poll::Ready(None) => {
                    this.close(None, &mut out);
                    return Poll::Ready(Some(Ok(out.into())));
                }
                Poll::Pending if out.is_empty() => return Poll::Pending,
                Poll::Pending => return Poll::Ready(Some(Ok(out.into()))),
            }
        }
    }
}

/// The response that streams a generation. Dropped by the server when the client goes away, which aborts.
pub fn response(choices: SelectAll<ChoiceStream>, writer: impl EventWriter) -> Response {
    let unsent = choices.iter().next().map(|choice| choice.request_id.clone());
    let mut response = Response::new(Body::from_stream(EventStream {
        choices,
        writer,
        done: false,
        unsent,
    }));
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/event-stream; charset=utf-8"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}
