//! Tables: hashes and sorted sets whose fields an instance that folds reads, merges and replaces.

use std::sync::Arc;

use tower_pulse_model::context::Kind;
use tower_pulse_model::tier::TierSlice;

/// A table of the store. Each field has a value. That of an [ordered](Self::is_ordered) table is an integer in decimal
/// form, by which the fields are sorted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// The records of a slice of a tier, packed, by their ids.
    Records {
        /// Length of the slice, in seconds.
        seconds: u32,
        /// The start of the slice, in Unix seconds.
        start: i64,
    },
    /// The slowest and the newest failed requests of an hour, packed, by the id of the context's records.
    SlowRequests {
        /// The start of the hour, in Unix seconds.
        hour: i64,
    },
    /// What each instance did in a minute, packed, by its name.
    InstanceMinutes {
        /// The start of the minute, in Unix seconds.
        minute: i64,
    },
    /// What each version of the application did in a minute, as packed aggregates. A field is the id of a context's
    /// records and the version behind it.
    VersionMinutes {
        /// The start of the minute, in Unix seconds.
        minute: i64,
    },
    /// The marks, packed, by their ids.
    Marks,
    /// The configuration and the slices of each ranking, by its name.
    Rankings,
    /// The configurations of each ranking to which instances of different ones add, by its name.
    RankingSpecs,
    /// How much was added, by ranking, to ids for which there was no room.
    RankingsDropped,
    /// The counts of a slice of a ranking, by id.
    RankingSlice {
        /// The name of the ranking.
        ranking: Arc<str>,
        /// The start of the slice, in Unix seconds.
        start: i64,
    },
    /// The sums of all slices of a ranking, by id.
    RankingTotals {
        /// The name of the ranking.
        ranking: Arc<str>,
    },
    /// The start of the newest slice of a ranking: a single value, whose field has no name.
    RankingNewest {
        /// The name of the ranking.
        ranking: Arc<str>,
    },
    /// Which days the store keeps, packed: one field.
    History,
    /// The hour-of-week profiles of the contexts that last had a sample in some five weeks, packed, by the ids of their
    /// records; and how much of each hour was recorded. A profile moves from one table to the next, so that a context
    /// which is gone takes its profile with it.
    Profiles {
        /// The start of the five weeks, in Unix seconds.
        start: i64,
    },
    /// The last judgement: one field. Another one says who has taken which change.
    Judgement,
    /// The changes, packed, by the number of the judgement that wrote each, and its id.
    Changes,
    /// The parts of the detector's state, packed, by the number of the judgement that wrote each, and its name.
    Detector,
    /// When each HTTP context last had a sample, in Unix seconds, by its name: an ordered table. The additions of a step
    /// raise its fields, so that no step has to read them. [`ALL`](tower_pulse_model::context::ALL) is not in it.
    Contexts,
    /// The same of timers.
    Timers,
}

/// The tables that name the contexts of each kind.
pub const CONTEXTS: [(Kind, Table); 2] =
    [(Kind::Http, Table::Contexts), (Kind::Timer, Table::Timers)];

impl Table {
    /// The records of a slice.
    pub fn records((seconds, start): TierSlice) -> Self {
        Self::Records { seconds, start }
    }

    /// Whether its fields are sorted by their values, which are integers.
    pub fn is_ordered(&self) -> bool {
        matches!(
            self,
            Self::RankingTotals { .. } | Self::Contexts | Self::Timers
        )
    }

    /// The slice whose records the table has, if it has some.
    pub fn slice(&self) -> Option<TierSlice> {
        match self {
            Self::Records { seconds, start } => Some((*seconds, *start)),
            _ => None,
        }
    }
}

/// Fields of a table as they are after a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldWrites {
    /// The table.
    pub table: Table,
    /// Seconds until the table expires; `None` for never.
    pub ttl: Option<i64>,
    /// Fields with their new values.
    pub set: Vec<(Vec<u8>, Vec<u8>)>,
    /// Fields that are removed.
    pub removed: Vec<Vec<u8>>,
    /// Whether the table is removed with all of its fields, and nothing else. It must have some.
    pub is_ended: bool,
}

impl FieldWrites {
    /// No fields of a table.
    pub fn new(table: Table, ttl: Option<i64>) -> Self {
        Self {
            table,
            ttl,
            set: Vec::new(),
            removed: Vec::new(),
            is_ended: false,
        }
    }

    /// The removal of a table that has fields.
    pub fn end(table: Table) -> Self {
        Self {
            is_ended: true,
            ..Self::new(table, None)
        }
    }

    /// A new time to live of a table, and nothing else.
    pub fn expire(table: Table, ttl: i64) -> Self {
        Self::new(table, Some(ttl))
    }
}
