//! Tables: hashes and sorted sets whose fields the folder reads, merges and replaces.

use std::sync::Arc;

use tower_pulse_model::context::Kind;
use tower_pulse_model::pack::packed_enum;
use tower_pulse_model::tier::TierSlice;

/// Declares the tables. A file names a table by its number and parameters, which never change. Redis names the table by
/// the key, after the prefix.
macro_rules! tables {
    ($(
        $(#[$doc:meta])*
        $number:literal $table:ident $({ $($(#[$field_doc:meta])* $field:ident: $type:ty,)+ })? = $key:literal;
    )+) => {
        /// A table of the store. Each field has a value. In an [ordered](Self::is_ordered) table, the values are
        /// integers in decimal form, and the fields are sorted by these integers.
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Table {
            $($(#[$doc])* $table $({ $($(#[$field_doc])* $field: $type,)+ })?,)+
        }

        packed_enum!(Table { $($number => $table $({ $($field),+ })?,)+ });

        impl Table {
            /// The key in Redis, without the prefix.
            pub fn key(&self) -> String {
                match self {
                    $(Self::$table $({ $($field),+ })? => format!($key),)+
                }
            }
        }
    };
}

tables! {
    /// The records of a slice of a tier, packed, by their ids.
    1 Records {
        /// Length of the slice, in seconds.
        seconds: u32,
        /// The start of the slice, in Unix seconds.
        start: i64,
    } = "pulse:r1:{seconds}:{start}";
    /// The slowest and the newest failed requests of an hour, packed, by the id of the context's records.
    2 SlowRequests {
        /// The start of the hour, in Unix seconds.
        hour: i64,
    } = "pulse:slow1:{hour}";
    /// The report of each instance for a minute, packed, by the name of the instance.
    3 InstanceMinutes {
        /// The start of the minute, in Unix seconds.
        minute: i64,
    } = "pulse:by_instance1:{minute}";
    /// The aggregates of each version of the application in a minute, packed. A field is the id of a context's records,
    /// followed by the version.
    4 VersionMinutes {
        /// The start of the minute, in Unix seconds.
        minute: i64,
    } = "pulse:by_version1:{minute}";
    /// The marks, packed, by their ids.
    5 Marks = "pulse:marks1";
    /// The configuration and the slices of each ranking, packed, by the name of the ranking.
    6 Rankings = "pulse:rankings";
    /// The configurations of each ranking whose configuration differs between instances, packed, by the name of the
    /// ranking.
    7 RankingSpecs = "pulse:rankings:specs";
    /// The sum of the counts for which a ranking had no room, by the name of the ranking.
    8 RankingsDropped = "pulse:rankings:dropped";
    /// The counts of a slice of a ranking, by id.
    9 RankingSlice {
        /// The name of the ranking.
        ranking: Arc<str>,
        /// The start of the slice, in Unix seconds.
        start: i64,
    } = "slot_{ranking}_{start}";
    /// The sums of all slices of a ranking, by id.
    10 RankingTotals {
        /// The name of the ranking.
        ranking: Arc<str>,
    } = "stats_{ranking}";
    /// The start of the newest slice of a ranking: a single value, in a field with an empty name.
    11 RankingNewest {
        /// The name of the ranking.
        ranking: Arc<str>,
    } = "last_slot_{ranking}";
    /// How many days of history the store keeps, packed, in one field.
    17 History = "pulse:history1";
    /// The hour-of-week profiles of the contexts that last had a sample in these five weeks, packed, by the ids of
    /// their records. Another field says how much of each hour was recorded. New samples of a context move its profile
    /// to the next table. Without samples, the profile expires with its table.
    18 Profiles {
        /// The start of the five weeks, in Unix seconds.
        start: i64,
    } = "pulse:profiles1:{start}";
    /// One field has the last judgement. Another field has the acknowledgements of changes, with people's names.
    12 Judgement = "pulse:judged1";
    /// The changes, packed. A field is the number of the judgement that wrote the change, followed by the id of the
    /// change.
    13 Changes = "pulse:changes1";
    /// The parts of the detector's state, packed. A field is the number of the judgement that wrote the part, followed
    /// by the name of the part.
    14 Detector = "pulse:detector1";
    /// The kinds of errors in the minutes that were judged, packed, by the name of the kind. Only the last step of a
    /// judgement changes the fields.
    19 Errors = "pulse:errors1";
    /// When each HTTP context last had a sample, in Unix seconds, by its name: an ordered table. A step raises the
    /// fields without reading them. The table does not have [`ALL`](tower_pulse_model::context::ALL).
    15 Contexts = "pulse:contexts";
    /// When each timer last had a sample, as in [`Contexts`](Self::Contexts).
    16 Timers = "pulse:timers";
}

/// The tables with the names of the contexts, by kind.
pub const CONTEXTS: [(Kind, Table); 2] =
    [(Kind::Http, Table::Contexts), (Kind::Timer, Table::Timers)];

impl Table {
    /// The records of a slice.
    pub fn records((seconds, start): TierSlice) -> Self {
        Self::Records { seconds, start }
    }

    /// Whether the fields are sorted by their values, which are integers.
    pub fn is_ordered(&self) -> bool {
        matches!(
            self,
            Self::RankingTotals { .. } | Self::Contexts | Self::Timers
        )
    }

    /// The slice whose records the table has, if it is a table of records.
    pub fn slice(&self) -> Option<TierSlice> {
        match self {
            Self::Records { seconds, start } => Some((*seconds, *start)),
            _ => None,
        }
    }
}

/// The fields of a table that a step sets or removes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldWrites {
    /// The table.
    pub table: Table,
    /// Seconds until the table expires; `None` keeps the time at which the table expires.
    pub ttl: Option<i64>,
    /// Names of fields to set, with their new values.
    pub set: Vec<(Vec<u8>, Vec<u8>)>,
    /// Names of fields to remove.
    pub removed: Vec<Vec<u8>>,
    /// Whether the whole table is removed. The table must then have fields, and `set` and `removed` are empty.
    pub is_ended: bool,
}

impl FieldWrites {
    /// A write that so far sets only the time to live of a table.
    pub fn new(table: Table, ttl: Option<i64>) -> Self {
        Self {
            table,
            ttl,
            set: Vec::new(),
            removed: Vec::new(),
            is_ended: false,
        }
    }

    /// The write of one field: sets `value`, or removes the field if `value` is `None`.
    pub fn of(table: Table, ttl: Option<i64>, field: &[u8], value: Option<Vec<u8>>) -> Self {
        let mut write = Self::new(table, ttl);
        match value {
            Some(value) => write.set.push((field.to_vec(), value)),
            None => write.removed.push(field.to_vec()),
        }
        write
    }

    /// The removal of a table that has fields.
    pub fn end(table: Table) -> Self {
        Self {
            is_ended: true,
            ..Self::new(table, None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tower_pulse_model::pack::{pack, unpack};

    #[test]
    fn the_name_in_a_file_identifies_a_table() {
        let posts = || "posts".into();
        let tables = [
            Table::records((60, 1_700_000_040)),
            Table::records((86_400, -86_400)),
            Table::SlowRequests { hour: 3_600 },
            Table::InstanceMinutes { minute: 60 },
            Table::VersionMinutes { minute: 60 },
            Table::Marks,
            Table::Rankings,
            Table::RankingSpecs,
            Table::RankingsDropped,
            Table::RankingSlice {
                ranking: posts(),
                start: 3_600,
            },
            Table::RankingTotals { ranking: posts() },
            Table::RankingNewest { ranking: posts() },
            Table::Judgement,
            Table::Changes,
            Table::Detector,
            Table::Contexts,
            Table::Timers,
            Table::History,
            Table::Profiles { start: 3_024_000 },
            Table::Errors,
        ];
        for table in &tables {
            let name = pack(table);
            assert_eq!(unpack::<Table>(&name).as_ref(), Some(table));
            assert_eq!(unpack::<Table>(&name[..name.len() - 1]), None);
            for other in tables.iter().filter(|other| *other != table) {
                assert!(!pack(other).starts_with(&name), "{table:?} {other:?}");
            }
        }
        let codes: Vec<u8> = tables.iter().map(|table| pack(table)[0]).collect();
        assert_eq!(codes, [&[1][..], &(1..=19).collect::<Vec<_>>()].concat());
        assert_eq!(unpack::<Table>(&[200, 1]), None);
    }
}
