//! Makes the names of all keys. [`Table::key`] has the names of tables, without the prefix.
//!
//! | Key | Type | Content | Lives |
//! |---|---|---|---|
//! | `{prefix}count:{p}:{name}` | HASH slice -> count | a counter at a precision | retained slices * p + max(10 min, 2p) after its last new slice |
//! | `{prefix}known:` | ZSET `{p}:{name}`, scores 0 | all counters | for ever |
//! | `{prefix}stats:{context}:AccessTime` | ZSET min, max, count, sum, sumsq | this hour's statistics, in seconds | until the context is forgotten |
//! | `…:start` | STRING ISO hour | the hour of these statistics | as the statistics |
//! | `…:last`, `…:pstart` | as the two keys above | the statistics of the last hour with samples before this hour, and that hour | as the statistics |
//! | `{prefix}slowest:AccessTime` | ZSET context, mean | the 100 slowest contexts | for ever |
//! | `{prefix}pulse:contexts` | ZSET context, last seen | contexts of HTTP requests | for ever |
//! | `{prefix}pulse:timers` | ZSET context, last seen | contexts of other code | for ever |
//! | `{prefix}pulse:r1:{tier}:{slice}` | HASH context -> packed record | the records of all contexts in a slice; `r1` is the version of their form | retained slices * tier + max(10 min, 2 tiers): a minute from its last write, a longer slice from its end; a minute that is not rolled up yet 15.5 days |
//! | `{prefix}pulse:revisions` | HASH tier and number of the slice modulo 256 -> start and version | the version of the state that the last write to each slice of the records has set | 15.5 days after its last write |
//! | `{prefix}pulse:history1` | HASH `kept` -> packed history | the number of days of history, if an instance asks for a history | until a week after an instance last asked |
//! | `{prefix}pulse:profiles1:{start}` | HASH context -> packed profile; `hours` | the hour-of-week profiles of the contexts whose last sample is in the five weeks from `{start}` on, and the recorded share of each hour | until the end of the next five weeks |
//! | `{prefix}pulse:slow1:{hour}` | HASH context -> packed list | each context's slowest and newest failed requests of an hour | until ten minutes after the end of the next hour |
//! | `{prefix}pulse:by_instance1:{minute}` | HASH instance -> version, packed records | each instance's records of a minute, for its busiest contexts | 140 min after its last write |
//! | `{prefix}pulse:by_version1:{minute}` | HASH context and version -> packed record | each version's records of a minute, while several versions of the application ran | 140 min after its last write |
//! | `{prefix}slot_{ranking}_{slice}` | HASH id -> count | a slice of a ranking | until it leaves the window, at most three periods and two weeks after its last write |
//! | `{prefix}stats_{ranking}` | ZSET id, sum | a ranking: the sums of its slices within the window | two periods and a week after its last write |
//! | `{prefix}last_slot_{ranking}` | STRING slice | the newest slice of a ranking | two periods and a week after its last write |
//! | `{prefix}pulse:rankings` | HASH ranking -> packed configuration, and starts of its slices | the rankings with their slices | each ranking while it has slices |
//! | `{prefix}pulse:rankings:specs` | HASH ranking -> packed configurations, each with the time of its last addition | the rankings that instances configure differently | until the instances agree |
//! | `{prefix}pulse:rankings:dropped` | HASH ranking -> count | the sum of the counts for which the ranking had no room | for ever |
//! | `{prefix}pulse:ended:{key}` | HASH or ZSET | the former `{prefix}{key}`: a slice or the sums of a ranking that was removed | a second |
//! | `{prefix}delay:{cache}` | ZSET row, seconds | the time between two refreshes of each row; `{cache}` is empty, or the cache's name and a colon | for ever |
//! | `{prefix}schedule:{cache}` | ZSET row, Unix seconds | when each row is due | for ever |
//! | `{prefix}inv:{cache}{row}` | STRING JSON | a cached row | until the row is removed, or reaches its maximum age |
//! | `{prefix}pulse:failing:{cache}` | ZSET row, failures | the rows whose last load failed | for ever |
//! | `{prefix}pulse:rows:{cache}` | HASH row -> lease, load time, failures | the lease of each row, when the row was loaded, and its failures | for ever |
//! | `{prefix}pulse:state` | HASH | the state of the journal: generation, progress of folding, counts of unusable samples, a fence per instance | for ever |
//! | `{prefix}pulse:journal` | STREAM | calls that are not folded yet | until they are folded |
//! | `{prefix}pulse:journal:old` | STREAM | the old journal, while a script copies its entries without those of another program | during the script |
//! | `{prefix}pulse:lease:fold` | STRING `{name}:{id}` | the folder | 5 s |
//! | `{prefix}pulse:aside` | STREAM | the newest 100 entries that no instance could read, the first 256 KiB of each | 7 days after the newest entry |
//! | `{prefix}pulse:orphaned` | STREAM | the oldest 16 MiB of a journal whose state was missing | 7 days |
//! | `{prefix}pulse:quarantine` | HASH key -> time and reason | the quarantined keys | each until it is repaired |
//! | `{prefix}pulse:instances` | ZSET instance, last heartbeat | the instances that are alive | for ever |
//! | `{prefix}pulse:instance:{id}` | HASH | the last heartbeat of an instance | 60 to 90 s after its last heartbeat |
//! | `{prefix}pulse:versions` | ZSET version, last heartbeat | the newest 100 versions of the application | for ever |
//! | `{prefix}pulse:lease:clean` | STRING `{name}:{id}` | the instance that cleans | 15 s longer than the time between passes |
//! | `{prefix}pulse:judged1` | HASH `judged` -> packed judgement, `acknowledged` -> packed acknowledgements | the last judgement, and the acknowledgements of changes | 16 days after the last judgement |
//! | `{prefix}pulse:changes1` | HASH number and id -> packed change | the changes, each with the number of the judgement that wrote it | 16 days after the last judgement |
//! | `{prefix}pulse:detector1` | HASH number and name -> packed part | the parts of the detector's state, such as alarms | 16 days after the last judgement |
//! | `{prefix}pulse:errors1` | HASH kind -> packed times | the kinds of errors of judged minutes, at most 256, with the first and the last minute of each | 16 days after the last judgement |
//! | `{prefix}pulse:marks1` | HASH id -> packed mark | the newest 50 marks of versions, and the newest 50 others | for ever |
//! | `{prefix}pulse:probe` | - | never exists; checks of permissions name it | - |
//!
//! The first six rows are the book's keys of counters and statistics: see [keys that other programs can
//! read](https://docs.rs/tower-pulse/latest/tower_pulse/guide/counters_rankings_rows/index.html#keys-that-other-programs-can-read).
//! `slot_`, `stats_` and `last_slot_` are the keys of rankings, which other programs may read. `delay:`, `schedule:`
//! and `inv:` of the unnamed cache are the keys of the book's row cache. With an empty prefix, the functions of the book
//! can use its keys, in any language.

use tower_pulse_core::store::table::Table;
use tower_pulse_model::slowest::ACCESS_TIME;

#[derive(Clone, Debug)]
pub(super) struct Keys {
    prefix: String,
}

impl Keys {
    pub(super) fn new(prefix: String) -> Self {
        Self { prefix }
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// `{prefix}count:`, which precedes `{p}:{name}` in a counter's key.
    pub(super) fn count_prefix(&self) -> String {
        format!("{}count:", self.prefix)
    }

    pub(super) fn count(&self, precision: u32, name: &str) -> String {
        format!("{}count:{precision}:{name}", self.prefix)
    }

    pub(super) fn known(&self) -> String {
        format!("{}known:", self.prefix)
    }

    pub(super) fn stats(&self, context: &str) -> Stats {
        let current = self.around_stats().join(context);
        Stats {
            start: format!("{current}:start"),
            last: format!("{current}:last"),
            pstart: format!("{current}:pstart"),
            current,
        }
    }

    /// The parts of the key of a context's statistics before and after the context's name.
    pub(super) fn around_stats(&self) -> [String; 2] {
        [format!("{}stats:", self.prefix), format!(":{ACCESS_TIME}")]
    }

    pub(super) fn slowest(&self) -> String {
        format!("{}slowest:{ACCESS_TIME}", self.prefix)
    }

    pub(super) fn contexts(&self) -> String {
        self.table(&Table::Contexts)
    }

    pub(super) fn timers(&self) -> String {
        self.table(&Table::Timers)
    }

    pub(super) fn table(&self, table: &Table) -> String {
        self.prefix.clone() + &table.key()
    }

    /// The key to which an ended table is renamed, until the server has freed its memory.
    pub(super) fn ended(&self, table: &Table) -> String {
        self.own(&format!("ended:{}", table.key()))
    }

    #[cfg(feature = "row-cache")]
    pub(super) fn rows(&self, cache: &str) -> RowKeys {
        let prefix = &self.prefix;
        let name = match cache {
            "" => String::new(),
            name => format!("{name}:"),
        };
        RowKeys {
            delay: format!("{prefix}delay:{name}"),
            schedule: format!("{prefix}schedule:{name}"),
            states: format!("{prefix}pulse:rows:{name}"),
            failing: format!("{prefix}pulse:failing:{name}"),
            cached: format!("{prefix}inv:{name}"),
        }
    }

    pub(super) fn instance(&self, id: &str) -> String {
        self.own(&format!("instance:{id}"))
    }

    /// The name of a command, and its arguments after the key. The command fails if the key has another type than this
    /// crate gives to it.
    pub(super) fn type_check(&self, key: &[u8]) -> Option<&'static [&'static str]> {
        let name = std::str::from_utf8(key).ok()?.strip_prefix(&self.prefix)?;
        let own = name.strip_prefix("pulse:").unwrap_or_default();
        match (name, own) {
            (_, "journal" | "aside" | "orphaned") => Some(&["XLEN"]),
            (_, "lease:fold" | "lease:clean") => Some(&["GETRANGE", "0", "0"]),
            (_, "contexts" | "timers" | "instances" | "versions") => Some(&["ZCARD"]),
            (
                _,
                "state" | "quarantine" | "revisions" | "rankings" | "rankings:specs"
                | "rankings:dropped" | "history1" | "judged1" | "changes1" | "detector1"
                | "errors1" | "marks1",
            ) => Some(&["HLEN"]),
            _ if own.starts_with("rows:") => Some(&["HLEN"]),
            _ if own.starts_with("failing:") => Some(&["ZCARD"]),
            _ => {
                let sets = ["known:", "slowest:", "delay:", "schedule:"];
                let is_set = sets.iter().any(|set| name.starts_with(set));
                is_set.then_some(&["ZCARD"])
            }
        }
    }

    /// The key patterns that an ACL rule must allow.
    pub(super) fn acl_patterns(&self) -> String {
        if self.prefix.is_empty() {
            return "~known: ~count:* ~stats:* ~slowest:* ~slot_* ~stats_* ~last_slot_* ~delay:* ~schedule:* ~inv:* ~pulse:*"
                .to_owned();
        }
        let mut escaped = String::from("~");
        for c in self.prefix.chars() {
            if matches!(c, '*' | '?' | '[' | ']' | '\\' | '^') {
                escaped.push('\\');
            }
            escaped.push(c);
        }
        escaped + "*"
    }

    fn own(&self, name: &str) -> String {
        format!("{}pulse:{name}", self.prefix)
    }
}

macro_rules! own_keys {
    ($($(#[$doc:meta])* $key:ident = $name:literal;)+) => {
        impl Keys {
            $($(#[$doc])* pub(super) fn $key(&self) -> String {
                self.own($name)
            })+
        }
    };
}

own_keys! {
    revisions = "revisions";
    state = "state";
    journal = "journal";
    /// The old journal, while a script rebuilds the journal.
    old_journal = "journal:old";
    fold_lease = "lease:fold";
    aside = "aside";
    orphaned = "orphaned";
    quarantine = "quarantine";
    instances = "instances";
    versions = "versions";
    clean_lease = "lease:clean";
    probe = "probe";
}

#[cfg(feature = "row-cache")]
#[derive(Debug)]
pub(super) struct RowKeys {
    pub(super) delay: String,
    pub(super) schedule: String,
    pub(super) states: String,
    pub(super) failing: String,
    /// The key of a cached row, without the id.
    pub(super) cached: String,
}

#[cfg(feature = "row-cache")]
impl RowKeys {
    pub(super) fn row(&self, id: &[u8]) -> Vec<u8> {
        [self.cached.as_bytes(), id].concat()
    }
}

#[derive(Debug)]
pub(super) struct Stats {
    pub(super) current: String,
    pub(super) start: String,
    pub(super) last: String,
    pub(super) pstart: String,
}
