//! Packs numbers, names, slices and sums as bytes. Numbers are LEB128, signed numbers in zigzag encoding. Records,
//! aggregates and durations are packed here; most other types define in their own files how they are packed in tables
//! and in an [entry](super::entry).
//!
//! A record is a sequence of *sections*: tag, length, body. A reader skips unknown sections, so a newer version may add
//! sections.

mod aggregate;
mod fields;
mod reader;
mod writer;

pub use self::aggregate::{aggregate, read_aggregate};
pub use self::fields::{
    Packed, from_hex, named, pack, packed, packed_enum, passes, to_hex, unpack,
};
pub(crate) use self::reader::is_name;
pub use self::reader::{Budget, Reader};
pub use self::writer::Writer;
use super::records::Record;
use super::slice::Precision;
use super::slices::{Merge, Slices};

/// The tags of the sections of a record. A tag is never reused.
pub const TIMES: u64 = 1;
pub(crate) const OUTCOMES: u64 = 2;
pub(crate) const HISTOGRAM: u64 = 3;
pub(crate) const ROLLED_UNTIL: u64 = 4;
pub(crate) const TIMERS: u64 = 5;
pub(crate) const FAILURES: u64 = 6;
pub(crate) const CENSORED: u64 = 7;
pub(crate) const MEASURES: u64 = 8;
pub(crate) const CODES: u64 = 9;
pub(crate) const KINDS: u64 = 10;

/// Packs a record.
pub fn record(record: &Record) -> Vec<u8> {
    let mut packed = aggregate(&record.sums);
    if record.rolled_until > i64::MIN {
        let mut out = Writer(packed);
        out.section(ROLLED_UNTIL, |out| out.int(record.rolled_until));
        packed = out.0;
    }
    packed
}

/// Unpacks a record; `None` if the bytes are not one.
pub fn read_record(bytes: &[u8]) -> Option<Record> {
    let sums = read_aggregate(bytes)?;
    let rolled_until = section(bytes, ROLLED_UNTIL).and_then(|body| Reader(body).int());
    Some(Record {
        sums,
        rolled_until: rolled_until.unwrap_or(i64::MIN),
    })
}

/// The body of the section with this tag; `None` if the record has none.
pub fn section(record: &[u8], tag: u64) -> Option<&[u8]> {
    let mut reader = Reader(record);
    while !reader.0.is_empty() {
        let (next_tag, body) = (reader.uint()?, reader.bytes()?);
        if next_tag == tag {
            return Some(body);
        }
    }
    None
}

/// The slices of a coarser precision, derived from the slices of the finest precision.
fn derived<V: Merge + Clone>(finest: &Slices<V>, precision: Precision) -> Slices<V> {
    let mut slices = Slices::default();
    for (start, value) in finest.iter() {
        slices.add(
            precision.slice(start),
            value.clone(),
            precision.retained as usize,
        );
    }
    slices
}
