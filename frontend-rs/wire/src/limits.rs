//! How much one message may ask of its reader.

/// Bounds on one message. Exceeding any of them is a [`crate::WireError`], found before memory is spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Largest single frame, in bytes.
    pub max_frame_bytes: usize,
    /// Most frames in one message, the main one included.
    pub max_frames: usize,
    /// Deepest nesting of arrays and maps in opaque or skipped values.
    pub max_depth: usize,
    /// Most array elements and map entries in one message, all levels together.
    pub max_elements: usize,
}

impl Limits {
    /// Prompts of a million tokens fit with room to spare; a hostile count does not.
    pub const DEFAULT: Self = Self {
        max_frame_bytes: 256 << 20,
        max_frames: 4096,
        max_depth: 32,
        max_elements: 4 << 20,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
