//! The sockets of one engine incarnation, and the handshake over them.
//!
//! Every incarnation gets fresh sockets. An engine that comes back has the identity of the dead one,
//! and a ROUTER that has not yet noticed the death would send the new one's requests to the old one.

use std::time::Duration;

use bytes::Bytes;
use futures::channel::mpsc::Receiver;
use vllm_rs_wire::{
    EngineAddresses, EngineCoreReadyResponse, HandshakeInit, HandshakeMessage, HandshakeStatus, Value,
    decode_payload, encode_payload,
};
use zeromq::{PullSocket, RouterSocket, Socket, SocketEvent, SocketRecv, SocketSend, ZmqMessage};

use crate::config::{BuildIdentity, ClientConfig, EngineSource};
use crate::error::ClientError;
use crate::runtime_dir::RuntimeDir;

/// Bound sockets, waiting for an engine or connected to one.
pub(crate) struct Link {
    pub(crate) handshake: RouterSocket,
    pub(crate) input: RouterSocket,
    pub(crate) output: PullSocket,
    /// Comings and goings on the output socket: how the death of an engine shows.
    pub(crate) output_events: Receiver<SocketEvent>,
    pub(crate) handshake_address: String,
    pub(crate) identity: Bytes,
    addresses: EngineAddresses,
    build: Option<BuildIdentity>,
    /// Whatever reaches the sockets of a foreign engine may be no engine at all.
    foreign: bool,
}

async fn bind(socket: &mut impl Socket, address: &str) -> Result<String, ClientError> {
    let failed = |error: zeromq::ZmqError| ClientError::Bind {
        address: address.to_owned(),
        reason: error.to_string(),
    };
    let bound = socket.bind(address).await.map_err(failed)?;
    // An ipc endpoint prints as it was given; a tcp one with the port that the kernel chose.
    Ok(bound.to_string())
}

impl Link {
    /// Binds input, output and handshake, in that order: an engine may come at once.
    pub(crate) async fn bind(
        config: &ClientConfig,
        dir: &RuntimeDir,
        incarnation: u32,
    ) -> Result<Self, ClientError> {
        let handshake_at = match &config.source {
            EngineSource::External { handshake_address } => handshake_address.clone(),
            EngineSource::Spawn(_) | EngineSource::Mock(_) => dir.address(&format!("h{incarnation}")),
        };
        let (input_at, output_at) = if handshake_at.starts_with("tcp://") {
            let any_port = format!("tcp://{}:0", config.tcp_host);
            (any_port.clone(), any_port)
        } else {
            (
                dir.address(&format!("i{incarnation}")),
                dir.address(&format!("o{incarnation}")),
            )
        };
        let mut input = RouterSocket::new();
        let mut output = PullSocket::new();
        let mut handshake = RouterSocket::new();
        let output_events = output.monitor();
        let inputs = vec![bind(&mut input, &input_at).await?];
        let bound_output = bind(&mut output, &output_at).await?;
        let outputs = vec![bound_output];
        let handshake_address = bind(&mut handshake, &handshake_at).await?;
        Ok(Self {
            handshake,
            input,
            output,
            output_events,
            handshake_address,
            identity: Bytes::copy_from_slice(&config.engine_index.to_le_bytes()),
            addresses: EngineAddresses {
                inputs,
                outputs,
                ..EngineAddresses::default()
            },
            build: config.build.clone(),
            foreign: matches!(config.source, EngineSource::External { .. }),
        })
    }

    /// The input socket, whose two directions are served apart once the engine has registered.
    pub(crate) fn take_input(&mut self) -> RouterSocket {
        std::mem::replace(&mut self.input, RouterSocket::new())
    }

    /// Gives the addresses back. The handshake address may be bound again right after, so its listener
    /// must be gone by then.
    pub(crate) async fn close(self) {
        for error in self.handshake.close().await {
            tracing::debug!(%error, "closing the handshake socket");
        }
    }

    /// Answers HELLOs until the engine has registered. Messages that make no sense are passed over:
    /// the engine they come from is none that can register. An engine that we started ourselves gets one
    /// registration only: nothing better comes after one that cannot be used.
    pub(crate) async fn register(&mut self) -> Result<EngineCoreReadyResponse, ClientError> {
        loop {
            tokio::select! {
                message = self.handshake.recv() => match message {
                    Ok(message) => self.on_handshake(&message.into_vec()).await,
                    Err(error) => return Err(ClientError::Handshake { reason: error.to_string() }),
                },
                message = self.input.recv() => match message {
                    Ok(message) => match self.on_registration(&message.into_vec()) {
                        Ok(Some(ready)) => return Ok(ready),
                        Ok(None) => {}
                        Err(error) if self.foreign => {
                            tracing::error!(%error, "an engine that cannot be used has registered; waiting for another");
                        }
                        Err(error) => return Err(error),
                    },
                    Err(error) => return Err(ClientError::Handshake { reason: error.to_string() }),
                },
            }
        }
    }

    async fn on_handshake(&mut self, frames: &[Bytes]) {
        let Some((identity, payload)) = frames.split_first() else {
            return;
        };
        if identity != &self.identity {
            tracing::warn!(?identity, expected = ?self.identity, "handshake from an unexpected engine ignored");
            return;
        }
        match decode_payload::<HandshakeMessage>(payload) {
            Ok(HandshakeMessage {
                status: Some(HandshakeStatus::Hello),
                ..
            }) => {
                if let Err(error) = self.send_init().await {
                    tracing::warn!(%error, "the engine went away during the handshake");
                }
            }
            Ok(message) => tracing::debug!(?message, "handshake message noted"),
            Err(error) => tracing::warn!(%error, "unreadable handshake message ignored"),
        }
    }

    async fn send_init(&mut self) -> Result<(), zeromq::ZmqError> {
        let extensions = self.build.as_ref().map_or_else(Vec::new, |build| {
            let ours = vec![
                (Value::from("version"), Value::from(build.version.as_str())),
                (Value::from("build_id"), Value::from(build.build_id.as_str())),
            ];
            vec![(Value::from("vllm_rs"), Value::Map(ours))]
        });
        let init = HandshakeInit {
            addresses: self.addresses.clone(),
            extensions: Value::Map(extensions),
            ..HandshakeInit::default()
        };
        let mut message = ZmqMessage::from(self.identity.clone());
        for frame in encode_payload(&init) {
            message.push_back(frame);
        }
        self.handshake.send(message).await
    }

    fn on_registration(&self, frames: &[Bytes]) -> Result<Option<EngineCoreReadyResponse>, ClientError> {
        let Some((identity, payload)) = frames.split_first() else {
            return Ok(None);
        };
        if identity != &self.identity {
            tracing::warn!(?identity, "registration of an unexpected engine ignored");
            return Ok(None);
        }
        if payload.iter().all(Bytes::is_empty) {
            return Ok(Some(EngineCoreReadyResponse::default()));
        }
        let ready: EngineCoreReadyResponse =
            decode_payload(payload).map_err(|error| ClientError::Handshake {
                reason: format!("ready response: {error}"),
            })?;
        check_build(self.build.as_ref(), &ready)?;
        Ok(Some(ready))
    }
}

/// Refuses an engine of our own kind from another version. Other engines name none and pass; another
/// build of the same version is worth a warning, since one of them was installed without the other.
fn check_build(ours: Option<&BuildIdentity>, ready: &EngineCoreReadyResponse) -> Result<(), ClientError> {
    let Some(ours) = ours else { return Ok(()) };
    let other = |key, own: &str| {
        let theirs = ready.extension_str(key)?;
        let named = !theirs.is_empty() && theirs != "unknown" && !own.is_empty();
        (named && theirs != own).then(|| theirs.to_owned())
    };
    if let Some(engine) = other("version", &ours.version) {
        return Err(ClientError::VersionMismatch {
            engine,
            frontend: ours.version.clone(),
        });
    }
    if let Some(engine) = other("build_id", &ours.build_id) {
        tracing::warn!(
            engine,
            frontend = ours.build_id,
            "engine and frontend are of different builds"
        );
    }
    Ok(())
}

/// After the end of an engine, how long its last messages may take to arrive.
pub(crate) const LAST_WORDS: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_named_and_different_version_is_refused() {
        let ours = BuildIdentity {
            version: "0.1.0".into(),
            build_id: "abc".into(),
        };
        let engine = |version: &str| {
            let facts = vec![
                ("version".into(), version.into()),
                ("build_id".into(), "xyz".into()),
            ];
            EngineCoreReadyResponse {
                extensions: Value::Map(vec![("vllm_rs".into(), Value::Map(facts))]),
                ..EngineCoreReadyResponse::default()
            }
        };
        assert_eq!(check_build(Some(&ours), &engine("0.1.0")), Ok(()));
        assert_eq!(check_build(Some(&ours), &engine("unknown")), Ok(()));
        assert_eq!(
            check_build(Some(&ours), &EngineCoreReadyResponse::default()),
            Ok(())
        );
        let refused = ClientError::VersionMismatch {
            engine: "0.2.0".into(),
            frontend: "0.1.0".into(),
        };
        assert_eq!(check_build(Some(&ours), &engine("0.2.0")), Err(refused));
    }
}
