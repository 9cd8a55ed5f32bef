//! A step of a fold that owns its data, so that it can arrive after its folder is gone.

use std::collections::BTreeSet;

use tower_pulse::StoreError;
use tower_pulse::model::context::ALL;
use tower_pulse::model::round::partition;
use tower_pulse::model::tier::RolledUp;
use tower_pulse::store::Position;
use tower_pulse::store::additions::Additions;
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
    pub stamp: i64,
    pub additions: Additions,
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
            stamp: step.stamp,
            additions: step.additions.clone(),
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
            stamp: self.stamp,
            additions: &self.additions,
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

    /// The partitions of the contexts that the step adds to, and that of `<all>` where it adds late samples.
    pub fn partitions(&self) -> BTreeSet<usize> {
        let contexts = self.additions.statistics.iter();
        let names = contexts.map(|added| partition(&added.context.name));
        let late = (self.additions.late > 0).then(|| partition(ALL));
        names.chain(late).collect()
    }
}
