//! Reads the entries of a round.

use std::time::{Duration, Instant};

use super::leased_store::{Leased, LeasedStore};
use super::plan::NAMES_AT_ONCE;
use crate::store::Position;
use crate::store::journal::{Entry, NEWER_GRACE};
use tower_pulse_model::entry::{ENTRY_VERSION, EntryReader};
use tower_pulse_model::round::Round;

/// Approximate limits of one round: the bytes of its entries, and the time spent reading entries.
const ROUND_BYTES: u64 = 32 * 1024 * 1024;
const READ_TIME: Duration = Duration::from_secs(1);
/// The most seconds by which the `appended_at` of an entry may be ahead of the current time. After a failover, the
/// clock of the new primary may be behind. Times further ahead were set while the store's clock was wrong.
const STAMP_AHEAD: i64 = 60;

/// The most requests that count as missing when an entry is set aside. The entry itself declares its number of
/// requests.
const MOST_DECLARED: u64 = 1 << 50;

impl LeasedStore<'_> {
    /// Reads and merges the entries of a round, part by part.
    pub(super) async fn gather(&self, own_now: i64, stop_before: Option<Position>) -> Leased<Read> {
        let (start, progress) = (Instant::now(), &self.lease.progress);
        let (committed, unreadable) = (progress.committed, &progress.unreadable);
        // The times of all entries of a round have the same bound, even if another folder began the round. So all
        // partitions get the same times.
        let mut newest = (progress.round_end).and(progress.newest_at);
        let mut gathered = Gathered {
            round: Round::default(),
            entries: Vec::new(),
            end: committed,
            head: committed,
            now: 0,
            hole_bytes: 0,
        };
        loop {
            let (version, locality) = (&progress.version, self.store.locality());
            let reading =
                (self.journal).read(self.instance, version, gathered.end, locality.read_bytes);
            let read = reading.await?.done()?;
            let mut entries = read.entries;
            (gathered.head, gathered.now) = (read.head, read.now);
            // The later of the two times, because the store's clock may be behind.
            let bound = read.now.max(own_now).saturating_add(STAMP_AHEAD);
            let bound = *newest.get_or_insert(bound);
            for entry in &mut entries {
                entry.appended_at = entry.appended_at.min(bound);
            }
            let is_stop = |entry: &Entry| {
                Some(entry.position) == stop_before
                    || entry.version > u64::from(ENTRY_VERSION)
                        && !unreadable.contains(&entry.position)
            };
            let stop = entries.iter().position(is_stop);
            let is_last_part = stop.is_some() || entries.is_empty();
            if let Some(at) = stop {
                let is_first = at == 0 && gathered.entries.is_empty();
                if is_first || progress.round_end.is_some() {
                    let newer = entries.swap_remove(at);
                    // Each entry has a separate grace period, which does not end with the grace period of an earlier
                    // entry.
                    let waited = read.now.saturating_sub(newer.appended_at);
                    let is_in_grace = (0..NEWER_GRACE).contains(&waited);
                    return Ok(match progress.is_overdue && !is_in_grace {
                        true => Read::Garbled(newer, true),
                        false => Read::Newer(newer),
                    });
                }
                entries.truncate(at);
            }
            if let Err(at) = gathered.add(&entries, unreadable).await {
                let is_first = at == 0 && gathered.entries.len() == 1;
                return Ok(Read::Garbled(entries.swap_remove(at), is_first));
            }
            let (end, round_end) = (gathered.end, progress.round_end);
            // The end of a begun round is fixed.
            let is_large = round_end.is_none()
                && (end.offset - committed.offset >= ROUND_BYTES
                    || gathered.round.names() >= locality.round_names
                    || start.elapsed() >= READ_TIME);
            if is_last_part || is_large || end == gathered.head || Some(end) == round_end {
                return Ok(Read::Gathered(gathered));
            }
        }
    }
}

pub(super) enum Read {
    Gathered(Gathered),
    /// The next entry is of a newer version, and waits for an instance that can read it.
    Newer(Entry),
    /// An entry that cannot be folded, and whether it is set aside at once. Otherwise the entries before it are folded
    /// first, unless a round was begun.
    Garbled(Entry, bool),
}

pub(super) struct Gathered {
    pub(super) round: Round,
    pub(super) entries: Vec<Position>,
    /// The position of the last entry that was read.
    pub(super) end: Position,
    /// The newest entry of the journal.
    pub(super) head: Position,
    /// The store's time, in Unix seconds.
    pub(super) now: i64,
    /// The bytes of the entries that are missing before and between these entries.
    pub(super) hole_bytes: u64,
}

impl Gathered {
    /// Merges more entries, except those at the positions `unreadable`, and yields to other tasks in between. The error
    /// is the index of an entry that cannot be read.
    async fn add(&mut self, entries: &[Entry], unreadable: &[Position]) -> Result<(), usize> {
        for (at, entry) in entries.iter().enumerate() {
            // The offset of an entry is its end. The length of an entry is the length of its payload plus one byte. An
            // entry without a payload comes from another program, and has no length.
            if !entry.payload.is_empty() {
                let length = entry.payload.len() as u64 + 1;
                let begins = entry.position.offset.saturating_sub(length);
                self.hole_bytes += begins.saturating_sub(self.end.offset);
            }
            self.end = entry.position;
            self.entries.push(entry.position);
            if unreadable.contains(&entry.position) {
                let requests = entry.requests.min(MOST_DECLARED);
                self.round.add_missing(requests, entry.appended_at);
                continue;
            }
            let mut reader = EntryReader::new(&entry.payload).map_err(|_| at)?;
            let round = &mut self.round;
            while (round.add_part(&mut reader, entry.appended_at, NAMES_AT_ONCE)).map_err(|_| at)? {
                tokio::task::yield_now().await;
            }
            tokio::task::yield_now().await;
        }
        Ok(())
    }
}
