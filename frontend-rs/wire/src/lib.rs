//! The `EngineCore` wire protocol: the types that cross the sockets between a frontend and an
//! engine, and their msgpack encoding. No I/O happens here.
//!
//! Two kinds of struct exist on this wire. *Positional* structs are arrays that only ever grow at
//! the end: a shorter array takes defaults for what is missing, a longer one is read as far as we
//! know it. *Map* structs ignore unknown keys and take defaults for missing ones. Buffers (logprobs,
//! tensors) travel inline when small, else as auxiliary frames of the same `ZeroMQ` message.
//!
//! Everything that decodes is total: any bytes give a value or a [`WireError`], never a panic, and
//! never an allocation out of proportion to the input (see [`Limits`]).

mod array;
mod codec;
mod error;
mod handshake;
mod head;
mod limits;
mod logprobs;
mod macros;
mod message;
mod output;
mod reader;
mod ready;
mod request;
mod sampling;
mod stats;
mod utility;
mod writer;

pub use array::{Array, DType, NdArray, Tensor};
pub use codec::Wire;
pub use error::{WireError, WireErrorKind};
pub use handshake::{EngineAddresses, HandshakeInit, HandshakeMessage, HandshakeStatus};
pub use limits::Limits;
pub use logprobs::{Logprobs, LogprobsLists, LogprobsTensors};
pub use message::{
    DecodedOutputs, Frames, OutputError, RequestError, decode_aborts, decode_outputs, decode_outputs_within,
    decode_payload, decode_request, decode_request_within, encode_aborts, encode_outputs, encode_payload,
    encode_request, is_engine_dead,
};
pub use output::{
    EngineCoreEvent, EngineCoreEventType, EngineCoreOutput, EngineCoreOutputs, FinishReason, PrefillStats,
    StopReason,
};
pub use reader::Reader;
pub use ready::EngineCoreReadyResponse;
pub use request::{EngineCoreRequest, RequestType};
pub use sampling::{RequestOutputKind, SamplingParams, StopStrings};
pub use stats::{PrefixCacheStats, SchedulerStats, SpecDecodingStats};
pub use utility::{UtilityOutput, UtilityRequest, UtilityResult};
pub use writer::Writer;

/// Re-exported so that callers build and read opaque values with the same version.
pub use rmpv::Value;

/// The one-frame message an engine sends to every client when it is about to die.
pub const ENGINE_CORE_DEAD: &[u8] = b"ENGINE_CORE_DEAD";

/// Buffers of at least this many bytes travel as auxiliary frames, smaller ones inline.
pub const ZERO_COPY_THRESHOLD_BYTES: usize = 256;
