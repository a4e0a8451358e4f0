//! The kinds of msgpack value, as their first bytes tell them.

/// What one msgpack head byte (and its length bytes) announces.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Head {
    Nil,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    F32(f32),
    F64(f64),
    Str(usize),
    Bin(usize),
    Array(usize),
    Map(usize),
    Ext(i8, usize),
    /// 0xc1, which msgpack never uses.
    Reserved,
}

impl Head {
    /// What to call it in an error.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nil => "nil",
            Self::Bool(_) => "bool",
            Self::Unsigned(_) | Self::Signed(_) => "int",
            Self::F32(_) | Self::F64(_) => "float",
            Self::Str(_) => "str",
            Self::Bin(_) => "bin",
            Self::Array(_) => "array",
            Self::Map(_) => "map",
            Self::Ext(..) => "ext",
            Self::Reserved => "the reserved byte 0xc1",
        }
    }
}
