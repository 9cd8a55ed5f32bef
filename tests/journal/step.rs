//! A step of a fold that owns its data, so that it can arrive after its folder is gone.

use std::sync::Arc;

use tower_pulse::StoreError;
use tower_pulse::model::access_time::DurationSums;
use tower_pulse::model::batch::Batch;
use tower_pulse::model::round::{Round, partition};
use tower_pulse::model::tier::RolledUp;
use tower_pulse::store::Position;
use tower_pulse::store::journal::{FoldStep, Journal, Partitions, Step};
use tower_pulse::store::table::FieldWrites;

/// A [`FoldStep`] with owned fields.
#[derive(Clone)]
pub struct OwnedStep {
    pub version: String,
    pub next: String,
    pub instance: String,
    pub upto: Option<Position>,
    pub done: Option<Partitions>,
    pub trim: Option<Position>,
    pub round: Arc<Round>,
    pub partitions: Vec<usize>,
    pub fields: Vec<FieldWrites>,
    pub rolled: RolledUp,
    pub hole_bytes: u64,
    pub took_millis: u64,
}

impl OwnedStep {
    pub fn new(step: &FoldStep<'_>) -> Self {
        Self {
            version: step.version.to_owned(),
            next: step.next.to_owned(),
            instance: step.instance.to_owned(),
            upto: step.upto,
            done: step.done,
            trim: step.trim,
            round: Arc::new(copy_of(step.round)),
            partitions: step.partitions.to_vec(),
            fields: step.fields.to_vec(),
            rolled: step.rolled.clone(),
            hole_bytes: step.hole_bytes,
            took_millis: step.took_millis,
        }
    }

    /// Sends the step.
    pub async fn run(&self, journal: &dyn Journal) -> Result<Step<()>, StoreError> {
        let step = FoldStep {
            version: &self.version,
            next: &self.next,
            instance: &self.instance,
            upto: self.upto,
            done: self.done,
            trim: self.trim,
            round: &self.round,
            partitions: &self.partitions,
            fields: &self.fields,
            rolled: &self.rolled,
            hole_bytes: self.hole_bytes,
            took_millis: self.took_millis,
        };
        journal.fold(&step).await
    }

    /// Whether the step rolls up: it writes records, and folds no entry.
    pub fn is_of_roll_up(&self) -> bool {
        let has_records =
            |fields: &FieldWrites| fields.table.slice().is_some() && !fields.set.is_empty();
        self.upto.is_none() && self.fields.iter().any(has_records)
    }

    /// Whether the step writes data of this name.
    pub fn covers(&self, name: &str) -> bool {
        self.partitions.contains(&partition(name))
    }
}

/// A copy of a round.
fn copy_of(round: &Round) -> Round {
    let mut copy = Round::empty(round.stamp());
    let mut late = round.late();
    for group in round.groups() {
        let mut batch = Batch::new(group.precisions.clone());
        batch.late = std::mem::take(&mut late);
        for (context, judged) in &group.contexts {
            let mut delta = judged.delta.clone();
            if judged.skewed > 0 {
                // `Round::add` drops sums that are in the future, and counts them as skewed.
                let skewed = DurationSums {
                    count: judged.skewed,
                    ..DurationSums::default()
                };
                delta
                    .hours
                    .add(round.stamp() + 1_000_000, skewed, usize::MAX);
            }
            batch.contexts.insert(context.clone(), delta);
        }
        batch.counters = group.counters.clone();
        copy.add(batch, round.stamp());
    }
    copy.add_rankings(round.rankings().clone(), round.stamp());
    copy.add_reports(round.reports());
    for mark in round.marks() {
        copy.add_mark(mark.clone());
    }
    assert_eq!(
        format!("{copy:?}"),
        format!("{round:?}"),
        "the copy differs"
    );
    copy
}
