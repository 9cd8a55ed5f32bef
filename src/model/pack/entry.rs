//! An entry of the journal, unpacked name by name.

use std::sync::Arc;

use super::reader::{Budget, Reader};
use super::{ENTRY_VERSION, HOURS, MARKS, VERSION_WITHOUT_SECTIONS, hours_of};
use crate::model::batch::{Aggregate, ContextDelta, MAX_ENTRY_BYTES};
use crate::model::context::{ContextId, Kind};
use crate::model::mark::Mark;
use crate::model::minute_report::MinuteReport;
use crate::model::ranking::RankingDelta;
use crate::model::slice::{MAX_PRECISIONS, MAX_RETAINED, Precision, Precisions};
use crate::model::slices::Slices;
use crate::model::tier::TIERS;

/// A reader of one entry, context by context, so that a long entry need not block a worker of the runtime.
#[derive(Debug)]
pub struct EntryReader<'a> {
    reader: Reader<'a>,
    budget: Budget,
    version: u8,
    precisions: Precisions,
    base: i64,
    /// Samples that were late when they were flushed.
    pub late: u64,
    contexts: u64,
    counters: Option<u64>,
    rankings: Option<u64>,
    reports: Option<u64>,
    /// The marks that were read and are not given out yet; `None` before the sections.
    marks: Option<std::vec::IntoIter<Mark>>,
}

/// One name of an entry, with its data.
#[derive(Debug, PartialEq)]
pub enum Item {
    /// A context and its delta.
    Context(ContextId, ContextDelta),
    /// One of the user's counters and its slices.
    Counter(Arc<str>, Vec<Slices<i64>>),
    /// Additions to a ranking.
    Ranking(Arc<str>, RankingDelta),
    /// A minute report, or a part of one.
    Report(MinuteReport),
    /// A mark.
    Mark(Mark),
}

/// The entry cannot be decoded, or no version of this crate sends it: a name is too long, or the entry is larger than a
/// sender makes at the maxima of [`Builder`](crate::Builder). The limits do not depend on the configuration of the
/// instance that reads, as others may have another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Undecodable;

impl<'a> EntryReader<'a> {
    /// Reads the head of an entry.
    ///
    /// # Errors
    /// The bytes are not an entry, or an entry of another version.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Undecodable> {
        Self::head(bytes).ok_or(Undecodable)
    }

    fn head(bytes: &'a [u8]) -> Option<Self> {
        if bytes.len() > MAX_ENTRY_BYTES {
            return None;
        }
        let mut reader = Reader(bytes);
        let version =
            Some(reader.byte()?).filter(|version| (1..=ENTRY_VERSION).contains(version))?;
        let mut counters = Vec::new();
        for _ in 0..reader.uint().filter(|n| *n <= MAX_PRECISIONS as u64)? {
            let mut number = |most: u32| {
                let number = u32::try_from(reader.uint()?).ok();
                number.filter(|n| (1..=most).contains(n))
            };
            let (seconds, samples) = (number(u32::MAX)?, number(MAX_RETAINED)?);
            counters.push(Precision::new(seconds, samples));
        }
        Some(Self {
            precisions: Precisions { counters },
            base: reader.int()?,
            late: reader.uint()?,
            contexts: reader.uint()?,
            counters: None,
            // The first version has no rankings.
            rankings: (version < 2).then_some(0),
            // The second version has no reports.
            reports: (version < 3).then_some(0),
            marks: None,
            version,
            reader,
            budget: Budget::of_entry(),
        })
    }

    /// How many bytes are not read yet.
    pub(crate) fn bytes_left(&self) -> usize {
        self.reader.0.len()
    }

    /// The precisions of the batch.
    pub fn precisions(&self) -> &Precisions {
        &self.precisions
    }

    /// The next name; `None` after the last.
    ///
    /// # Errors
    /// The bytes cannot be decoded from here on. No part of the entry may be used.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<Item>, Undecodable> {
        if self.contexts > 0 {
            self.contexts -= 1;
            return self.context().map(Some).ok_or(Undecodable);
        }
        let counters = match self.counters {
            Some(counters) => counters,
            None => self.reader.uint().ok_or(Undecodable)?,
        };
        self.counters = Some(counters.saturating_sub(1));
        if counters > 0 {
            return self.counter().map(Some).ok_or(Undecodable);
        }
        let rankings = match self.rankings {
            Some(rankings) => rankings,
            None => self.reader.uint().ok_or(Undecodable)?,
        };
        self.rankings = Some(rankings.saturating_sub(1));
        if rankings > 0 {
            return self.ranking().map(Some).ok_or(Undecodable);
        }
        let reports = match self.reports {
            Some(reports) => reports,
            None => self.reader.uint().ok_or(Undecodable)?,
        };
        self.reports = Some(reports.saturating_sub(1));
        if reports > 0 {
            let report = self.reader.report(self.base, &mut self.budget);
            let report = report.ok_or(Undecodable)?;
            return Ok(Some(Item::Report(report)));
        }
        if self.marks.is_none() {
            self.marks = Some(self.sections().ok_or(Undecodable)?.into_iter());
        }
        let mark = self.marks.as_mut().and_then(Iterator::next);
        Ok(mark.map(Item::Mark))
    }

    /// The marks in the sections at the end of the entry. No other section is known, and each is there once at most.
    fn sections(&mut self) -> Option<Vec<Mark>> {
        let mut marks = None;
        while self.version > VERSION_WITHOUT_SECTIONS && !self.reader.0.is_empty() {
            let (tag, body) = (self.reader.uint()?, self.reader.bytes()?);
            if tag != MARKS || marks.is_some() {
                return None;
            }
            marks = Some(Reader(body).marks(&mut self.budget)?);
        }
        self.reader
            .0
            .is_empty()
            .then_some(marks.unwrap_or_default())
    }

    fn context(&mut self) -> Option<Item> {
        let (base, reader) = (self.base, &mut self.reader);
        let name = reader.name()?;
        let kind = Kind::from_number(reader.byte()?)?;
        let last_seen = base.wrapping_add(reader.int()?);
        let counters = reader.series(&self.precisions.counters, base, Reader::request_counts)?;
        let mut records: [Slices<Aggregate>; TIERS.len()] = Default::default();
        for (slices, tier) in records.iter_mut().zip(TIERS) {
            *slices = reader.slices(tier, base, Reader::aggregate_in_place)??;
        }
        let hours = match reader.slices(HOURS, base, Reader::times)? {
            Some(hours) => hours,
            None => hours_of(&records[0]),
        };
        let slowest = match self.version {
            1 => Slices::default(),
            _ => reader.slices(HOURS, base, |reader| reader.slow_requests(kind))??,
        };
        let delta = ContextDelta {
            last_seen,
            counters,
            hours,
            records,
            slowest,
        };
        self.budget.spend(delta.cost())?;
        Some(Item::Context(ContextId { kind, name }, delta))
    }

    fn ranking(&mut self) -> Option<Item> {
        let name = self.reader.name()?;
        let delta = self.reader.ranking(self.base, &mut self.budget)?;
        Some(Item::Ranking(name, delta))
    }

    fn counter(&mut self) -> Option<Item> {
        let name = self.reader.name()?;
        let precisions = &self.precisions.counters;
        let series = self.reader.series(precisions, self.base, Reader::int)?;
        let slices = series.iter().map(Slices::len).sum();
        self.budget.spend(slices)?;
        Some(Item::Counter(name, series))
    }
}
