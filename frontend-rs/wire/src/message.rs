//! Whole messages: what is sent as one, and read so that one bad part does not take the rest with it.

use bytes::Bytes;

use crate::codec::Wire;
use crate::error::{WireError, WireErrorKind};
use crate::limits::Limits;
use crate::output::{EngineCoreOutput, EngineCoreOutputs};
use crate::reader::Reader;
use crate::request::EngineCoreRequest;
use crate::stats::SchedulerStats;
use crate::utility::UtilityOutput;
use crate::writer::Writer;

/// A message without identity and type: the main frame, then the auxiliary ones.
pub type Frames = Vec<Bytes>;

/// Encodes any one value as a message.
pub fn encode_payload<T: Wire>(value: &T) -> Frames {
    let mut writer = Writer::new();
    value.encode(&mut writer);
    writer.into_frames()
}

/// Decodes any one value that fills the main frame, within the default limits.
pub fn decode_payload<T: Wire>(frames: &[Bytes]) -> Result<T, WireError> {
    let mut reader = Reader::new(frames, Limits::DEFAULT)?;
    let value = T::decode(&mut reader)?;
    reader.finish()?;
    Ok(value)
}

pub fn encode_request(request: &EngineCoreRequest) -> Frames {
    encode_payload(request)
}

pub fn encode_outputs(outputs: &EngineCoreOutputs) -> Frames {
    encode_payload(outputs)
}

/// The payload of an ABORT message.
pub fn encode_aborts<S: AsRef<str>>(request_ids: &[S]) -> Frames {
    let mut writer = Writer::new();
    writer.array_len(request_ids.len());
    for id in request_ids {
        writer.str(id.as_ref());
    }
    writer.into_frames()
}

pub fn decode_aborts(frames: &[Bytes]) -> Result<Vec<String>, WireError> {
    decode_payload(frames)
}

/// Whether a message is an engine's last word.
pub fn is_engine_dead(frames: &[Bytes]) -> bool {
    matches!(frames, [only] if only == crate::ENGINE_CORE_DEAD)
}

/// A request that cannot be read, with what is needed to answer it where that could be read.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("request {}: {error}", request_id.as_deref().unwrap_or("of unknown id"))]
pub struct RequestError {
    pub request_id: Option<String>,
    pub client_index: Option<u32>,
    #[source]
    pub error: WireError,
}

/// Position of `client_index` in a request.
const CLIENT_INDEX_SLOT: usize = 11;

pub fn decode_request(frames: &[Bytes]) -> Result<EngineCoreRequest, RequestError> {
    decode_request_within(frames, Limits::DEFAULT)
}

pub fn decode_request_within(frames: &[Bytes], limits: Limits) -> Result<EngineCoreRequest, RequestError> {
    let whole = Reader::new(frames, limits).and_then(|mut reader| {
        let request = EngineCoreRequest::decode(&mut reader)?;
        reader.finish()?;
        Ok(request)
    });
    whole.map_err(|error| {
        let mut salvage = Reader::new(frames, limits).ok();
        let (request_id, client_index) = salvage.as_mut().map(salvage_request).unwrap_or_default();
        RequestError {
            request_id,
            client_index,
            error,
        }
    })
}

/// Id and client index of a request that is broken elsewhere.
fn salvage_request(reader: &mut Reader<'_>) -> (Option<String>, Option<u32>) {
    let Ok(len) = reader.array_len() else {
        return (None, None);
    };
    let Ok(request_id) = String::decode(reader) else {
        return (None, None);
    };
    let reached = len > CLIENT_INDEX_SLOT && (1..CLIENT_INDEX_SLOT).all(|_| reader.skip().is_ok());
    let client_index = if reached { u32::decode(reader).ok() } else { None };
    (Some(request_id), client_index)
}

/// An element of a batch that cannot be read.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("output of request {}: {error}", request_id.as_deref().unwrap_or("of unknown id"))]
pub struct OutputError {
    /// Whose output it was, where that could be read.
    pub request_id: Option<String>,
    #[source]
    pub error: WireError,
}

/// A message of an engine, read part by part.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DecodedOutputs {
    pub engine_index: u32,
    /// In the order of the message. An error without a request id may have been anyone's.
    pub outputs: Vec<Result<EngineCoreOutput, OutputError>>,
    pub scheduler_stats: Option<Box<SchedulerStats>>,
    /// The engine's monotonic clock, seconds.
    pub timestamp: f64,
    pub utility_output: Option<UtilityOutput>,
    pub finished_requests: Option<Vec<String>>,
    pub wave_complete: Option<u64>,
    pub start_wave: Option<u64>,
    pub weight_version: Option<String>,
    /// Faults outside the outputs that cost no request anything (statistics, mostly).
    pub side_errors: Vec<WireError>,
}

pub fn decode_outputs(frames: &[Bytes]) -> Result<DecodedOutputs, WireError> {
    decode_outputs_within(frames, Limits::DEFAULT)
}

/// Reads a batch element by element. `Err` means that nothing in it could be attributed to anyone.
pub fn decode_outputs_within(frames: &[Bytes], limits: Limits) -> Result<DecodedOutputs, WireError> {
    let mut reader = Reader::new(frames, limits)?;
    let reader = &mut reader;
    let len = reader.array_len()?;
    let mut out = DecodedOutputs::default();
    let mut position = 0;
    let mut slot = || {
        position += 1;
        position <= len
    };
    if slot() {
        part(
            reader,
            "engine_index",
            &mut out.engine_index,
            &mut out.side_errors,
        )?;
    }
    if slot() && !outputs_slot(reader, &mut out)? {
        return Ok(out);
    }
    macro_rules! parts {
        ($($field:ident),*) => {$(
            if slot() && part(reader, stringify!($field), &mut out.$field, &mut out.side_errors).is_err() {
                return Ok(out);
            }
        )*};
    }
    parts!(
        scheduler_stats,
        timestamp,
        utility_output,
        finished_requests,
        wave_complete,
        start_wave,
        weight_version
    );
    Ok(out)
}

/// Reads one slot into `target`. A value of the wrong kind is noted and passed over; `Err` means that
/// its end could not be found (noted as well), so nothing after it can be read.
fn part<T: Wire>(
    reader: &mut Reader<'_>,
    name: &str,
    target: &mut T,
    errors: &mut Vec<WireError>,
) -> Result<(), WireError> {
    let start = reader.offset();
    match T::decode(reader) {
        Ok(value) => {
            *target = value;
            Ok(())
        }
        Err(error) => {
            let error = error.in_field(name);
            reader.rewind(start);
            errors.push(error.clone());
            reader.skip().map_err(|_| error)
        }
    }
}

/// Reads the outputs; false if their end could not be found, in which case a last error says so.
fn outputs_slot(reader: &mut Reader<'_>, out: &mut DecodedOutputs) -> Result<bool, WireError> {
    let len = reader.array_len().map_err(|error| error.in_field("outputs"))?;
    for index in 0..len {
        let start = reader.offset();
        match EngineCoreOutput::decode(reader) {
            Ok(output) => out.outputs.push(Ok(output)),
            Err(error) => {
                let error = error.in_field(&format!("outputs.{index}"));
                reader.rewind(start);
                let request_id = reader.array_len().and_then(|_| String::decode(reader)).ok();
                reader.rewind(start);
                let found_end = reader.skip().is_ok();
                out.outputs.push(Err(OutputError { request_id, error }));
                if !found_end {
                    lost_tail(reader, len - index - 1, out);
                    return Ok(false);
                }
            }
        }
    }
    Ok(true)
}

/// Notes that `lost` more outputs were announced but cannot be told apart.
fn lost_tail(reader: &Reader<'_>, lost: usize, out: &mut DecodedOutputs) {
    if lost > 0 {
        let error = reader.error(WireErrorKind::Truncated).in_field("outputs");
        out.outputs.push(Err(OutputError {
            request_id: None,
            error,
        }));
    }
}
