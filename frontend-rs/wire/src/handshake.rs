//! The start-up exchange: HELLO from the engine, INIT to it, READY from it.

use rmpv::Value;

use crate::codec::Wire;
use crate::error::{WireError, WireErrorKind};
use crate::macros::wire_map;
use crate::reader::Reader;
use crate::writer::Writer;

/// How far an engine has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HandshakeStatus {
    Hello,
    Ready,
}

impl Wire for HandshakeStatus {
    fn encode(&self, writer: &mut Writer) {
        writer.str(match self {
            Self::Hello => "HELLO",
            Self::Ready => "READY",
        });
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let start = reader.offset();
        match reader.str()? {
            "HELLO" => Ok(Self::Hello),
            "READY" => Ok(Self::Ready),
            other => Err(WireError::new(
                start,
                WireErrorKind::UnknownValue {
                    what: "handshake status",
                    given: other.escape_debug().take(32).collect(),
                },
            )),
        }
    }
}

wire_map! {
    /// HELLO or READY, engine to client.
    pub struct HandshakeMessage, omit_defaults {
        "status" => pub status: Option<HandshakeStatus> = None,
        "local" => pub local: Option<bool> = None,
        "headless" => pub headless: Option<bool> = None,
        "parallel_config_hash" => pub parallel_config_hash: Option<String> = None,
    }
}

wire_map! {
    /// Where the engine finds its sockets; `outputs[client_index]` takes the answers.
    pub struct EngineAddresses, write_all {
        "inputs" => pub inputs: Vec<String> = Vec::new(),
        "outputs" => pub outputs: Vec<String> = Vec::new(),
        "coordinator_input" => pub coordinator_input: Option<String> = None,
        "coordinator_output" => pub coordinator_output: Option<String> = None,
        "frontend_stats_publish_address" => pub frontend_stats_publish_address: Option<String> = None,
    }
}

wire_map! {
    /// INIT, client to engine. The parallel configuration is empty outside coordinated data parallelism.
    pub struct HandshakeInit, write_all {
        "addresses" => pub addresses: EngineAddresses = EngineAddresses::default(),
        "parallel_config" => pub parallel_config: Value = Value::Map(Vec::new()),
        /// Ours: `version` and `build_id` of the frontend under the key `vllm_rs`. Other engines ignore it.
        "extensions" => pub extensions: Value = Value::Map(Vec::new()),
    }
}
