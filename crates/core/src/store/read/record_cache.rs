//! A cache of the records of contexts. The dashboard asks for the same slices again and again, but only slices that
//! have changed are read again.

use std::collections::HashMap;
use std::sync::Mutex;

use crate::task::lock;
use tower_pulse_model::records::RecordId;
use tower_pulse_model::tier::{Revision, TierSlice};

const MAX_SERIES: usize = 16;

const MAX_BYTES: usize = 4 * 1024 * 1024;

/// Approximate bytes of a record, without its packed form.
const PER_RECORD: usize = 72;

/// A series: the records of a context in a tier. Its id is the id of the context, and the length of the tier's slices
/// in seconds.
pub(super) type SeriesId = (RecordId, u32);

/// The packed record of a slice, and the revision of the slice when the record was read.
pub(super) struct HeldRecord {
    pub(super) revision: Option<Revision>,
    pub(super) packed: Option<Box<[u8]>>,
}

pub(super) type HeldRecords = HashMap<TierSlice, HeldRecord>;

struct Series {
    id: SeriesId,
    /// When the store's generation began, in Unix seconds. After a reset, the records are out of date.
    created: i64,
    records: HeldRecords,
    bytes: usize,
}

fn bytes_of(records: &HeldRecords) -> usize {
    let packed = records.values().flat_map(|held| &held.packed);
    records.len() * PER_RECORD + packed.map(|packed| packed.len()).sum::<usize>()
}

/// The records of the series that were read most recently, newest last.
#[derive(Default)]
pub struct RecordCache(Mutex<Vec<Series>>);

impl RecordCache {
    pub(super) fn take(&self, id: SeriesId, created: i64) -> HeldRecords {
        let mut held = lock(&self.0);
        let at = held.iter().position(|series| series.id == id);
        let series = at.map(|at| held.remove(at));
        let series = series.filter(|series| series.created == created);
        series.map(|series| series.records).unwrap_or_default()
    }

    /// Caches the records of a series. To make room, drops the series that were read longest ago. Records of a series
    /// that alone exceed [`MAX_BYTES`] are not cached, and no other series is dropped for them.
    pub(super) fn put(&self, id: SeriesId, created: i64, records: HeldRecords) {
        let mut held = lock(&self.0);
        held.retain(|series| series.id != id);
        let bytes = bytes_of(&records);
        if bytes > MAX_BYTES {
            return;
        }
        let is_full = |held: &[Series]| {
            let others = held.iter().map(|series| series.bytes).sum::<usize>();
            held.len() >= MAX_SERIES || others + bytes > MAX_BYTES
        };
        while is_full(&held) {
            held.remove(0);
        }
        held.push(Series {
            id,
            created,
            records,
            bytes,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tower_pulse_model::context::Kind;

    fn id(number: usize) -> SeriesId {
        (RecordId::new(Kind::Http, &number.to_string()), 60)
    }

    fn records(revision: Revision, bytes: usize) -> HeldRecords {
        let record = HeldRecord {
            revision: Some(revision),
            packed: Some(vec![0; bytes].into()),
        };
        HeldRecords::from([((60, 0), record)])
    }

    #[test]
    fn the_series_that_were_read_last_are_held_unless_they_exceed_the_limit_alone() {
        let cache = RecordCache::default();
        for number in 0..=MAX_SERIES {
            cache.put(id(number), 5, records(number as u64, 1));
        }
        assert!(cache.take(id(0), 5).is_empty());
        assert_eq!(cache.take(id(1), 5)[&(60, 0)].revision, Some(1));
        assert!(cache.take(id(1), 5).is_empty(), "it was taken");
        assert!(cache.take(id(2), 6).is_empty(), "of another generation");
        cache.put(id(0), 5, records(7, MAX_BYTES));
        assert!(cache.take(id(0), 5).is_empty(), "too large");
        assert_eq!(cache.take(id(3), 5).len(), 1, "still held");
    }
}
