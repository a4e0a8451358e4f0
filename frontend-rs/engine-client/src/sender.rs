//! The one task that writes to an engine's input socket.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::mpsc;
use vllm_rs_wire::{Frames, RequestType, encode_aborts};
use zeromq::{RouterSendHalf, SocketSend, ZmqMessage};

use crate::error::StreamError;
use crate::registry::Registry;
use crate::snapshot::Counters;
use crate::utility::Utilities;

/// A message on its way out.
#[derive(Debug)]
pub(crate) enum Outgoing {
    Add { request_id: Arc<str>, frames: Frames },
    Abort(Arc<str>),
    Utility { call_id: u64, frames: Frames },
}

/// Ids in one ABORT message.
const MAX_ABORTS_PER_MESSAGE: usize = 1024;

/// Sends until the channel closes. Aborts that follow each other go out as one message; nothing
/// overtakes anything, since an ABORT must not arrive before its ADD.
pub(crate) async fn run(
    mut socket: RouterSendHalf,
    identity: Bytes,
    mut outgoing: mpsc::UnboundedReceiver<Outgoing>,
    registry: Arc<Registry>,
    utilities: Arc<Utilities>,
) {
    let mut next = outgoing.recv().await;
    while let Some(message) = next.take() {
        match message {
            Outgoing::Add { request_id, frames } => {
                let message = compose(&identity, RequestType::Add, frames);
                if let Err(error) = socket.send(message).await {
                    registry.fail(
                        &request_id,
                        StreamError::Unsent {
                            reason: error.to_string(),
                        },
                    );
                }
            }
            Outgoing::Utility { call_id, frames } => {
                let message = compose(&identity, RequestType::Utility, frames);
                if let Err(error) = socket.send(message).await {
                    utilities.fail(call_id, error.to_string());
                }
            }
            Outgoing::Abort(first) => {
                let mut ids = vec![first];
                while ids.len() < MAX_ABORTS_PER_MESSAGE {
                    match outgoing.try_recv() {
                        Ok(Outgoing::Abort(id)) => ids.push(id),
                        Ok(other) => {
                            next = Some(other);
                            break;
                        }
                        Err(_) => break,
                    }
                }
                Counters::add(&registry.counters.aborts_sent, ids.len());
                let message = compose(&identity, RequestType::Abort, encode_aborts(&ids));
                if let Err(error) = socket.send(message).await {
                    // The engine that worked on them is gone, and their work with it.
                    tracing::debug!(%error, count = ids.len(), "aborts not sent");
                }
            }
        }
        if next.is_none() {
            next = outgoing.recv().await;
        }
    }
}

fn compose(identity: &Bytes, kind: RequestType, frames: Frames) -> ZmqMessage {
    let mut message = ZmqMessage::from(identity.clone());
    message.push_back(Bytes::from_static(kind.frame()));
    for frame in frames {
        message.push_back(frame);
    }
    message
}
