//! The entries of a round, and its end.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::{Call, Folding, MIB, NOW, Scripted, at, entry};
use crate::fold::Leader;
use crate::fold::plan::NAMES_AT_ONCE;
use crate::store::journal::Entry;
use crate::task::lock;
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::batch::Batch;
use tower_pulse_model::context::Kind;
use tower_pulse_model::entry::{ENTRY_VERSION, pack as pack_batch};
use tower_pulse_model::slice::Precisions;

/// An entry that no version can read.
fn garbled(offset: u64) -> Entry {
    Entry {
        payload: b"garbage".to_vec(),
        ..entry(offset, &[], NOW)
    }
}

#[tokio::test]
async fn a_round_has_all_entries_that_there_are() {
    let entries = [1_000, 2_000, 3_000].map(|offset| entry(offset, &["GET /"], NOW));
    let missing = |entries: &[Entry]| {
        3_000
            - entries
                .iter()
                .map(|e| e.payload.len() as u64 + 1)
                .sum::<u64>()
    };
    for entries_per_read in [0, 1] {
        let journal = Scripted {
            entries: Mutex::new(entries.to_vec()),
            entries_per_read,
            ..Scripted::default()
        };
        let folding = Folding::of(journal, 100);
        assert_eq!(folding.fold().await, Leader::This);
        let reads = folding.journal.times(&Call::Read).len();
        assert_eq!(reads, if entries_per_read == 0 { 1 } else { 3 });
        assert_eq!(
            folding.journal.changes(),
            [Call::Fold(Some(3_000), missing(&entries))]
        );
    }
}

#[tokio::test]
async fn a_round_ends_at_32_mib() {
    let offsets = [10, 26, 42, 43].map(|mib| mib * MIB);
    let folding = Folding::one_by_one(offsets.map(|offset| entry(offset, &["GET /"], NOW)).into());
    lock(&folding.journal.progress).committed = at(10 * MIB);
    assert_eq!(folding.fold().await, Leader::This);
    let rounds = folding
        .journal
        .changes()
        .into_iter()
        .map(|call| match call {
            Call::Fold(round_end, _) => round_end,
            other => panic!("{other:?}"),
        });
    assert!(rounds.eq([Some(42 * MIB), Some(43 * MIB)]));
}

#[tokio::test]
async fn other_tasks_run_while_a_large_entry_is_folded() {
    let mut batch = Batch::new(Precisions::new([60], 120));
    let mut one = Aggregate::default();
    one.times.record(1_000);
    for name in 0..1_500 {
        batch.add(&format!("GET /{name}").into(), Kind::Http, NOW, &one);
    }
    let large = Entry {
        payload: pack_batch(&batch),
        ..entry(200_000, &[], NOW)
    };
    let folding = Folding::one_by_one(vec![large]);
    let turns = Arc::new(AtomicUsize::new(0));
    let other = tokio::spawn({
        let turns = turns.clone();
        async move {
            loop {
                turns.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        }
    });
    assert_eq!(folding.fold().await, Leader::This);
    other.abort();
    // The names of the entry are merged, planned, searched for slow requests, and added to records.
    let turns = turns.load(Ordering::Relaxed);
    assert!(turns >= 4 * 1_500 / NAMES_AT_ONCE, "{turns} turns");
}

/// An entry is not divided, and a round that was begun keeps its end.
#[tokio::test]
async fn a_round_ends_at_16_384_names() {
    for begun in [None, Some(at(2_200_000))] {
        let entries = (1..=22).map(|number| {
            let mut batch = Batch::new(Precisions::new([60], 120));
            for name in 0..1_000 {
                batch.count(&format!("{number} {name}").into(), NOW, 1);
            }
            Entry {
                payload: pack_batch(&batch),
                ..entry(100_000 * number, &[], NOW)
            }
        });
        let folding = Folding::one_by_one(entries.collect());
        lock(&folding.journal.progress).round_end = begun;
        assert_eq!(folding.fold().await, Leader::This);
        let changes = folding.journal.changes();
        let ends = changes.iter().filter_map(|call| match call {
            Call::Fold(round_end, _) => *round_end,
            other => panic!("{other:?}"),
        });
        let mut ends: Vec<u64> = ends.collect();
        ends.dedup();
        match begun {
            Some(round_end) => assert_eq!(ends, [round_end.offset]),
            None => assert_eq!(ends, [1_700_000, 2_200_000]),
        }
    }
}

#[tokio::test]
async fn bytes_that_are_missing_before_and_after_an_entry_are_counted() {
    let only = entry(600, &["GET /"], NOW);
    let length = only.payload.len() as u64 + 1;
    let folding = Folding::one_by_one(vec![only]);
    lock(&folding.journal.progress).round_end = Some(at(1_000));
    assert_eq!(folding.fold().await, Leader::This);
    assert_eq!(
        folding.journal.changes()[0],
        Call::Fold(Some(1_000), 1_000 - length)
    );
}

#[tokio::test]
async fn folding_continues_after_missing_last_entries() {
    let journal = Scripted {
        head: Some(at(500)),
        ..Scripted::default()
    };
    let folding = Folding::of(journal, 100);
    assert_eq!(folding.fold().await, Leader::This);
    assert_eq!(
        folding.journal.changes(),
        [Call::CloseHole, Call::Fold(None, 0)]
    );
    assert_eq!(lock(&folding.journal.progress).committed, at(500));
}

#[tokio::test]
async fn entries_before_a_garbled_one_are_folded_first() {
    let (first, last) = (entry(100, &["GET /"], NOW), entry(300, &["GET /"], NOW));
    let folding = Folding::one_by_one(vec![first.clone(), garbled(200), last.clone()]);
    assert_eq!(folding.fold().await, Leader::This);
    let changes = folding.journal.changes();
    let order: Vec<_> = changes
        .iter()
        .map(|call| match call {
            Call::Fold(round_end, _) => *round_end,
            Call::SetAside(offset) => Some(*offset),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(order, [Some(100), Some(200), Some(300)]);
    assert_eq!(changes[1], Call::SetAside(200));

    // A round that was begun contains all three entries, so the garbled entry is set aside first.
    let folding = Folding::one_by_one(vec![first, garbled(200), last]);
    lock(&folding.journal.progress).round_end = Some(at(300));
    assert_eq!(folding.fold().await, Leader::This);
    assert_eq!(folding.journal.changes()[0], Call::SetAside(200));
}

#[tokio::test]
async fn an_entry_of_a_newer_version_waits_behind_those_that_can_be_folded() {
    let newer = |appended_at| Entry {
        version: u64::from(ENTRY_VERSION) + 1,
        ..entry(200, &["GET /"], appended_at)
    };
    let first = entry(100, &["GET /"], NOW);
    let folding = Folding::one_by_one(vec![first.clone(), newer(NOW - 600)]);
    assert_eq!(folding.fold().await, Leader::NewerVersion);
    assert_eq!(folding.journal.times(&Call::Read).len(), 3);
    let changes = folding.journal.changes();
    assert!(
        matches!(
            changes[..],
            [
                Call::Fold(Some(100), _),
                Call::WaitForNewer(200),
                Call::Release
            ]
        ),
        "{changes:?}"
    );

    // Although earlier entries of a newer version have waited long enough, a new one still waits.
    for (appended_at, is_set_aside) in [
        (NOW - 600, true),
        (NOW - 599, false),
        (NOW, false),
        // The store's clock was ahead.
        (NOW + 86_400, true),
        (i64::MIN, true),
    ] {
        let folding = Folding::one_by_one(vec![first.clone(), newer(appended_at)]);
        lock(&folding.journal.progress).is_overdue = true;
        let leader = folding.fold().await;
        let changes = folding.journal.changes();
        assert!(matches!(changes[0], Call::Fold(Some(100), _)));
        match is_set_aside {
            true => {
                assert_eq!(changes[1], Call::SetAside(200), "{appended_at}");
                assert!(matches!(changes[2], Call::Fold(Some(200), _)));
                assert_eq!(leader, Leader::This);
            }
            false => {
                assert_eq!(changes[1..], [Call::WaitForNewer(200), Call::Release]);
                assert_eq!(leader, Leader::NewerVersion);
            }
        }
    }
}
