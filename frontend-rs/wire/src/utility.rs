//! Calls of an engine's public methods, and their results.

use rmpv::Value;

use crate::codec::Wire;
use crate::error::{WireError, WireErrorKind};
use crate::macros::wire_array;
use crate::reader::Reader;
use crate::writer::Writer;

wire_array! {
    /// `method(*args)` on the engine object.
    pub struct UtilityRequest, min 4 {
        pub client_index: u32 = 0,
        pub call_id: u64 = 0,
        pub method: String = String::new(),
        pub args: Vec<Value> = Vec::new(),
    }
}

/// What a call returned: `[type, value]`, where the type is for insecure serialisation, always off.
#[derive(Debug, Clone, PartialEq)]
pub struct UtilityResult(pub Value);

impl Wire for UtilityResult {
    fn encode(&self, writer: &mut Writer) {
        writer.array_len(2);
        writer.nil();
        writer.value(&self.0);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        match reader.array_len()? {
            2 => {
                reader.skip()?;
                reader.value().map(Self)
            }
            given if given < 2 => Err(reader.error(WireErrorKind::TooShort { min: 2, given })),
            given => Err(reader.error(WireErrorKind::TooLong { max: 2, given })),
        }
    }
}

wire_array! {
    /// The answer to a call. Negative call ids are notifications that an engine sends by itself.
    pub struct UtilityOutput, min 1 {
        /// Wide enough for the signed notifications and for upstream's unsigned 64-bit ids.
        pub call_id: i128 = 0,
        /// Set when the call failed.
        pub failure_message: Option<String> = None,
        pub result: Option<UtilityResult> = None,
    }
}
