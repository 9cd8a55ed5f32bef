//! Records between rounds: which slices may expire, and which records are remembered.

use std::time::Duration;

use super::{Call, Folding, NOW, Scripted, entry, remembering};
use crate::fold::Leader;
use crate::task::lock;
use tower_pulse_model::tier::FINEST;

/// A folder that has folded an entry of a journal in which every slice has a record.
async fn with_records_everywhere() -> Folding {
    let journal = Scripted {
        has_records_everywhere: true,
        ..Scripted::default()
    };
    let folding = Folding::of(journal, remembering(100));
    folding.fold_next(entry(100, &["GET /"], NOW)).await;
    folding
}

#[tokio::test]
async fn only_slices_that_are_rolled_up_may_expire() {
    let folding = with_records_everywhere().await;
    let released = lock(&folding.journal.may_expire);
    assert_eq!(released.len(), 129);
    // Later slices may have records too, because clocks may be ahead. These slices must not expire.
    let newest = released.iter().max();
    assert_eq!(newest, Some(&(FINEST.slice(NOW) - 60)));
}

#[tokio::test]
async fn without_new_entries_slices_are_rolled_up_180_seconds_late() {
    let folding = with_records_everywhere().await;
    let slice = FINEST.slice(NOW);
    let delay = slice + 60 + 15 + 180 - NOW;
    for (seconds, is_released) in [(delay - 1, false), (1, true)] {
        lock(&folding.journal.may_expire).clear();
        *lock(&folding.journal.since_now) += seconds;
        folding.clock.advance(Duration::from_secs(seconds as u64));
        assert_eq!(folding.fold().await, Leader::This);
        let released = lock(&folding.journal.may_expire);
        assert_eq!(released.contains(&slice), is_released, "{released:?}");
    }
}

#[tokio::test]
async fn records_of_the_newest_minutes_are_remembered_unless_there_are_too_many() {
    for (max_records, loaded) in [(1, 2), (2, 0)] {
        let folding = Folding::of(Scripted::default(), remembering(max_records));
        for (offset, loaded) in [(1_000, 2), (2_000, loaded)] {
            let entry = entry(offset, &["GET /", "GET /a"], NOW);
            folding.fold_next(entry).await;
            let loads = folding.journal.count(&Call::Load(2));
            assert_eq!(2 * loads, loaded, "{max_records} records");
            folding.journal.take_writes();
        }
    }
    let folding = Folding::of(Scripted::default(), remembering(100));
    // The folder forgets the first minute when samples of the third minute come.
    for (number, (minute, loads)) in (1..).zip([(0, 1), (1, 1), (0, 0), (2, 1), (1, 0), (0, 1)]) {
        let entry = entry(1_000 * number, &["GET /"], NOW + 60 * minute);
        folding.fold_next(entry).await;
        let loaded = folding.journal.count(&Call::Load(1));
        assert_eq!(loaded, loads, "entry {number}");
        folding.journal.take_writes();
    }
}
