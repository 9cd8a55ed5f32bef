//! Reads numbers, sections and slices from untrusted bytes.

use std::sync::Arc;

use super::{Packed, derived};
use crate::context::MAX_NAME;
use crate::slice::Precision;
use crate::slices::{Merge, Slices};

/// The longest name that is accepted, in bytes. A name of a counter may begin with an added backslash.
const MAX_NAME_BYTES: usize = MAX_NAME + 1;

/// Whether a text is short enough for a name.
pub(crate) fn is_name(text: &Arc<str>) -> bool {
    text.len() <= MAX_NAME_BYTES
}

/// The cost that the unread part of an entry may have for a store.
pub struct Budget(usize);

impl Budget {
    /// The budget of an entry that costs at most this much.
    pub const fn new(cost: usize) -> Self {
        Self(cost)
    }

    /// Spends the cost of a part of an entry, at least 1; `None` if nothing was left before. The last part may cost
    /// more than what is left, because a counter is never split.
    pub fn spend(&mut self, cost: usize) -> Option<()> {
        self.0 = match self.0 {
            0 => return None,
            left => left.saturating_sub(cost.max(1)),
        };
        Some(())
    }
}

/// Reads a packed form from unchecked bytes.
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (first, tail) = self.0.split_first()?;
        self.0 = tail;
        Some(*first)
    }

    /// Reads an unsigned number. Nearly all numbers take a byte or two.
    #[inline]
    pub fn uint(&mut self) -> Option<u64> {
        let (n, tail) = match self.0 {
            [first @ ..0x80, tail @ ..] => (u64::from(*first), tail),
            [first, second @ ..0x80, tail @ ..] => {
                (u64::from(*first & 0x7f) | u64::from(*second) << 7, tail)
            }
            _ => return u64::try_from(self.wide()?).ok(),
        };
        self.0 = tail;
        Some(n)
    }

    pub(crate) fn wide(&mut self) -> Option<u128> {
        let mut n = 0u128;
        for shift in (0..128).step_by(7) {
            let byte = self.byte()?;
            let bits = u128::from(byte & 0x7f);
            if bits.leading_zeros() < shift {
                return None;
            }
            n |= bits << shift;
            if byte < 0x80 {
                return Some(n);
            }
        }
        None
    }

    /// Reads a signed number.
    pub fn int(&mut self) -> Option<i64> {
        let n = self.uint()?;
        Some((n >> 1) as i64 ^ -((n & 1) as i64))
    }

    /// Reads bytes of any length.
    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.uint()?).ok()?;
        let (bytes, tail) = self.0.split_at_checked(length)?;
        self.0 = tail;
        Some(bytes)
    }

    pub(crate) fn name(&mut self) -> Option<Arc<str>> {
        Packed::read(self).filter(is_name)
    }

    /// Reads slices, oldest first, at most as many as the precision retains. Returns `Some(None)` if the slices must be
    /// derived from finer slices.
    pub fn slices<V: Merge>(
        &mut self,
        precision: Precision,
        base: i64,
        value: impl Fn(&mut Self) -> Option<V>,
    ) -> Option<Option<Slices<V>>> {
        let Some(count) = self.uint()?.checked_sub(1) else {
            return Some(None);
        };
        if count > u64::from(precision.retained) {
            return None;
        }
        let width = i64::from(precision.seconds);
        let base = base.div_euclid(width);
        let mut slices = Slices::default();
        for _ in 0..count {
            let start = base.wrapping_sub(self.int()?).checked_mul(width)?;
            slices.push(start, value(self)?)?;
        }
        Some(Some(slices))
    }

    pub(crate) fn series<V: Merge + Packed + Clone>(
        &mut self,
        precisions: &[Precision],
        base: i64,
    ) -> Option<Vec<Slices<V>>> {
        let mut series: Vec<Slices<V>> = Vec::with_capacity(precisions.len());
        for precision in precisions {
            let slices = match self.slices(*precision, base, V::read)? {
                Some(slices) => slices,
                None => derived(series.first()?, *precision),
            };
            series.push(slices);
        }
        Some(series)
    }
}
