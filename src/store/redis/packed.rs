//! Histograms as they are sent and as they stand in a field, in MessagePack.
//!
//! A group is the scale, a map from bucket to count and, in hours, an array of the ten outcomes and
//! the errors. A delta is one group. A field is a head (a 16-bit number, its own length, and a group)
//! and a tail of more groups, which all add up: `merge.lua` appends, and makes one of them now and
//! then.
//!
//! What comes back was written by Lua, or by anybody: Lua packs a table with the keys 1 to n as an
//! array, and counts beyond 2^53 as floats. Anything else that does not fit is an error.

use crate::model::batch::{Merge, Spread};
use crate::model::histogram::Histogram;
use crate::model::outcome::{OUTCOMES, Tally};

/// More buckets than any scale has within the range; a longer map is garbage.
const MOST_BUCKETS: usize = 1_024;

/// The finest scale that is believed.
const FINEST: u8 = 20;
/// What a head begins with: the mark of a 16-bit number.
const HEAD: u8 = 0xcd;
/// What a tally begins with: the mark of an array of eleven.
const TALLY: u8 = 0x90 | (OUTCOMES + 1) as u8;

/// Packs a spread as a group. The tally goes along when `with_tally`.
pub(super) fn encode(spread: &Spread, with_tally: bool) -> Vec<u8> {
    let buckets = spread.histogram.buckets();
    let mut out = Vec::with_capacity(8 + 6 * buckets.len());
    uint(&mut out, u64::from(spread.histogram.scale()));
    match buckets.len() {
        n @ 0..=15 => out.push(0x80 | n as u8),
        n => {
            out.push(0xde);
            out.extend((n as u16).to_be_bytes());
        }
    }
    for (index, n) in buckets {
        uint(&mut out, u64::from(*index));
        uint(&mut out, *n);
    }
    if with_tally {
        out.push(TALLY);
        for n in spread.tally.outcomes {
            uint(&mut out, n);
        }
        uint(&mut out, spread.tally.errors);
    }
    out
}

fn uint(out: &mut Vec<u8>, n: u64) {
    match n {
        0..=0x7f => out.push(n as u8),
        0x80..=0xff => out.extend([0xcc, n as u8]),
        0x100..=0xffff => {
            out.push(0xcd);
            out.extend((n as u16).to_be_bytes());
        }
        0x1_0000..=0xffff_ffff => {
            out.push(0xce);
            out.extend((n as u32).to_be_bytes());
        }
        _ => {
            out.push(0xcf);
            out.extend(n.to_be_bytes());
        }
    }
}

/// Unpacks a field; `None` when it holds something else.
pub(super) fn decode(field: &[u8]) -> Option<Spread> {
    let mut reader = Reader(field);
    if reader.byte()? != HEAD {
        return None;
    }
    reader.take::<2>()?;
    let mut spread = reader.group()?;
    while !reader.0.is_empty() {
        spread.merge(&reader.group()?);
    }
    Some(spread)
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.0.split_first_chunk::<N>()?;
        self.0 = tail;
        Some(*head)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    /// A number that is whole and not negative, however it is packed.
    fn uint(&mut self) -> Option<u64> {
        let signed = |n: i64| u64::try_from(n).ok();
        match self.byte()? {
            n @ 0..=0x7f => Some(u64::from(n)),
            0xcc => self.byte().map(u64::from),
            0xcd => self.take().map(u16::from_be_bytes).map(u64::from),
            0xce => self.take().map(u32::from_be_bytes).map(u64::from),
            0xcf => self.take().map(u64::from_be_bytes),
            0xd0 => self
                .take()
                .map(i8::from_be_bytes)
                .and_then(|n| signed(n.into())),
            0xd1 => self
                .take()
                .map(i16::from_be_bytes)
                .and_then(|n| signed(n.into())),
            0xd2 => self
                .take()
                .map(i32::from_be_bytes)
                .and_then(|n| signed(n.into())),
            0xd3 => self.take().map(i64::from_be_bytes).and_then(signed),
            0xca => self
                .take()
                .map(f32::from_be_bytes)
                .and_then(|n| whole(n.into())),
            0xcb => self.take().map(f64::from_be_bytes).and_then(whole),
            _ => None,
        }
    }

    fn group(&mut self) -> Option<Spread> {
        let scale = self.uint().and_then(|scale| u8::try_from(scale).ok())?;
        let buckets = self.buckets()?;
        let tally = match self.0.first() {
            Some(&TALLY) => self.tally()?,
            _ => Tally::default(),
        };
        (scale <= FINEST).then(|| Spread {
            histogram: Histogram::new(scale, buckets),
            tally,
        })
    }

    fn buckets(&mut self) -> Option<Vec<(u16, u64)>> {
        let (len, is_map) = match self.byte()? {
            n @ 0x80..=0x8f => (usize::from(n & 0x0f), true),
            0xde => (usize::from(u16::from_be_bytes(self.take()?)), true),
            n @ 0x90..=0x9f => (usize::from(n & 0x0f), false),
            0xdc => (usize::from(u16::from_be_bytes(self.take()?)), false),
            _ => return None,
        };
        if len > MOST_BUCKETS {
            return None;
        }
        let mut buckets = Vec::with_capacity(len);
        for position in 1..=len as u64 {
            let index = if is_map { self.uint()? } else { position };
            buckets.push((u16::try_from(index).ok()?, self.uint()?));
        }
        Some(buckets)
    }

    fn tally(&mut self) -> Option<Tally> {
        self.byte()?;
        let mut tally = Tally::default();
        for n in &mut tally.outcomes {
            *n = self.uint()?;
        }
        tally.errors = self.uint()?;
        Some(tally)
    }
}

fn whole(n: f64) -> Option<u64> {
    (n >= 0.0 && n < u64::MAX as f64 && n.fract() == 0.0).then_some(n as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn spread(pairs: Vec<(u16, u64)>, tally: Tally) -> Spread {
        Spread {
            histogram: Histogram::new(4, pairs),
            tally,
        }
    }

    /// A field of one group.
    fn field(group: &[u8]) -> Vec<u8> {
        let length = (group.len() + 3) as u16;
        [&[HEAD], &length.to_be_bytes()[..], group].concat()
    }

    #[test]
    fn what_lua_makes_of_it() {
        // A table with the keys 1, 2 as an array, an empty one as an empty array, a float.
        let mut packed = vec![4, 0x92, 7, 0xcb];
        packed.extend(3e16f64.to_be_bytes());
        let expected = spread(vec![(1, 7), (2, 30_000_000_000_000_000)], Tally::default());
        assert_eq!(decode(&field(&packed)), Some(expected));
        let empty = spread(Vec::new(), Tally::default());
        assert_eq!(decode(&field(&[4, 0x90])), Some(empty));
        assert_eq!(decode(b"garbage"), None);
    }

    proptest! {
        #[test]
        fn it_comes_back(pairs in vec((0..508u16, 1..u64::MAX / 600), 0..600), outcomes in any::<[u64; OUTCOMES]>(), errors in any::<u64>(), with_tally in any::<bool>()) {
            let tally = if with_tally { Tally { outcomes, errors } } else { Tally::default() };
            let spread = spread(pairs, tally);
            prop_assert_eq!(decode(&field(&encode(&spread, with_tally))), Some(spread));
        }

        #[test]
        fn a_tail_adds_up(parts in vec(vec((0..508u16, 1..1_000u64), 0..20), 1..9), with_tally in any::<bool>()) {
            let (mut packed, mut sum) = (Vec::new(), Spread::default());
            for pairs in parts {
                let mut part = spread(pairs, Tally::default());
                part.tally.outcomes[2] = u64::from(with_tally);
                sum.merge(&part);
                packed.extend(encode(&part, with_tally));
            }
            prop_assert_eq!(decode(&field(&packed)), Some(sum));
        }

        #[test]
        fn garbage_is_refused_or_read_but_never_panics(bytes in vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes);
            let _ = decode(&field(&bytes));
        }
    }
}
