//! The binary forms of a record, in a field of a hash, and of a batch, in an entry of the journal. Numbers
//! are LEB128; signed ones in zigzag.
//!
//! A record is a sequence of *sections*: tag, length, body. A reader skips sections that it does not know,
//! so a newer version may add some. The fold must understand all of an entry: the first byte is
//! [`ENTRY_VERSION`], and the journal's `need` keeps older folders away from it.
//!
//! What only few entries have stands in sections at the end of these. A section that the fold does not know makes the
//! entry unreadable. An entry without sections has the version before them, so that no folder waits for it.
//!
//! An entry leaves out each coarser precision that is just the sum of the finest one, and the reader
//! derives it. For a batch of one second, these are all coarser precisions.

mod entry;
mod fields;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

pub use self::entry::{EntryReader, Item, Undecodable};
pub(crate) use self::fields::{Packed, pack, packed, unpack};
use self::reader::Budget;
pub(crate) use self::reader::Reader;
pub(crate) use self::writer::Writer;
use super::access_time::DurationSums;
use super::batch::{Aggregate, Batch, MAX_HOURS, Merge};
use super::context::Kind;
use super::mark::Mark;
use super::minute_report::InstanceMinute;
use super::records::Record;
use super::slice::{HOUR, Precision};
use super::slices::Slices;
use super::slow_request::SlowRequests;
use super::tier::TIERS;

/// The newest version of the form of an entry. Raise it with every change that an older folder cannot read.
pub const ENTRY_VERSION: u8 = 4;
/// The version of an entry without sections at its end, which folders of earlier versions of this crate read.
const VERSION_WITHOUT_SECTIONS: u8 = 3;

/// The sections at the end of an entry. A tag is never used again.
const MARKS: u64 = 1;

const TIMES: u64 = 1;
const OUTCOMES: u64 = 2;
const HISTOGRAM: u64 = 3;
const ROLLED_UNTIL: u64 = 4;
const TIMERS: u64 = 5;
const FAILURES: u64 = 6;
const CUT_OFF: u64 = 7;

/// The slices of hours.
const HOURS: Precision = Precision::new(HOUR as u32, MAX_HOURS as u32);

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
    let sums = Reader(bytes).aggregate()?;
    let rolled_until = section(bytes, ROLLED_UNTIL).and_then(|body| Reader(body).int());
    Some(Record {
        sums,
        rolled_until: rolled_until.unwrap_or(i64::MIN),
    })
}

/// Packs the sections of an aggregate.
pub(crate) fn aggregate(aggregate: &Aggregate) -> Vec<u8> {
    let mut out = Writer(Vec::with_capacity(
        48 + 3 * aggregate.histogram.buckets().len(),
    ));
    out.aggregate(aggregate);
    out.0
}

/// Unpacks an aggregate; `None` if the bytes are not one.
pub(crate) fn read_aggregate(bytes: &[u8]) -> Option<Aggregate> {
    Reader(bytes).aggregate()
}

/// Packs a list of slow requests.
pub fn slow_requests(list: &SlowRequests) -> Vec<u8> {
    let mut out = Writer(Vec::new());
    out.slow_requests(list);
    out.0
}

/// Unpacks the slow requests of a context of this kind; `None` if the bytes are not a list of them.
pub fn read_slow_requests(bytes: &[u8], kind: Kind) -> Option<SlowRequests> {
    Reader(bytes).slow_requests(kind)
}

/// Packs what an instance did in a minute.
pub fn instance_minute(minute: &InstanceMinute) -> Vec<u8> {
    let mut out = Writer(Vec::new());
    out.bytes(minute.version.as_deref().unwrap_or_default().as_bytes());
    out.reported_contexts(&minute.contexts);
    out.0
}

/// Unpacks what an instance did in a minute; `None` if the bytes are not that.
pub fn read_instance_minute(bytes: &[u8]) -> Option<InstanceMinute> {
    let mut reader = Reader(bytes);
    Some(InstanceMinute {
        version: reader.version()?,
        max_contexts: 0,
        contexts: reader.reported_contexts(&mut Budget::unlimited())?,
    })
}

/// Packs a mark without its id.
pub fn mark(mark: &Mark) -> Vec<u8> {
    let mut out = Writer(Vec::new());
    out.mark(mark);
    out.0
}

/// Unpacks the mark of this id; `None` if the bytes are not one.
pub fn read_mark(id: &[u8], bytes: &[u8]) -> Option<Mark> {
    Reader(bytes).mark(Reader(id).id()?)
}

/// Adds a section to a packed record. Readers that do not know its tag skip it.
pub fn push_section(record: &mut Vec<u8>, tag: u64, body: &[u8]) {
    let mut out = Writer(std::mem::take(record));
    out.section(tag, |out| out.0.extend_from_slice(body));
    *record = out.0;
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

/// The version of the form of a batch: the oldest that has all of it.
pub fn entry_version(batch: &Batch) -> u8 {
    match batch.marks.is_empty() {
        true => VERSION_WITHOUT_SECTIONS,
        false => ENTRY_VERSION,
    }
}

/// Packs a batch.
pub fn entry(batch: &Batch) -> Vec<u8> {
    let precisions = batch.precisions();
    let mut out = Writer(Vec::with_capacity(64 + 96 * batch.len()));
    out.0.push(entry_version(batch));
    out.uint(precisions.counters.len() as u64);
    for precision in &precisions.counters {
        out.uint(u64::from(precision.seconds));
        out.uint(u64::from(precision.retained));
    }
    // The starts of slices are relative to a second of the batch.
    let base = (batch.contexts.values())
        .map(|delta| delta.last_seen)
        .max()
        .unwrap_or(0);
    out.int(base);
    out.uint(batch.late);
    out.uint(batch.contexts.len() as u64);
    for (context, delta) in &batch.contexts {
        out.bytes(context.name.as_bytes());
        out.0.push(context.kind.number());
        out.int(delta.last_seen.wrapping_sub(base));
        out.series(
            &delta.counters,
            &precisions.counters,
            base,
            Writer::request_counts,
        );
        for (slices, tier) in delta.records.iter().zip(TIERS) {
            out.slices(slices, tier, base, Writer::aggregate_in_place);
        }
        match hours_of(&delta.records[0]) == delta.hours {
            true => out.uint(0),
            false => out.slices(&delta.hours, HOURS, base, Writer::times),
        }
        out.slices(&delta.slowest, HOURS, base, Writer::slow_requests);
    }
    out.uint(batch.counters.len() as u64);
    for (name, series) in &batch.counters {
        out.bytes(name.as_bytes());
        out.series(series, &precisions.counters, base, |out, n| out.int(*n));
    }
    out.uint(batch.rankings.len() as u64);
    for (name, delta) in &batch.rankings {
        out.bytes(name.as_bytes());
        out.ranking(delta, base);
    }
    out.uint(batch.reports.len() as u64);
    for report in &batch.reports {
        out.report(report, base);
    }
    if !batch.marks.is_empty() {
        out.section(MARKS, |out| out.marks(batch.marks.values()));
    }
    out.0
}

/// The hours of a batch, derived from its finest records.
fn hours_of(finest: &Slices<Aggregate>) -> Slices<DurationSums> {
    let mut hours = Slices::default();
    for (start, record) in finest.iter().filter(|(_, record)| record.times.count > 0) {
        hours.add(HOURS.slice(start), record.times, MAX_HOURS);
    }
    hours
}

/// The slices of a coarser precision, derived from those of the finest.
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
