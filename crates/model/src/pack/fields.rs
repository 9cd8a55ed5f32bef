//! Packs values as a sequence of their fields, and reads them from untrusted bytes. Bytes after the known fields are
//! ignored.

use std::sync::Arc;

use super::reader::Reader;
use super::writer::Writer;
use crate::records::RecordId;

/// A value that has a packed form.
pub trait Packed: Sized {
    /// Writes the packed form.
    fn write(&self, out: &mut Writer);

    /// Reads a value; `None` if the bytes do not begin with one.
    fn read(from: &mut Reader<'_>) -> Option<Self>;

    /// Writes a list: the number of values, then the values. Enums that may get more variants also write the length of
    /// each value before it.
    fn write_list(list: &[Self], out: &mut Writer) {
        list.len().write(out);
        list.iter().for_each(|value| value.write(out));
    }

    /// Reads a list that [`write_list`](Self::write_list) has written.
    fn read_list(from: &mut Reader<'_>) -> Option<Vec<Self>> {
        // Each value takes at least a byte, so the bytes bound the number of values.
        let count = usize::read(from)?;
        (0..count).map(|_| Self::read(from)).collect()
    }
}

/// Packs the fields of a struct in the order in which they are listed or declared. Fields after a `;` are not packed,
/// and are read as their defaults. With `if`, only a value that passes the check is read.
#[macro_export]
macro_rules! packed {
    () => {};
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident {
            $($(#[$doc:meta])* $field_vis:vis $field:ident: $type:ty,)+
            $(; $($(#[$unpacked_doc:meta])* $unpacked_vis:vis $unpacked:ident: $unpacked_type:ty,)+)?
        }
        $($more:tt)*
    ) => {
        $(#[$meta])*
        $vis struct $name {
            $($(#[$doc])* $field_vis $field: $type,)+
            $($($(#[$unpacked_doc])* $unpacked_vis $unpacked: $unpacked_type,)+)?
        }
        $crate::pack::packed!($name { $($field),+ $(; $($unpacked),+)? });
        $crate::pack::packed!($($more)*);
    };
    ($type:ty { $($field:tt),+ $(,)? $(; $($unpacked:ident),+)? } $(if $check:expr)?) => {
        #[doc(hidden)]
        impl $crate::pack::Packed for $type {
            fn write(&self, out: &mut $crate::pack::Writer) {
                $($crate::pack::Packed::write(&self.$field, out);)+
            }

            fn read(from: &mut $crate::pack::Reader<'_>) -> Option<Self> {
                let value = Self {
                    $($field: $crate::pack::Packed::read(from)?,)+
                    $($($unpacked: Default::default(),)+)?
                };
                $(if !$crate::pack::passes(&value, $check) {
                    return None;
                })?
                Some(value)
            }
        }
    };
}
pub use packed;

/// Whether a value passes a check, for [`packed!`].
#[doc(hidden)]
pub fn passes<T>(value: &T, check: impl FnOnce(&T) -> bool) -> bool {
    check(value)
}

/// Packs an enum as the number of its variant, which must not change, and the variant's fields. In a list, the length
/// precedes each value, so a reader can skip variants of a later version.
#[macro_export]
macro_rules! packed_enum {
    ($type:ty { $($number:literal => $variant:ident $({ $($field:ident),+ })?),+ $(,)? }) => {
        #[doc(hidden)]
        impl $crate::pack::Packed for $type {
            fn write(&self, out: &mut $crate::pack::Writer) {
                match self {
                    $(Self::$variant $({ $($field),+ })? => {
                        out.uint($number);
                        $($($crate::pack::Packed::write($field, out);)+)?
                    })+
                }
            }

            fn read(from: &mut $crate::pack::Reader<'_>) -> Option<Self> {
                Some(match from.uint()? {
                    $($number => Self::$variant $({ $($field: $crate::pack::Packed::read(from)?),+ })?,)+
                    _ => return None,
                })
            }

            fn write_list(list: &[Self], out: &mut $crate::pack::Writer) {
                out.uint(list.len() as u64);
                list.iter().for_each(|value| out.bytes(&$crate::pack::pack(value)));
            }

            fn read_list(from: &mut $crate::pack::Reader<'_>) -> Option<Vec<Self>> {
                let all: Option<Vec<&[u8]>> = (0..from.uint()?).map(|_| from.bytes()).collect();
                Some(all?.into_iter().filter_map($crate::pack::unpack).collect())
            }
        }
    };
}
pub use packed_enum;

/// Declares an enum whose variants have names. A value is packed as the number of its variant, so a new variant must
/// come last. With `else`, a number that only a later version knows is read as the variant after `else`.
#[macro_export]
macro_rules! named {
    (
        $(#[$meta:meta])*
        $vis:vis enum $type:ident $(else $default:ident)? {
            $($(#[$doc:meta])* $variant:ident = $name:literal,)+
        }
    ) => {
        $(#[$meta])*
        $vis enum $type {
            $($(#[$doc])* $variant,)+
        }

        impl $type {
            /// All variants, in the order of their numbers.
            #[doc(hidden)]
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// The name in the API.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        #[doc(hidden)]
        impl $crate::pack::Packed for $type {
            fn write(&self, out: &mut $crate::pack::Writer) {
                out.uint(*self as u64);
            }

            fn read(from: &mut $crate::pack::Reader<'_>) -> Option<Self> {
                let number: usize = $crate::pack::Packed::read(from)?;
                Self::ALL.get(number).copied()$(.or(Some(Self::$default)))?
            }
        }
    };
}
pub use named;

/// Packs a value.
pub fn pack(value: &impl Packed) -> Vec<u8> {
    let mut out = Writer(Vec::new());
    value.write(&mut out);
    out.0
}

/// Unpacks a value; `None` if the bytes are not one.
pub fn unpack<T: Packed>(bytes: &[u8]) -> Option<T> {
    T::read(&mut Reader(bytes))
}

/// Packs a value as text, in hexadecimal digits.
pub fn to_hex(value: &impl Packed) -> String {
    let bytes = pack(value);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Unpacks a value from hexadecimal digits; `None` if the digits are not a value.
pub fn from_hex<T: Packed>(text: &str) -> Option<T> {
    let pairs = (0..text.len()).step_by(2).map(|at| text.get(at..at + 2));
    let bytes = pairs.map(|pair| u8::from_str_radix(pair?, 16).ok());
    unpack(&bytes.collect::<Option<Vec<_>>>()?)
}

macro_rules! packed_numbers {
    ($wide:ty, $method:ident: $($number:ty),+) => {
        $(impl Packed for $number {
            fn write(&self, out: &mut Writer) {
                // The cast changes no value, because the wide type has all values.
                out.$method(*self as $wide);
            }

            fn read(from: &mut Reader<'_>) -> Option<Self> {
                Self::try_from(from.$method()?).ok()
            }
        })+
    };
}
packed_numbers!(u64, uint: u16, u32, u64, usize);
packed_numbers!(i64, int: i32, i64);

impl Packed for bool {
    fn write(&self, out: &mut Writer) {
        u8::from(*self).write(out);
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        Some(u8::read(from)? != 0)
    }
}

impl Packed for f64 {
    fn write(&self, out: &mut Writer) {
        out.0.extend_from_slice(&self.to_le_bytes());
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        let (bytes, tail) = from.0.split_first_chunk()?;
        from.0 = tail;
        Some(Self::from_le_bytes(*bytes))
    }
}

impl Packed for RecordId {
    fn write(&self, out: &mut Writer) {
        out.0.extend_from_slice(&self.to_bytes());
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        let (bytes, tail) = from.0.split_first_chunk::<8>()?;
        from.0 = tail;
        Self::from_bytes(bytes)
    }
}

macro_rules! packed_texts {
    ($($text:ty),+) => {
        $(impl Packed for $text {
            fn write(&self, out: &mut Writer) {
                out.bytes(self.as_bytes());
            }

            fn read(from: &mut Reader<'_>) -> Option<Self> {
                std::str::from_utf8(from.bytes()?).ok().map(Self::from)
            }
        })+
    };
}
packed_texts!(Arc<str>, Box<str>, String);

/// A list of `u8` is packed as bytes.
impl Packed for u8 {
    fn write(&self, out: &mut Writer) {
        out.uint(u64::from(*self));
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        Self::try_from(from.uint()?).ok()
    }

    fn write_list(list: &[Self], out: &mut Writer) {
        out.bytes(list);
    }

    fn read_list(from: &mut Reader<'_>) -> Option<Vec<Self>> {
        from.bytes().map(<[u8]>::to_vec)
    }
}

impl<T: Packed> Packed for Option<T> {
    fn write(&self, out: &mut Writer) {
        self.is_some().write(out);
        if let Some(value) = self {
            value.write(out);
        }
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        match bool::read(from)? {
            true => T::read(from).map(Some),
            false => Some(None),
        }
    }
}

impl<T: Packed> Packed for Vec<T> {
    fn write(&self, out: &mut Writer) {
        T::write_list(self, out);
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        T::read_list(from)
    }
}

impl<T: Packed + Copy + Default, const N: usize> Packed for [T; N] {
    fn write(&self, out: &mut Writer) {
        self.iter().for_each(|value| value.write(out));
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        let mut values = [T::default(); N];
        for value in &mut values {
            *value = T::read(from)?;
        }
        Some(values)
    }
}

impl<A: Packed, B: Packed> Packed for (A, B) {
    fn write(&self, out: &mut Writer) {
        self.0.write(out);
        self.1.write(out);
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        Some((A::read(from)?, B::read(from)?))
    }
}
