//! The engine's ends of the sockets.

use bytes::Bytes;
use vllm_rs_wire::{
    EngineCoreReadyResponse, Frames, HandshakeInit, HandshakeMessage, HandshakeStatus, decode_payload,
    encode_payload,
};
use zeromq::util::PeerIdentity;
use zeromq::{DealerSocket, PushSocket, Socket, SocketOptions, SocketRecv, SocketSend, ZmqMessage};

use crate::mock::{MockConfig, MockError};

/// The mock reads one input, the first client's: it is not made for several frontends.
pub(crate) struct Sockets {
    pub(crate) input: DealerSocket,
    /// Indexed by client.
    outputs: Vec<PushSocket>,
    _handshake: DealerSocket,
}

fn dealer(engine_index: u16) -> Result<DealerSocket, MockError> {
    let mut options = SocketOptions::default();
    options.peer_identity(PeerIdentity::try_from(&engine_index.to_le_bytes()[..])?);
    Ok(DealerSocket::with_options(options))
}

fn message(frames: Frames) -> Option<ZmqMessage> {
    ZmqMessage::try_from(frames).ok()
}

async fn send(socket: &mut impl SocketSend, frames: Frames) -> Result<(), MockError> {
    match message(frames) {
        Some(message) => Ok(socket.send(message).await?),
        None => Ok(()),
    }
}

impl Sockets {
    /// HELLO, INIT, registration, READY.
    pub(crate) async fn connect(config: &MockConfig, handshake_address: &str) -> Result<Self, MockError> {
        let mut handshake = dealer(config.engine_index)?;
        handshake.connect(handshake_address).await?;
        let status = |status| {
            encode_payload(&HandshakeMessage {
                status: Some(status),
                local: Some(true),
                headless: Some(true),
                parallel_config_hash: None,
            })
        };
        send(&mut handshake, status(HandshakeStatus::Hello)).await?;
        let init: HandshakeInit = decode_payload(&handshake.recv().await?.into_vec())?;
        let Some(input_address) = init.addresses.inputs.first() else {
            return Err(MockError::NoAddresses);
        };
        let mut outputs = Vec::new();
        for address in &init.addresses.outputs {
            let mut output = PushSocket::new();
            output.connect(address).await?;
            outputs.push(output);
        }
        let mut input = dealer(config.engine_index)?;
        input.connect(input_address).await?;
        send(&mut input, encode_payload(&ready_response(config))).await?;
        send(&mut handshake, status(HandshakeStatus::Ready)).await?;
        Ok(Self {
            input,
            outputs,
            _handshake: handshake,
        })
    }

    /// Sends to one client; an index without a socket is nobody.
    pub(crate) async fn send_to(&mut self, client_index: u32, frames: Frames) -> Result<(), MockError> {
        match self.outputs.get_mut(client_index as usize) {
            Some(output) => send(output, frames).await,
            None => Ok(()),
        }
    }

    pub(crate) async fn send_to_all(&mut self, frame: &'static [u8]) -> Result<(), MockError> {
        for output in &mut self.outputs {
            send(output, vec![Bytes::from_static(frame)]).await?;
        }
        Ok(())
    }
}

fn ready_response(config: &MockConfig) -> EngineCoreReadyResponse {
    EngineCoreReadyResponse {
        max_model_len: u64::from(config.max_model_len),
        num_gpu_blocks: u64::from(config.num_gpu_blocks),
        block_size: u64::from(config.block_size),
        dtype: "float32".to_owned(),
        vllm_version: "0.32.0".to_owned(),
        data_parallel_rank: u64::from(config.engine_index),
        max_num_seqs: u64::from(config.max_num_seqs),
        max_num_batched_tokens: u64::from(config.max_model_len),
        instance_id: "mock".to_owned(),
        kv_cache_size_tokens: Some(u64::from(config.num_gpu_blocks) * u64::from(config.block_size)),
        ..EngineCoreReadyResponse::default()
    }
}
