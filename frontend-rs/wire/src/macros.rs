//! The two struct shapes of this wire, each declared once: fields, defaults, both directions.

/// A positional struct: an array whose first `$min` elements are required. Missing trailing elements
/// take their defaults, extra ones are ignored, and all positions are always written.
macro_rules! wire_array {
    (
        $(#[$meta:meta])*
        pub struct $name:ident, min $min:literal {
            $( $(#[$field_meta:meta])* pub $field:ident : $ty:ty = $default:expr, )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name {
            $( $(#[$field_meta])* pub $field: $ty, )*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $( $field: $default, )* }
            }
        }

        impl $name {
            /// Elements this version writes.
            pub const LEN: usize = [$( stringify!($field) ),*].len();
        }

        impl $crate::codec::Wire for $name {
            fn encode(&self, writer: &mut $crate::writer::Writer) {
                writer.array_len(Self::LEN);
                $( $crate::codec::Wire::encode(&self.$field, writer); )*
            }

            fn decode(reader: &mut $crate::reader::Reader<'_>) -> Result<Self, $crate::error::WireError> {
                let given = reader.array_len()?;
                if given.checked_sub($min).is_none() {
                    let kind = $crate::error::WireErrorKind::TooShort { min: $min, given };
                    return Err(reader.error(kind));
                }
                let mut out = Self::default();
                let mut left = given;
                $(
                    if left > 0 {
                        left -= 1;
                        out.$field = $crate::codec::Wire::decode(reader)
                            .map_err(|error| error.in_field(stringify!($field)))?;
                    }
                )*
                for _ in 0..left {
                    reader.skip()?;
                }
                Ok(out)
            }
        }
    };
}

/// A map struct: `omit_defaults` leaves out keys that equal their default, `write_all` does not.
/// Unknown keys are ignored, missing ones take their defaults.
macro_rules! wire_map {
    (
        $(#[$meta:meta])*
        pub struct $name:ident, $mode:ident {
            $( $(#[$field_meta:meta])* $key:literal => pub $field:ident : $ty:ty = $default:expr, )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name {
            $( $(#[$field_meta])* pub $field: $ty, )*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $( $field: $default, )* }
            }
        }

        impl $crate::codec::Wire for $name {
            #[allow(clippy::float_cmp, reason = "a float equals its default exactly or is written")]
            fn encode(&self, writer: &mut $crate::writer::Writer) {
                let default = Self::default();
                let write_all = wire_map!(@write_all $mode);
                let mut count = 0;
                $( count += usize::from(write_all || self.$field != default.$field); )*
                let fields = [$( $key ),*].len();
                writer.struct_map_len(count, fields);
                $(
                    if write_all || self.$field != default.$field {
                        writer.str($key);
                        $crate::codec::Wire::encode(&self.$field, writer);
                    }
                )*
            }

            fn decode(reader: &mut $crate::reader::Reader<'_>) -> Result<Self, $crate::error::WireError> {
                let len = reader.map_len()?;
                let mut out = Self::default();
                for _ in 0..len {
                    match reader.str().map_err(|error| error.in_field("key"))? {
                        $(
                            $key => {
                                out.$field = $crate::codec::Wire::decode(reader)
                                    .map_err(|error| error.in_field($key))?;
                            }
                        )*
                        _ => reader.skip()?,
                    }
                }
                Ok(out)
            }
        }
    };
    (@write_all omit_defaults) => { false };
    (@write_all write_all) => { true };
}

/// An enumeration that travels as a small integer.
macro_rules! wire_enum {
    (
        $(#[$meta:meta])*
        pub enum $name:ident, $what:literal {
            $( $(#[$variant_meta:meta])* $variant:ident = $number:literal, )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $( $(#[$variant_meta])* $variant = $number, )*
        }

        impl $crate::codec::Wire for $name {
            fn encode(&self, writer: &mut $crate::writer::Writer) {
                writer.uint(*self as u64);
            }

            fn decode(reader: &mut $crate::reader::Reader<'_>) -> Result<Self, $crate::error::WireError> {
                let start = reader.offset();
                match reader.int()? {
                    $( $number => Ok(Self::$variant), )*
                    given => Err($crate::error::WireError::new(
                        start,
                        $crate::error::WireErrorKind::UnknownValue { what: $what, given: given.to_string() },
                    )),
                }
            }
        }
    };
}

pub(crate) use {wire_array, wire_enum, wire_map};
