//! Writes numbers, sections and slices.

use super::{Packed, derived};
use crate::slice::Precision;
use crate::slices::{Merge, Slices};

/// Appends a packed form to bytes.
#[derive(Default)]
pub struct Writer(pub Vec<u8>);

impl Writer {
    /// Writes an unsigned number.
    #[inline]
    pub fn uint(&mut self, n: u64) {
        match n {
            ..0x80 => self.0.push(n as u8),
            _ => self.wide(n.into()),
        }
    }

    pub(crate) fn wide(&mut self, mut n: u128) {
        while n >= 0x80 {
            self.0.push(n as u8 | 0x80);
            n >>= 7;
        }
        self.0.push(n as u8);
    }

    /// Writes a signed number.
    pub fn int(&mut self, n: i64) {
        self.uint((n.wrapping_shl(1) ^ (n >> 63)) as u64);
    }

    /// Writes bytes of any length.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.uint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// Writes a section: its tag, the length of its body, and the body.
    pub fn section(&mut self, tag: u64, body: impl FnOnce(&mut Self)) {
        let mut packed = Self(Vec::with_capacity(64));
        body(&mut packed);
        self.uint(tag);
        self.bytes(&packed.0);
    }

    pub(crate) fn slices<V: Merge>(
        &mut self,
        slices: &Slices<V>,
        precision: Precision,
        base: i64,
        value: impl Fn(&V, &mut Self),
    ) {
        // 0 marks a precision that the reader derives.
        self.uint(slices.len() as u64 + 1);
        let width = i64::from(precision.seconds);
        let base = base.div_euclid(width);
        for (start, v) in slices.iter() {
            self.int(base.wrapping_sub(start.div_euclid(width)));
            value(v, self);
        }
    }

    pub(crate) fn series<V: Merge + Packed + Clone + PartialEq>(
        &mut self,
        series: &[Slices<V>],
        precisions: &[Precision],
        base: i64,
    ) {
        for (at, (slices, precision)) in series.iter().zip(precisions).enumerate() {
            if at > 0 && derived(&series[0], *precision) == *slices {
                self.uint(0);
            } else {
                self.slices(slices, *precision, base, V::write);
            }
        }
    }
}
