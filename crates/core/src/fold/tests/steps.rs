//! The steps of a round: their sizes, repeated sends, and the trimming of entries.

use super::{Call, Folding, Incident, NOW, Scripted, at, entry, entry_of, remembering};
use crate::error::StoreErrorKind;
use crate::fold::{FoldLimits, Leader};
use crate::task::lock;
use tower_pulse_model::batch::Batch;
use tower_pulse_model::context::ALL;
use tower_pulse_model::round::partition;
use tower_pulse_model::slice::Precisions;

#[tokio::test]
async fn late_samples_are_added_once_with_the_partition_of_all() {
    let mut batch = Batch::new(Precisions::new([60], 120));
    batch.late = 3;
    let late = entry_of(100, &batch);
    for (entries, is_all_done, added) in [
        (vec![late.clone()], false, (3, 0)),
        (vec![late], true, (0, 0)),
        (vec![entry(100, &["GET /"], NOW)], false, (0, 1)),
    ] {
        let folding = Folding::one_by_one(entries);
        if is_all_done {
            let mut progress = lock(&folding.journal.progress);
            progress.round_end = Some(at(100));
            progress.done.insert(partition(ALL));
        }
        assert_eq!(folding.fold().await, Leader::This);
        let additions = lock(&folding.journal.additions);
        let of_steps = additions
            .iter()
            .map(|step| (step.late, step.statistics.len()));
        assert!(of_steps.eq([added]));
    }
}

#[tokio::test(start_paused = true)]
async fn a_step_without_an_answer_is_sent_three_times() {
    use StoreErrorKind::{Refused, TimedOut, Unreachable};
    for (failures, sent, result) in [
        (vec![TimedOut, Unreachable], 3, None),
        (vec![TimedOut; 3], 3, Some(TimedOut)),
        (vec![Refused], 1, Some(Refused)),
    ] {
        let folding = Folding::one_by_one(vec![entry(100, &["GET /"], NOW)]);
        *lock(&folding.journal.failing_steps) = failures.into();
        let error = folding.folder.fold().await.err().map(|error| error.kind());
        assert_eq!(error, result);
        assert_eq!(folding.journal.take_writes().len(), sent);
    }
}

#[tokio::test(start_paused = true)]
async fn the_version_shows_whether_a_step_without_an_answer_took_effect() {
    for (incident, acquisitions) in [(Incident::LostAnswer, 1), (Incident::Takeover, 2)] {
        let folding = Folding::one_by_one(vec![entry(100, &["GET /"], NOW)]);
        *lock(&folding.journal.incident) = Some(incident);
        assert_eq!(folding.fold().await, Leader::This);
        assert_eq!(folding.journal.count(&Call::Acquire), acquisitions);
        assert_eq!(lock(&folding.journal.progress).committed, at(100));

        // The same incidents in a step that only trims.
        let folding = Folding::one_by_one(vec![entry(100, &["GET /"], NOW)]);
        assert_eq!(folding.fold().await, Leader::This);
        *lock(&folding.journal.incident) = Some(incident);
        assert_eq!(folding.fold().await, Leader::This);
        assert_eq!(folding.journal.count(&Call::Acquire), acquisitions);
    }
}

#[tokio::test]
async fn a_round_leaves_up_to_64_entries_to_be_trimmed_later() {
    for (entries, trims) in [(128, 0), (129, 1), (193, 2)] {
        let entries = (1..=entries).map(|number| entry(1_000 * number, &["GET /"], NOW));
        let folding = Folding::of(Scripted::of(entries.collect()), remembering(100));
        assert_eq!(folding.fold().await, Leader::This);
        assert_eq!(folding.journal.count(&Call::Acquire), 1);
        assert_eq!(folding.journal.count(&Call::Fold(None, 0)), trims);
    }
}

#[tokio::test]
async fn counters_are_folded_in_steps_too() {
    let mut batch = Batch::new(Precisions::default());
    for number in 0..1_000 {
        batch.count(&format!("counter {number}").into(), NOW, 1);
    }
    let folding = Folding::one_by_one(vec![entry_of(10_000, &batch)]);
    assert_eq!(folding.fold().await, Leader::This);
    let steps = lock(&folding.journal.additions).len();
    // Each counter has seven slices.
    assert!((15..30).contains(&steps), "{steps}");
}

#[tokio::test]
async fn steps_write_few_contexts_at_first_and_more_while_the_server_is_fast() {
    let names: Vec<_> = (0..1_000).map(|number| format!("GET /{number}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    // Returns the number of contexts in each step of the first round, and in each step of the last round.
    let contexts_of_steps = async |step| {
        let limits = FoldLimits {
            step_contexts: step,
            ..remembering(1)
        };
        let folding = Folding::of(Scripted::default(), limits);
        let mut rounds = Vec::new();
        for offset in (1..=4).map(|number| 100_000 * number) {
            // Each round has two entries.
            let halves = names.chunks(500).zip([offset, offset + 50_000]);
            let halves = halves.map(|(names, offset)| entry(offset, names, NOW));
            lock(&folding.journal.entries).extend(halves);
            folding.fold().await;
            rounds.push(std::mem::take(&mut *lock(&folding.journal.records)));
        }
        (rounds.swap_remove(0), rounds.pop().unwrap_or_default())
    };
    let (first, last) = contexts_of_steps(None).await;
    assert!((16..=24).contains(&first[0]), "{first:?}");
    assert!(first.len() > 1_000 / 24, "{first:?}");
    let largest = last.into_iter().max();
    let largest = largest.filter(|contexts| (32..=160).contains(contexts));
    assert!(largest.is_some(), "{largest:?}");
    let (first, last) = contexts_of_steps(Some(8)).await;
    assert!(first.len() < 200, "{first:?}");
    // About four contexts share a partition, and a step does not divide a partition.
    for contexts in first.into_iter().chain(last) {
        assert!((1..=16).contains(&contexts), "{contexts}");
    }
}
