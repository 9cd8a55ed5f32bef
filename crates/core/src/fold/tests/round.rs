//! The entries of a round, and its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Call, Folding, MIB, NOW, Scripted, at, entry, entry_of, remembering};
use crate::fold::Leader;
use crate::fold::plan::NAMES_AT_ONCE;
use crate::store::journal::Entry;
use crate::task::lock;
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::batch::Batch;
use tower_pulse_model::context::Kind;
use tower_pulse_model::entry::ENTRY_VERSION;
use tower_pulse_model::slice::Precisions;

impl Folding {
    /// Takes the calls that change the journal, with 0 as the size of missing entries.
    fn take_writes(&self) -> Vec<Call> {
        let calls = self.journal.take_writes().into_iter();
        let without_size = |call| match call {
            Call::Fold(round_end, _) => Call::Fold(round_end, 0),
            other => other,
        };
        calls.map(without_size).collect()
    }
}

fn round(end: u64) -> Call {
    Call::Fold(Some(end), 0)
}

#[tokio::test]
async fn a_round_has_all_entries_of_the_journal_and_counts_the_missing_bytes() {
    let entries = [1_000, 2_000, 3_000].map(|offset| entry(offset, &["GET /"], NOW));
    let length = |entry: &Entry| entry.payload.len() as u64 + 1;
    let missing = 3_000 - entries.iter().map(length).sum::<u64>();
    for (entries_per_read, reads) in [(None, 1), (Some(1), 3)] {
        let journal = Scripted {
            entries_per_read,
            ..Scripted::of(entries.to_vec())
        };
        let folding = Folding::of(journal, remembering(100));
        assert_eq!(folding.fold().await, Leader::This);
        assert_eq!(folding.journal.count(&Call::Read), reads);
        let fold = Call::Fold(Some(3_000), missing);
        assert_eq!(folding.journal.take_writes(), [fold]);
    }
    // Bytes are missing before and after the only entry of a round that was begun.
    let folding = Folding::one_by_one(vec![entries[0].clone()]);
    lock(&folding.journal.progress).round_end = Some(at(4_000));
    assert_eq!(folding.fold().await, Leader::This);
    let fold = Call::Fold(Some(4_000), 4_000 - length(&entries[0]));
    assert_eq!(folding.journal.take_writes()[0], fold);
}

#[tokio::test]
async fn a_round_ends_at_32_mib() {
    let offsets = [10, 26, 42, 43].map(|mib| mib * MIB);
    let folding = Folding::one_by_one(offsets.map(|offset| entry(offset, &["GET /"], NOW)).into());
    lock(&folding.journal.progress).committed = at(10 * MIB);
    assert_eq!(folding.fold().await, Leader::This);
    assert_eq!(folding.take_writes(), [round(42 * MIB), round(43 * MIB)]);
}

#[tokio::test]
async fn other_tasks_run_while_a_large_entry_is_folded() {
    let mut batch = Batch::new(Precisions::new([60], 120));
    let mut request = Aggregate::default();
    request.times.record(1_000);
    for name in 0..1_500 {
        batch.add(&format!("GET /{name}").into(), Kind::Http, NOW, &request);
    }
    let folding = Folding::one_by_one(vec![entry_of(200_000, &batch)]);
    let polls = Arc::new(AtomicUsize::new(0));
    let other = tokio::spawn({
        let polls = polls.clone();
        async move {
            loop {
                polls.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        }
    });
    assert_eq!(folding.fold().await, Leader::This);
    other.abort();
    // The names of the entry are merged, planned, searched for slow requests, and added to records.
    let polls = polls.load(Ordering::Relaxed);
    assert!(polls >= 4 * 1_500 / NAMES_AT_ONCE, "{polls} polls");
}

/// All names of an entry are in one round, and a round that was begun keeps its end.
#[tokio::test]
async fn a_round_ends_at_16_384_names() {
    for begun in [None, Some(at(2_200_000))] {
        let entries = (1..=22).map(|number| {
            let mut batch = Batch::new(Precisions::new([60], 120));
            for name in 0..1_000 {
                batch.count(&format!("{number} {name}").into(), NOW, 1);
            }
            entry_of(100_000 * number, &batch)
        });
        let folding = Folding::one_by_one(entries.collect());
        lock(&folding.journal.progress).round_end = begun;
        assert_eq!(folding.fold().await, Leader::This);
        let mut writes = folding.take_writes();
        writes.retain(|write| *write != Call::Fold(None, 0));
        writes.dedup();
        let expected = [round(1_700_000), round(2_200_000)];
        assert_eq!(writes, expected[usize::from(begun.is_some())..]);
    }
}

#[tokio::test]
async fn folding_continues_after_missing_last_entries() {
    let journal = Scripted {
        head: Some(at(500)),
        ..Scripted::default()
    };
    let folding = Folding::of(journal, remembering(100));
    assert_eq!(folding.fold().await, Leader::This);
    let writes = folding.journal.take_writes();
    assert_eq!(writes, [Call::CloseHole, Call::Fold(None, 0)]);
    assert_eq!(lock(&folding.journal.progress).committed, at(500));
}

#[tokio::test]
async fn entries_before_a_garbled_one_are_folded_first() {
    let mut entries = [100, 200, 300].map(|offset| entry(offset, &["GET /"], NOW));
    entries[1].payload = b"garbage".to_vec();
    let folding = Folding::one_by_one(entries.to_vec());
    assert_eq!(folding.fold().await, Leader::This);
    let expected = [round(100), Call::SetAside(200), round(300)];
    assert_eq!(folding.take_writes(), expected);

    // A round that was begun contains all three entries, so the garbled entry is set aside first.
    let folding = Folding::one_by_one(entries.to_vec());
    lock(&folding.journal.progress).round_end = Some(at(300));
    assert_eq!(folding.fold().await, Leader::This);
    assert_eq!(folding.journal.take_writes()[0], Call::SetAside(200));
}

#[tokio::test]
async fn an_entry_of_a_newer_version_waits_after_earlier_entries_are_folded() {
    let newer = |appended_at| Entry {
        version: u64::from(ENTRY_VERSION) + 1,
        ..entry(200, &["GET /"], appended_at)
    };
    let first = entry(100, &["GET /"], NOW);
    for (is_overdue, appended_at, is_set_aside) in [
        (false, NOW - 600, false),
        // Earlier entries of a newer version have waited long enough, but a younger entry must still wait.
        (true, NOW - 600, true),
        (true, NOW - 599, false),
        (true, NOW, false),
        // The store's clock was ahead.
        (true, NOW + 86_400, true),
        (true, i64::MIN, true),
    ] {
        let folding = Folding::one_by_one(vec![first.clone(), newer(appended_at)]);
        lock(&folding.journal.progress).is_overdue = is_overdue;
        let waits = [Call::WaitForNewer(200), Call::Release];
        let (leader, [first, second]) = match is_set_aside {
            true => (Leader::This, [Call::SetAside(200), round(200)]),
            false => (Leader::NewerVersion, waits),
        };
        assert_eq!(folding.fold().await, leader, "{appended_at}");
        assert!(is_overdue || folding.journal.count(&Call::Read) == 3);
        assert_eq!(folding.take_writes(), [round(100), first, second]);
    }
}
