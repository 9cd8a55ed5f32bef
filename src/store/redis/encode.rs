//! Encodes calls and rounds as the keys and arguments of `append.lua` and `fold.lua`, whose heads describe
//! the arguments.

use super::keys::Keys;
use super::script::Invocation;
use crate::model::pack;
use crate::model::slice::{Precision, hour_of, iso_hour};
use crate::model::slowest;
use crate::model::tier::{TIERS, TierSlice};
use crate::store::FencedBatch;
use crate::store::additions::{CounterAdditions, StatisticsAdditions};
use crate::store::journal::FoldStep;
use crate::store::table::{FieldWrites, Table};

/// Time to live of the lease to fold, in milliseconds.
pub(super) const LEASE_MILLIS: u64 = 5_000;

/// The configuration on which the encoding depends.
pub(super) struct Layout<'a> {
    pub(super) keys: &'a Keys,
    pub(super) expire_idle_keys: bool,
    /// Whether the book's keys are written.
    pub(super) book_keys: bool,
    /// The time to use instead of the server's, in tests.
    pub(super) now: Option<i64>,
    /// The most bytes of the journal.
    pub(super) journal_bytes: u64,
}

/// Encodes a call for `append.lua`.
pub(super) fn append(call: &FencedBatch, layout: &Layout<'_>) -> Invocation {
    let keys = layout.keys;
    let mut script = Invocation::default();
    script.key(keys.state());
    script.key(keys.journal());
    script.key(keys.fold_lease());
    script.key(keys.old_journal());
    script.arg(&*call.generation);
    script.arg(&*call.instance);
    script.arg(call.seq.to_string());
    script.arg(call.previous.to_string());
    script.arg(layout.journal_bytes.to_string());
    script.arg(pack::entry_version(&call.batch).to_string());
    script.arg(call.batch.requests_and_late().to_string());
    script.arg(layout.now_arg());
    script.arg(pack::entry(&call.batch));
    script
}

/// Encodes a step of folding for `fold.lua`.
pub(super) fn fold(step: &FoldStep<'_>, layout: &Layout<'_>) -> Invocation {
    let keys = layout.keys;
    let additions = step.additions;
    let mut script = Invocation::default();
    for key in [
        keys.state(),
        keys.journal(),
        keys.fold_lease(),
        keys.known(),
        keys.slowest(),
        keys.contexts(),
        keys.timers(),
        keys.quarantine(),
    ] {
        script.key(key);
    }
    script.arg(step.version);
    script.arg(step.next);
    script.arg(step.instance);
    script.arg(LEASE_MILLIS.to_string());
    script.arg(step.upto.map_or_else(String::new, |upto| upto.to_string()));
    script.arg(match (step.upto, step.done) {
        (None, _) => String::new(),
        (_, None) => "ALL".to_owned(),
        (_, Some(done)) => done.to_hex(),
    });
    // The script takes the first id that stays, which is the id after the last trimmed one.
    script.arg(step.trim.map_or_else(String::new, |last| {
        format!("{}-{}", last.offset, last.chain.saturating_add(1))
    }));
    script.arg(step.stamp.to_string());
    script.arg(iso_hour(hour_of(step.stamp)));
    script.arg(keys.count_prefix().len().to_string());
    script.arg(slowest::RANKING_LEN.to_string());
    script.arg(additions.late.to_string());
    script.arg(additions.skewed.to_string());
    script.arg(step.took_millis.to_string());
    script.arg(match step.done {
        Some(_) => "0".to_owned(),
        None => step.hole_bytes.to_string(),
    });
    script.arg(step.rolled.to_string());
    script.arg(additions.counters.len().to_string());
    script.arg(additions.statistics.len().to_string());
    let writes = writes(step, layout.keys);
    script.arg(writes.len().to_string());
    for slice in &additions.counters {
        add_counters(&mut script, layout, slice);
    }
    for added in &additions.statistics {
        add_statistics(&mut script, layout, added);
    }
    for write in writes {
        script.key(write.key);
        script.arg(write.command);
        script.arg(write.ttl.map_or_else(String::new, |ttl| ttl.to_string()));
        script.arg(write.args.len().to_string());
        write.args.into_iter().for_each(|arg| script.arg(arg));
    }
    script
}

/// A command that replaces fields of a key, in pairs or one by one, and renews the key's time to live.
struct Write {
    key: String,
    command: &'static str,
    ttl: Option<i64>,
    args: Vec<Vec<u8>>,
}

/// The tables as they are after a step.
fn writes(step: &FoldStep<'_>, keys: &Keys) -> Vec<Write> {
    let mut writes = Vec::new();
    let changed = step.fields.iter().filter(|fields| !fields.set.is_empty());
    // Of slices that share a place, the last one, which is the newest, is written last.
    let places = changed
        .filter_map(|fields| fields.table.slice())
        .flat_map(|at| {
            let revision = format!("{} {}", at.1, step.next);
            [place_of(at).into_bytes(), revision.into_bytes()]
        });
    let places: Vec<_> = places.collect();
    if !places.is_empty() {
        writes.push(Write {
            key: keys.revisions(),
            command: "HSET",
            ttl: Some(TIERS[TIERS.len() - 1].key_ttl()),
            args: places,
        });
    }
    for fields in step.fields {
        add_fields(&mut writes, fields, keys);
    }
    writes
}

/// Adds the commands that replace fields of a table.
fn add_fields(writes: &mut Vec<Write>, fields: &FieldWrites, keys: &Keys) {
    if fields.is_ended {
        // A large key takes long to be freed. The server does so by itself, one key at a time.
        let ended = keys.ended(&fields.table);
        let write = |key, command, arg: &str| Write {
            key,
            command,
            ttl: None,
            args: vec![arg.into()],
        };
        writes.push(write(keys.table(&fields.table), "RENAME", &ended));
        writes.push(write(ended, "EXPIRE", "1"));
        return;
    }
    let (set, remove) = match &fields.table {
        Table::RankingTotals { .. } => ("ZADD", "ZREM"),
        Table::RankingNewest { .. } => ("SET", "DEL"),
        _ => ("HSET", "HDEL"),
    };
    let is_empty = fields.set.is_empty() && fields.removed.is_empty();
    let mut add = |command, args: Vec<Vec<u8>>| {
        // Without a field, only the time to live is new.
        if !args.is_empty() || is_empty && command == set {
            writes.push(Write {
                key: keys.table(&fields.table),
                command,
                ttl: fields.ttl,
                args,
            });
        }
    };
    add(remove, fields.removed.clone());
    let pairs = fields.set.iter().cloned();
    let args = pairs.flat_map(|(field, value)| match set {
        "ZADD" => vec![value, field],
        "SET" => vec![value],
        _ => vec![field, value],
    });
    add(set, args.collect());
}

/// The field of a slice in the key of the revisions. Slices take turns, so that the key does not grow.
fn place_of((seconds, start): TierSlice) -> String {
    const PLACES: i64 = 256;
    let place = start.div_euclid(i64::from(seconds)).rem_euclid(PLACES);
    format!("{seconds}:{place}")
}

/// Whether a new slice lists all counters of the precision in `known:` again and renews their time to live, also
/// counters that are listed already. Doing so at every slice would cost more. Between two renewals a key loses no
/// more than the margin of its time to live.
fn renews(precision: Precision, slice: i64) -> bool {
    const MAX_SLICES: i64 = 16;
    let width = i64::from(precision.seconds);
    let margin = (precision.key_ttl() - precision.span()) / width;
    slice.div_euclid(width) % margin.clamp(1, MAX_SLICES) == 0
}

fn add_counters(script: &mut Invocation, layout: &Layout<'_>, slice: &CounterAdditions) {
    let precision = slice.precision;
    script.arg(slice.slice.to_string());
    script.arg(precision.span().to_string());
    script.arg(match layout.expire_idle_keys {
        true => precision.key_ttl().to_string(),
        false => String::new(),
    });
    script.arg(match renews(precision, slice.slice) {
        true => "1",
        false => "",
    });
    script.arg(slice.added.len().to_string());
    for (name, n) in &slice.added {
        script.key(layout.keys.count(precision.seconds, name));
        script.arg(n.to_string());
    }
}

fn add_statistics(script: &mut Invocation, layout: &Layout<'_>, added: &StatisticsAdditions) {
    let stats = layout.keys.stats(&added.context.name);
    script.key(stats.current);
    script.key(stats.start);
    script.key(stats.last);
    script.key(stats.pstart);
    script.arg(added.context.kind.as_str());
    script.arg(&*added.context.name);
    script.arg(added.last_seen.to_string());
    if !layout.book_keys {
        script.arg("0");
        return;
    }
    script.arg(added.hours.len().to_string());
    for (hour, times) in &added.hours {
        script.arg(hour.to_string());
        script.arg(iso_hour(*hour));
        for value in [times.count, times.sum, times.sumsq, times.min, times.max] {
            // `Debug` writes the shortest text that parses to the same number.
            script.arg(format!("{value:?}"));
        }
    }
}

impl Layout<'_> {
    pub(super) fn now_arg(&self) -> String {
        self.now.map_or_else(String::new, |now| now.to_string())
    }
}
