//! The conditions of an instance that an operator should know. Health, metrics, `on_condition` and the guide list the
//! conditions below.

use tower_pulse_model::order::InOrder;
use tower_pulse_model::pack::named;

macro_rules! conditions {
    ($($(#[doc = $meaning:literal])+ $variant:ident = $name:literal,)+) => {
        named! {
            /// A condition of an instance or its store that an operator should know. Its warnings in health name the
            /// affected part, and in most cases a remedy.
            #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
            #[non_exhaustive]
            pub enum Condition {
                $($(#[doc = $meaning])+ $variant = $name,)+
            }
        }

        impl Condition {
            /// The meaning, in a sentence.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Self::$variant => concat!($($meaning),+).trim_ascii(),)+
                }
            }
        }
    };
}

conditions! {
    /// The store does not answer.
    Unreachable = "unreachable",
    /// The store answers, but refuses recorded data.
    Flush = "flush",
    /// The store refuses the heartbeats of this instance.
    Heartbeat = "heartbeat",
    /// Folding fails.
    Fold = "fold",
    /// Cleaning fails, or skips a key.
    Cleaning = "cleaning",
    /// Changes are not detected.
    Judgement = "judgement",
    /// The store refuses reads of the admin router.
    Read = "read",
    /// A key cannot be read: its value has another form, or is too large.
    UnreadableKey = "unreadable_key",
    /// A key holds a value that is not this crate's, so new data for the key is omitted.
    QuarantinedKey = "quarantined_key",
    /// Recorded data was deleted or evicted.
    GoneTable = "gone_table",
    /// A key of this crate held something else, and was replaced.
    ReplacedKey = "replaced_key",
    /// A cached row is larger than its cache allows.
    LargeRow = "large_row",
    /// Cached rows are not refreshed.
    RowRefresh = "row_refresh",
    /// The server denies XTRIM.
    Untrimmed = "untrimmed",
    /// The server denies INFO.
    UnknownServer = "unknown_server",
    /// The server is older than the oldest version that is supported.
    OldServer = "old_server",
    /// The server may evict keys.
    Eviction = "eviction",
    /// The server has no memory left.
    FullServer = "full_server",
    /// The server is a node of a cluster, but is used like a single server.
    LoneNode = "lone_node",
    /// No Sentinel tells which server is the primary.
    Sentinel = "sentinel",
    /// Nothing is recorded in the store.
    EmptyStore = "empty_store",
    /// The file of the store cannot be used, is full, or is not where it was.
    File = "file",
    /// The clock of an instance differs from the store's by a minute or more.
    Clock = "clock",
    /// The journal waits to be folded.
    JournalWaits = "journal_waits",
    /// The journal waits for an instance of a newer version.
    NewerEntry = "newer_entry",
    /// Another instance has sent no heartbeat for a while.
    SilentInstance = "silent_instance",
    /// The instances of the fleet configure a ranking differently.
    RankingSpecs = "ranking_specs",
    /// The instances of the fleet ask for different histories.
    History = "history",
    /// Routes lack a layer, so their requests are not recorded; or files or a fallback lack a name.
    Routes = "routes",
    /// Contexts or counters exceed their limit.
    Overflow = "overflow",
    /// A filter hides the statements of sqlx from the timers.
    HiddenStatements = "hidden_statements",
    /// The proxy's header gives waits that cannot be right.
    QueueHeader = "queue_header",
    /// A setting of this process may be a mistake.
    Configuration = "configuration",
    /// Recorded data of this instance is lost.
    Lost = "lost",
    /// The store was reset, or came back empty.
    StoreReset = "store_reset",
    /// Samples were refused, because their time is more than an hour ahead of the store's.
    Skewed = "skewed",
    /// Entries of the journal were set aside.
    SetAside = "set_aside",
    /// Entries of the journal were gone before they were folded.
    JournalHole = "journal_hole",
    /// The state of a journal was missing, so its entries were not folded.
    Orphaned = "orphaned",
}

#[cfg(feature = "query")]
impl serde::Serialize for Condition {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// A sentence that describes a condition. Most such sentences name a remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The condition.
    pub condition: Condition,
    /// The sentence.
    pub text: String,
}

impl Condition {
    /// A warning of this condition.
    #[doc(hidden)]
    pub fn warning(self, text: impl Into<String>) -> Warning {
        Warning {
            condition: self,
            text: text.into(),
        }
    }
}

/// The conditions of some warnings, without duplicates.
pub fn conditions(warnings: &[Warning]) -> Vec<Condition> {
    let mut conditions: Vec<_> = warnings.iter().map(|warning| warning.condition).collect();
    conditions.order();
    conditions.dedup();
    conditions
}

/// The texts of some warnings. Of several warnings that end with the same error, only the first is kept.
pub fn texts(warnings: Vec<Warning>) -> Vec<String> {
    // The text of a warning is either an error alone, or a failed task, a colon and the error.
    let cause = |warning: &str| match warning.split_once(": ") {
        Some((_, error)) => error.to_owned(),
        None => warning.to_owned(),
    };
    let mut texts: Vec<String> = Vec::new();
    for Warning { text, .. } in warnings {
        let error = cause(&text);
        if !(texts.iter()).any(|other| *other == error || cause(other) == error) {
            texts.push(text);
        }
    }
    texts
}

/// A condition that begins or ends, as `Pulse::on_condition` passes it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConditionEvent {
    /// The condition.
    pub condition: Condition,
    /// The name of the instance.
    pub instance: String,
    /// The warnings when the condition began.
    pub warnings: Vec<String>,
    /// When the condition began, in Unix seconds.
    pub since: i64,
    /// When the condition ended, in Unix seconds; `None` at the beginning.
    pub ended: Option<i64>,
}

impl std::fmt::Display for ConditionEvent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            condition, since, ..
        } = self;
        match (self.ended, self.warnings.first()) {
            (Some(ended), _) => write!(f, "{condition} is over after {} s", ended - since),
            (None, Some(warning)) => write!(f, "{condition}: {warning}"),
            (None, None) => write!(f, "{condition}: {}", condition.meaning()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_cause_has_one_warning() {
        let away = "/x cannot be written: create it";
        let folding = format!("folding fails: {away}");
        let cleaning = format!("cleaning fails: {away}");
        let other = "folding fails: another error".to_owned();
        let all = |warnings: &[&str]| {
            let warnings = warnings.iter().map(|&text| Condition::Fold.warning(text));
            texts(warnings.collect())
        };
        assert_eq!(all(&[away, &folding, &cleaning, &other]), [away, &other]);
        assert_eq!(all(&[&folding, &cleaning, &folding]), [&*folding]);
        assert_eq!(all(&[&other, &folding]), [other.clone(), folding]);
    }
}
