//! Encodes calls and rounds as the keys and arguments of `append.lua` and `fold.lua`. The heads of the scripts describe
//! the arguments.

use super::RedisStore;
use super::keys::Keys;
use super::script::Invocation;
use tower_pulse_core::clock::Clock;
use tower_pulse_core::store::FencedBatch;
use tower_pulse_core::store::journal::FoldStep;
use tower_pulse_core::store::table::{FieldWrites, Table};
use tower_pulse_model::tier::{COARSEST, TIERS, TierSlice};
use tower_pulse_model::{entry, pack};

/// Time to live of the lease to fold, in milliseconds.
pub(super) const LEASE_MILLIS: u64 = 5_000;

impl RedisStore {
    /// The time that replaces the server's in tests.
    pub(super) fn now_arg(&self) -> String {
        let now = self.clock.as_ref().map(Clock::now_seconds);
        now.map_or_else(String::new, |now| now.to_string())
    }

    /// Encodes a call for `append.lua`.
    pub(super) fn encode_append(&self, call: &FencedBatch) -> Invocation {
        let keys = &self.keys;
        let mut script = Invocation::default();
        script.key(keys.state());
        script.key(keys.journal());
        script.key(keys.fold_lease());
        script.key(keys.old_journal());
        script.arg(&*call.generation);
        script.arg(&*call.instance);
        script.arg(call.seq.to_string());
        script.arg(call.previous.to_string());
        script.arg(self.journal_bytes.to_string());
        script.arg(entry::ENTRY_VERSION.to_string());
        script.arg(call.batch.requests_and_late().to_string());
        script.arg(self.now_arg());
        script.arg(entry::pack(&call.batch));
        let since = call.batch.since;
        script.arg(since.map_or_else(String::new, |since| since.to_string()));
        script.arg(COARSEST.span().to_string());
        script
    }

    /// Encodes a step of folding for `fold.lua`.
    pub(super) fn encode_step(&self, step: &FoldStep) -> Invocation {
        let keys = &self.keys;
        let additions = &*step.additions;
        let mut script = Invocation::default();
        script.key(keys.state());
        script.key(keys.journal());
        script.key(keys.fold_lease());
        script.arg(&*step.version);
        script.arg(&*step.next);
        script.arg(&*step.instance);
        script.arg(LEASE_MILLIS.to_string());
        script.arg(step.round_end.map_or_else(String::new, |at| at.to_string()));
        script.arg(match (step.round_end, step.done) {
            (None, _) => String::new(),
            (_, None) => "ALL".to_owned(),
            (_, Some(done)) => pack::to_hex(&done),
        });
        // The script takes the first id that stays: the one after the last trimmed id.
        script.arg(step.trim.map_or_else(String::new, |last| {
            format!("{}-{}", last.offset, last.chain.saturating_add(1))
        }));
        script.arg(step.newest_at.to_string());
        self.begin_additions(&mut script, step.newest_at);
        script.key(keys.quarantine());
        script.arg(additions.late.to_string());
        script.arg(additions.skewed.to_string());
        script.arg(step.took_millis.to_string());
        script.arg(match step.done {
            Some(_) => "0".to_owned(),
            None => step.hole_bytes.to_string(),
        });
        script.arg(pack::to_hex(&step.rolled));
        script.arg(additions.counters.len().to_string());
        script.arg(additions.statistics.len().to_string());
        let writes = writes(step, keys);
        script.arg(writes.len().to_string());
        self.encode_additions(&mut script, additions);
        for write in writes {
            script.key(write.key);
            script.arg(write.command);
            script.arg(write.ttl.map_or_else(String::new, |ttl| ttl.to_string()));
            script.arg(write.args.len().to_string());
            write.args.into_iter().for_each(|arg| script.arg(arg));
        }
        script
    }
}

/// A command that replaces fields of a key, in pairs or one by one, and renews the key's time to live.
struct Write {
    key: String,
    command: &'static str,
    ttl: Option<i64>,
    args: Vec<Vec<u8>>,
}

/// The writes that bring the tables to their content after a step.
fn writes(step: &FoldStep, keys: &Keys) -> Vec<Write> {
    let mut writes = Vec::new();
    let changed = step.fields.iter().filter(|fields| !fields.set.is_empty());
    // Of slices that share a place, the newest comes last and is kept.
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
    for fields in &*step.fields {
        add_fields(&mut writes, fields, keys);
    }
    writes
}

/// Adds the commands that replace fields of a table.
fn add_fields(writes: &mut Vec<Write>, fields: &FieldWrites, keys: &Keys) {
    if fields.is_ended {
        // Freeing a large key takes long. The server does so by itself, one key at a time.
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
        // Without a field, only the time to live is renewed.
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

/// The field of a slice in the key of the revisions. Slices share fields in rotation, so that the key does not grow.
fn place_of((seconds, start): TierSlice) -> String {
    const PLACES: i64 = 256;
    let place = start.div_euclid(i64::from(seconds)).rem_euclid(PLACES);
    format!("{seconds}:{place}")
}
