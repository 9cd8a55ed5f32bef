//! Encodes the steps of rounds as the keys and arguments of `fold.lua`. The head of the script describes the arguments.

use redis::ToRedisArgs;

use super::RedisStore;
use super::script::{Invocation, or_empty};
use tower_pulse_core::clock::Clock;
use tower_pulse_core::store::Position;
use tower_pulse_core::store::journal::FoldStep;
use tower_pulse_core::store::table::{FieldWrites, Table};
use tower_pulse_model::pack;
use tower_pulse_model::tier::{TIERS, TierSlice};

pub(super) const LEASE_MILLIS: u64 = 5_000;

impl RedisStore {
    /// The time that replaces the server's clock in tests, or an empty text.
    pub(super) fn now_arg(&self) -> String {
        or_empty(self.clock.as_ref().map(Clock::now_seconds))
    }

    pub(super) fn encode_step(&self, step: &FoldStep) -> Invocation {
        let additions = &*step.additions;
        let mut script = self.lease_script((&step.version, &step.next, &step.instance));
        script.arg((LEASE_MILLIS, or_empty(step.round_end)));
        script.arg(match (step.round_end, step.done) {
            (None, _) => String::new(),
            (_, None) => "ALL".to_owned(),
            (_, Some(done)) => pack::to_hex(&done),
        });
        // The argument is the first id that stays: the id after the last trimmed id.
        let first = |last: Position| format!("{}-{}", last.offset, last.chain.saturating_add(1));
        script.arg((or_empty(step.trim.map(first)), step.newest_at));
        self.begin_additions(&mut script, step.newest_at);
        script.key(self.keys.quarantine());
        let hole_bytes = step.done.map_or(step.hole_bytes, |_| 0);
        script.arg((additions.late, additions.skewed));
        script.arg((step.took_millis, hole_bytes));
        script.arg(pack::to_hex(&step.rolled));
        script.arg((additions.counters.len(), additions.statistics.len()));
        let writes = self.encode_writes(step);
        script.arg(writes.keys().len());
        self.encode_additions(&mut script, additions);
        script.append(writes);
        script
    }

    /// The number of keys is the number of writes, because each write has one key.
    fn encode_writes(&self, step: &FoldStep) -> Invocation {
        let mut writes = Invocation::default();
        let changed = step.fields.iter().filter(|fields| !fields.set.is_empty());
        // If slices share a field of the revisions, the newest slice comes last, so that HSET keeps it.
        let slices = changed.filter_map(|fields| fields.table.slice());
        let revisions =
            slices.flat_map(|at| [revision_field(at), format!("{} {}", at.1, step.next)]);
        let revisions: Vec<String> = revisions.collect();
        if !revisions.is_empty() {
            let ttl = Some(TIERS[TIERS.len() - 1].key_ttl());
            writes.write(&self.keys.revisions(), "HSET", ttl, &revisions);
        }
        for fields in &*step.fields {
            self.encode_fields(&mut writes, fields);
        }
        writes
    }

    fn encode_fields(&self, writes: &mut Invocation, fields: &FieldWrites) {
        let (key, ttl) = (self.keys.table(&fields.table), fields.ttl);
        if fields.is_ended {
            // Freeing a large key takes long. The server frees expired keys later, between the commands of clients.
            let ended = self.keys.ended(&fields.table);
            writes.write(&key, "RENAME", None, &[&ended]);
            writes.write(&ended, "EXPIRE", None, &["1"]);
            return;
        }
        let (set, remove) = match &fields.table {
            Table::RankingTotals { .. } => ("ZADD", "ZREM"),
            Table::RankingNewest { .. } => ("SET", "DEL"),
            _ => ("HSET", "HDEL"),
        };
        if !fields.removed.is_empty() {
            writes.write(&key, remove, ttl, &fields.removed);
        }
        let args = fields.set.iter().flat_map(|(field, value)| match set {
            "ZADD" => vec![value, field],
            "SET" => vec![value],
            _ => vec![field, value],
        });
        let args: Vec<_> = args.collect();
        // Without a field to set or remove, only the time to live is renewed.
        if !args.is_empty() || fields.removed.is_empty() {
            writes.write(&key, set, ttl, &args);
        }
    }
}

impl Invocation {
    /// Adds a write: a command with its arguments, and the new time to live of the key.
    fn write<T: ToRedisArgs>(&mut self, key: &str, command: &str, ttl: Option<i64>, args: &[T]) {
        self.key(key);
        self.arg((command, or_empty(ttl), args.len(), args));
    }
}

/// The field of a slice in the key of the revisions. Each tier has 256 fields for its slices, in rotation, so that the
/// key does not grow.
fn revision_field((seconds, start): TierSlice) -> String {
    const FIELDS: i64 = 256;
    let number = start.div_euclid(i64::from(seconds)).rem_euclid(FIELDS);
    format!("{seconds}:{number}")
}
