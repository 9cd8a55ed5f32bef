//! Reading a round: its entries are read and merged, part by part.

use std::time::{Duration, Instant};

use super::lease::Lease;
use super::plan::{NAMES_AT_ONCE, Outcome};
use crate::error::StoreError;
use crate::model::pack::{ENTRY_VERSION, EntryReader};
use crate::model::round::Round;
use crate::store::Position;
use crate::store::journal::{Entry, Journal, Step};

/// About how many bytes of entries one script reads; a larger read would block the server and the runtime.
const READ_BYTES: u64 = 512 * 1024;
/// About how many bytes of entries one round folds, and how long it reads entries.
const ROUND_BYTES: u64 = 32 * 1024 * 1024;
/// About how many names one round folds, which bounds the size of the merged round, and of its steps.
const ROUND_NAMES: usize = 16 * 1024;
const READ_TIME: Duration = Duration::from_secs(1);
/// Seconds for which an entry of a newer version waits for an instance that can read it.
const NEWER_GRACE: i64 = 600;

impl Lease {
    /// Reads and merges the entries of a round, part by part.
    pub(super) async fn gather(
        &self,
        journal: &dyn Journal,
        instance: &str,
        stop_before: Option<Position>,
    ) -> Result<Read, StoreError> {
        let (start, low) = (Instant::now(), self.progress.low);
        let aside = &self.progress.aside;
        let mut gathered = Gathered {
            round: Round::default(),
            entries: Vec::new(),
            end: low,
            head: low,
            now: 0,
            hole_bytes: 0,
        };
        loop {
            let version = &self.progress.version;
            let step = journal.read(instance, version, gathered.end, READ_BYTES);
            let Step::Done(read) = step.await? else {
                return Ok(Read::Ended(Outcome::Lost));
            };
            let mut entries = read.entries;
            (gathered.head, gathered.now) = (read.head, read.now);
            let is_stop = |entry: &Entry| {
                Some(entry.position) == stop_before
                    || entry.version > u64::from(ENTRY_VERSION) && !aside.contains(&entry.position)
            };
            let stop = entries.iter().position(is_stop);
            let is_last_part = stop.is_some() || entries.is_empty();
            if let Some(at) = stop {
                let is_first = at == 0 && gathered.entries.is_empty();
                if is_first || self.progress.upto.is_some() {
                    let is_waiting = read.now.saturating_sub(entries[at].stamp) < NEWER_GRACE;
                    return Ok(match is_waiting {
                        true => Read::Ended(Outcome::Newer),
                        false => Read::Garbled(entries.swap_remove(at), true),
                    });
                }
                entries.truncate(at);
            }
            if let Err(at) = gathered.add(&entries, aside).await {
                let is_first = at == 0 && gathered.entries.len() == 1;
                return Ok(Read::Garbled(entries.swap_remove(at), is_first));
            }
            let (end, upto) = (gathered.end, self.progress.upto);
            // The end of a round that was begun is fixed.
            let is_large = upto.is_none()
                && (end.offset - low.offset >= ROUND_BYTES
                    || gathered.round.names() >= ROUND_NAMES
                    || start.elapsed() >= READ_TIME);
            if is_last_part || is_large || end == gathered.head || Some(end) == upto {
                return Ok(Read::Gathered(gathered));
            }
        }
    }
}

/// The result of reading a round.
pub(super) enum Read {
    Gathered(Gathered),
    /// There is no round to fold.
    Ended(Outcome),
    /// An entry that cannot be folded, and whether it is the first entry that is not folded.
    Garbled(Entry, bool),
}

/// Entries that were read for a round.
pub(super) struct Gathered {
    /// The sum of the entries.
    pub(super) round: Round,
    pub(super) entries: Vec<Position>,
    /// The position of the last entry that was read.
    pub(super) end: Position,
    /// The newest entry of the journal.
    pub(super) head: Position,
    /// The store's time, in Unix seconds.
    pub(super) now: i64,
    /// Bytes that are missing between the entries.
    pub(super) hole_bytes: u64,
}

impl Gathered {
    /// Merges more entries except those that were set aside, and yields to other tasks meanwhile. The error is
    /// the index of an entry that cannot be read.
    async fn add(&mut self, entries: &[Entry], aside: &[Position]) -> Result<(), usize> {
        for (at, entry) in entries.iter().enumerate() {
            // The offset of an entry is its end. Its length is that of its payload and one byte more. An entry of
            // another program takes no bytes: it has some id between two others.
            if !entry.payload.is_empty() {
                let length = entry.payload.len() as u64 + 1;
                let begins = entry.position.offset.saturating_sub(length);
                self.hole_bytes += begins.saturating_sub(self.end.offset);
            }
            self.end = entry.position;
            self.entries.push(entry.position);
            if aside.contains(&entry.position) {
                continue;
            }
            let mut reader = EntryReader::new(&entry.payload).map_err(|_| at)?;
            let round = &mut self.round;
            while (round.add_part(&mut reader, entry.stamp, NAMES_AT_ONCE)).map_err(|_| at)? {
                tokio::task::yield_now().await;
            }
            tokio::task::yield_now().await;
        }
        Ok(())
    }
}
