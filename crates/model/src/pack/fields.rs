//! Packs values as a sequence of their fields, and reads them from untrusted bytes. Bytes behind the fields that are known
//! are left unread.

use std::sync::Arc;

use super::reader::Reader;
use super::writer::Writer;
use crate::records::RecordId;

/// A value that has a packed form.
pub trait Packed: Sized {
    /// Writes the packed form.
    fn write(&self, out: &mut Writer);

    /// The value; `None` if the bytes do not begin with one.
    fn read(from: &mut Reader<'_>) -> Option<Self>;

    /// Writes several: their number, then one after the other. Values of which later versions may have more kinds write
    /// them with their lengths instead.
    fn write_list(list: &[Self], out: &mut Writer) {
        list.len().write(out);
        list.iter().for_each(|value| value.write(out));
    }

    /// The values that [`write_list`](Self::write_list) has written.
    fn read_list(from: &mut Reader<'_>) -> Option<Vec<Self>> {
        // Each value takes at least a byte, so that the bytes bound their number.
        let count = usize::read(from)?;
        (0..count).map(|_| Self::read(from)).collect()
    }
}

/// Packs the listed fields of a struct, in this order. Those behind `unpacked` are not packed, and have their defaults.
#[macro_export]
macro_rules! packed {
    ($type:ty {
        $($field:ident),+ $(,)? $(; unpacked $($unpacked:ident),+ $(,)?)?
    }) => {
        impl $crate::pack::Packed for $type {
            fn write(&self, out: &mut $crate::pack::Writer) {
                $($crate::pack::Packed::write(&self.$field, out);)+
            }

            fn read(from: &mut $crate::pack::Reader<'_>) -> Option<Self> {
                Some(Self {
                    $($field: $crate::pack::Packed::read(from)?,)+
                    $($($unpacked: Default::default(),)+)?
                })
            }
        }
    };
}
pub use packed;

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

macro_rules! packed_numbers {
    ($wide:ty, $method:ident: $($number:ty),+) => {
        $(impl Packed for $number {
            fn write(&self, out: &mut Writer) {
                // Each of them fits.
                out.$method(*self as $wide);
            }

            fn read(from: &mut Reader<'_>) -> Option<Self> {
                Self::try_from(from.$method()?).ok()
            }
        })+
    };
}
packed_numbers!(u64, uint: u8, u32, u64, usize);
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

impl Packed for Arc<str> {
    fn write(&self, out: &mut Writer) {
        out.bytes(self.as_bytes());
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        std::str::from_utf8(from.bytes()?).ok().map(Self::from)
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
