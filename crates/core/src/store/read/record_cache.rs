//! A cache of the records of contexts. The dashboard asks for the same slices of a series repeatedly, but only slices
//! that have changed are read again.

use std::collections::HashMap;
use std::sync::Mutex;

use crate::task::lock;
use tower_pulse_model::records::RecordId;
use tower_pulse_model::tier::{Revision, TierSlice};

/// The maximum number of series whose records are cached.
const MAX_SERIES: usize = 16;

/// The maximum size of all cached records, in bytes.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// Approximate bytes of a record, without its packed form.
const PER_RECORD: usize = 72;

/// The id of a series: the context whose records it has, and the length of the tier's slices, in seconds.
pub(super) type SeriesId = (RecordId, u32);

/// The packed record of a slice, and the revision of the slice when it was read.
pub(super) struct HeldRecord {
    pub(super) revision: Option<Revision>,
    pub(super) packed: Option<Box<[u8]>>,
}

/// The records of a series by slice.
pub(super) type HeldRecords = HashMap<TierSlice, HeldRecord>;

struct Series {
    id: SeriesId,
    /// The start of the store's generation. A reset begins another generation, with other data.
    created: i64,
    records: HeldRecords,
    bytes: usize,
}

fn bytes_of(records: &HeldRecords) -> usize {
    let packed = records.values().flat_map(|held| &held.packed);
    records.len() * PER_RECORD + packed.map(|packed| packed.len()).sum::<usize>()
}

/// The records of the series that were read most recently. Ordered by their last read; the newest is at the end.
#[derive(Default)]
pub struct RecordCache(Mutex<Vec<Series>>);

impl RecordCache {
    /// Takes out the records of a series.
    pub(super) fn take(&self, id: SeriesId, created: i64) -> HeldRecords {
        let mut held = lock(&self.0);
        let at = held.iter().position(|series| series.id == id);
        let series = at.map(|at| held.remove(at));
        let series = series.filter(|series| series.created == created);
        series.map(|series| series.records).unwrap_or_default()
    }

    /// Caches the records of a series, and drops the series that were read longest ago. Records that exceed the limit
    /// alone are not cached, and do not cause others to be dropped.
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

    #[test]
    fn the_series_that_were_read_last_are_held() {
        let cache = RecordCache::default();
        let id = |n: usize| (RecordId::new(Kind::Http, &n.to_string()), 60);
        let records = |revision| {
            let record = HeldRecord {
                revision: Some(revision),
                packed: None,
            };
            HeldRecords::from([((60, 0), record)])
        };
        for n in 0..=MAX_SERIES {
            cache.put(id(n), 5, records(n as u64));
        }
        assert!(cache.take(id(0), 5).is_empty());
        assert_eq!(cache.take(id(1), 5)[&(60, 0)].revision, Some(1));
        assert!(cache.take(id(1), 5).is_empty(), "it was taken");
        assert!(cache.take(id(2), 6).is_empty(), "of another generation");
    }

    #[test]
    fn a_series_that_exceeds_the_limit_drops_no_others() {
        let cache = RecordCache::default();
        let [small, large] = ["small", "large"].map(|name| (RecordId::new(Kind::Http, name), 60));
        let records = |bytes: usize| {
            let record = HeldRecord {
                revision: None,
                packed: Some(vec![0; bytes].into()),
            };
            HeldRecords::from([((60, 0), record)])
        };
        cache.put(small, 5, records(1));
        cache.put(large, 5, records(MAX_BYTES));
        assert!(cache.take(large, 5).is_empty());
        assert_eq!(cache.take(small, 5).len(), 1);
    }
}
