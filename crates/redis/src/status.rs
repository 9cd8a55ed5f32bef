//! The status of the fleet: live instances, the journal, and the samples that folding could not use.

use std::sync::atomic::{AtomicI64, Ordering};

use redis::{Cmd, Pipeline, Value, pipe};

use super::RedisStore;
use super::connection::Role;
use super::error::is_permission;
use super::journal::position_of;
use super::script::{INSPECT, Invocation, or_empty};
use super::value::{bytes, float, int, items, number, pairs, problem, shown, text};
use tower_pulse_core::clock::Clock;
use tower_pulse_core::condition::{Condition, Warning};
use tower_pulse_core::error::Result;
use tower_pulse_core::health::JournalHealth;
use tower_pulse_core::skew::StoreTime;
use tower_pulse_core::store::table::Table;
use tower_pulse_core::store::{
    INSTANCE_TTL, MAX_QUARANTINED_KEYS, NewerEntry, Position, SilentInstance, StoreStatus,
};
use tower_pulse_core::task::lock;
use tower_pulse_model::entry::ENTRY_VERSION;
use tower_pulse_model::order::InOrder;
use tower_pulse_model::ranking::specs::CarriedSpecs;
use tower_pulse_model::snapshot::Problem;
use tower_pulse_model::tier::TIERS;

/// The longest name of an instance, in bytes.
const MAX_NAME_BYTES: isize = 300;
/// The number of quarantined keys that one command lists.
const QUARANTINE_AT_ONCE: usize = 1_000;

/// The seconds until the next listing after an empty one. The status is read up to once a second, but quarantined keys,
/// rankings with several configurations and silent instances are rare.
const NOTHING_LISTED_FOR: i64 = 4;

/// The most rankings with several configurations that are listed.
const MAX_MIXED_RANKINGS: usize = 20;

/// An instance is silent about this many seconds after its heartbeat was due.
const SILENT_AFTER: i64 = 5;
const MAX_SILENT: isize = 5;
/// The most live instances whose names are compared with the names of silent instances.
const MAX_COMPARED: isize = 100;

const FIELDS: [&str; 17] = [
    "created",
    "since",
    "head",
    "low",
    "oldest",
    "late",
    "skewed",
    "quarantined",
    "took",
    "set_aside",
    "hole",
    "orphaned",
    "folder",
    "newer",
    "untrimmed",
    "memory",
    "gone",
];

/// The seconds between two attempts to run a refused INFO, two checks of large keys, and two inspections by the folder.
const ASK_EVERY: i64 = 5;

/// Returns whether at least [`ASK_EVERY`] seconds have passed since `last`. If so, sets `last` to now.
fn take_turn(last: &AtomicI64, now: i64) -> bool {
    let is_recent = (0..ASK_EVERY).contains(&now.saturating_sub(last.load(Ordering::Relaxed)));
    if !is_recent {
        last.store(now, Ordering::Relaxed);
    }
    !is_recent
}

impl RedisStore {
    pub(super) fn untrimmed_warning(&self) -> Option<Warning> {
        let refusal = lock(&self.untrimmed).clone();
        // The rule must name the Redis user of the instances. A process that only reads has another user, so its rule
        // names no user.
        let user = Some(&self.connections.server_info).filter(|_| !self.options.is_read_only);
        let grant = user.map_or_else(|| "ACL SETUSER … +xtrim".into(), |user| user.grant("xtrim"));
        (!refusal.is_empty()).then(|| {
            Condition::Untrimmed.warning(format!(
                "XTRIM is denied ({refusal}), so folded entries stay in {}, and at `journal_bytes` instances keep \
                 their samples in memory: allow XTRIM with {grant}",
                self.keys.journal()
            ))
        })
    }

    pub(super) async fn read_status(&self, now: i64) -> Result<StoreStatus> {
        let mut pipeline = pipe();
        self.ask_status(&mut pipeline, now);
        let replies = self.connections.pipeline(Role::Write, &pipeline);
        self.status_of(now, replies.await?).await
    }

    /// Adds the commands whose replies [`status_of`](Self::status_of) takes.
    pub(super) fn ask_status(&self, pipeline: &mut Pipeline, now: i64) {
        let keys = &self.keys;
        pipeline.cmd("HMGET").arg(keys.state()).arg(&FIELDS[..]);
        pipeline.cmd("XLEN").arg(keys.journal());
        pipeline.getrange(keys.fold_lease(), 0, MAX_NAME_BYTES - 1);
        pipeline.zcount(keys.instances(), now.saturating_sub(INSTANCE_TTL), "+inf");
        pipeline.cmd("TIME");
        let last = *lock(&self.last_listing);
        let is_recent =
            |(at, _): (i64, _)| (0..NOTHING_LISTED_FOR).contains(&now.saturating_sub(at));
        if !last.is_some_and(is_recent) {
            self.ask_lists(pipeline, now);
        }
    }

    fn ask_lists(&self, pipeline: &mut Pipeline, now: i64) {
        let keys = &self.keys;
        // One command lists all quarantined keys, unless another program has added many.
        let quarantine = pipeline.cmd("HSCAN").arg(keys.quarantine());
        quarantine.arg(0).arg("COUNT").arg(QUARANTINE_AT_ONCE);
        let specs = pipeline.cmd("HSCAN").arg(keys.table(&Table::RankingSpecs));
        specs.arg(0).arg("COUNT").arg(MAX_MIXED_RANKINGS);
        let [from, to] = [INSTANCE_TTL, SILENT_AFTER].map(|ago| now.saturating_sub(ago));
        pipeline.zrangebyscore_limit_withscores(keys.instances(), from, to, 0, MAX_SILENT);
    }

    /// Reads the lists in these replies, and returns a status with nothing else: quarantined keys, rankings with
    /// several configurations, and silent instances. Without replies, asks the server for the lists if a key was
    /// quarantined since the last listing.
    async fn lists_of(
        &self,
        now: i64,
        quarantined: u64,
        mut replies: Vec<Result<Value, String>>,
    ) -> Result<StoreStatus> {
        if replies.is_empty() {
            let last = *lock(&self.last_listing);
            if last.is_some_and(|(_, before)| before == quarantined) {
                return Ok(StoreStatus::default());
            }
            let mut pipeline = pipe();
            self.ask_lists(&mut pipeline, now);
            let asked = self.connections.pipeline(Role::Write, &pipeline);
            replies = asked.await?;
        }
        if let Some(Err(reason)) = replies.first() {
            self.delete_own(&self.keys.quarantine(), reason).await?;
        }
        let reply = |at: usize| replies.get(at)?.as_ref().ok();
        let page = |at| items(reply(at)?).get(1);
        let mut listed = StoreStatus::default();
        listed.exceptions.quarantined_keys = page(0).map_or_else(Vec::new, problems);
        listed.ranking_warnings = page(1).map_or_else(Vec::new, ranking_warnings);
        listed.silent = self.silent_instances(reply(2), now).await?;
        let has_none = listed.exceptions.quarantined_keys.is_empty()
            && listed.ranking_warnings.is_empty()
            && listed.silent.is_empty();
        *lock(&self.last_listing) = has_none.then_some((now, quarantined));
        Ok(listed)
    }

    /// The instances with an old heartbeat, except instances that were restarted under the same name.
    async fn silent_instances(
        &self,
        late: Option<&Value>,
        now: i64,
    ) -> Result<Vec<SilentInstance>> {
        let late = late.into_iter().flat_map(pairs);
        let late = late.filter_map(|(id, at)| Some((text(id)?, float(at)? as i64)));
        let late: Vec<_> = late.collect();
        if late.is_empty() {
            return Ok(Vec::new());
        }
        let (instances, since) = (self.keys.instances(), now.saturating_sub(SILENT_AFTER) + 1);
        let alive = Cmd::zrangebyscore_limit(instances, since, "+inf", 0, MAX_COMPARED);
        let alive = self.connections.call(Role::Write, &alive).await?;
        let alive = items(&alive).iter().filter_map(text);
        let mut pipeline = pipe();
        for id in late.iter().map(|(id, _)| *id).chain(alive) {
            pipeline.hmget(self.keys.instance(id), &["name", "every"]);
        }
        let replies = self.connections.pipeline(Role::Write, &pipeline);
        let mut replies = replies.await?.into_iter().filter_map(Result::ok);
        let late: Vec<_> = late.into_iter().zip(replies.by_ref()).collect();
        let alive: Vec<_> = replies.collect();
        let silent = |((id, at), reply): &((&str, i64), Value)| {
            let [name, every] = items(reply) else {
                return None;
            };
            let seconds = now.saturating_sub(*at);
            let is_late = seconds >= int(every)?.saturating_add(SILENT_AFTER - 1);
            let has_name = |other| bytes(name).is_some() && items(other).first() == Some(name);
            let name = bytes(name).map_or_else(|| (*id).to_owned(), shown);
            (is_late && !alive.iter().any(has_name)).then_some(SilentInstance { name, seconds })
        };
        Ok(late.iter().filter_map(silent).collect())
    }

    /// Inspects the server from time to time on behalf of all instances. Called by the folder.
    pub(super) async fn inspect(&self, now: i64) {
        if !take_turn(&self.inspected_at, now) {
            return;
        }
        let keys = &self.keys;
        let server = self.connections.server();
        let is_known = server.is_some_and(|server| server.is_known());
        let at = (keys.state(), keys.quarantine(), keys.revisions());
        let mut script = Invocation::new(at, (keys.prefix(), now));
        script.arg(or_empty(is_known.then_some(1)));
        TIERS
            .iter()
            .for_each(|tier| script.arg((tier.seconds, tier.span())));
        // If the server fails, the next call fails too, and reports the error.
        if let Ok(reply) = self.connections.run(Role::Fold, &INSPECT, &script).await
            && let Some(refusal) = items(&reply).get(1).and_then(text)
            && is_permission(refusal)
        {
            self.connections.set_server("");
        }
    }

    /// The status in the replies to the commands of [`ask_status`](Self::ask_status).
    pub(super) async fn status_of(
        &self,
        now: i64,
        mut replies: Vec<Result<Value, String>>,
    ) -> Result<StoreStatus> {
        let is_known = self.connections.server().map(|server| server.is_known());
        if is_known == Some(false) && take_turn(&self.server_asked_at, now) {
            // If the server fails, the next call fails too, and reports the error.
            let _ = self.connections.ask_for_server().await;
        }
        if !self.large_keys.is_empty() && take_turn(&self.sizes_asked_at, now) {
            self.ask_large_keys().await;
        }
        let lists = replies.split_off(replies.len().min(5));
        let replies = replies.into_iter().map(|reply| reply.unwrap_or(Value::Nil));
        let replies: Vec<Value> = replies.collect();
        let [state, entries, folder, instances, time] = &replies[..] else {
            return Err(self.not_understood("the status"));
        };
        let state = items(state);
        let field = |name: &str| state.get(FIELDS.iter().position(|field| *field == name)?);
        let counted = |name| field(name).map_or(0, number);
        let seconds = |name| field(name).and_then(int);
        let position = |name| field(name).and_then(position_of).unwrap_or_default();
        let shown_text = |name| shown(field(name).and_then(bytes).unwrap_or_default());
        let (head, low) = (position("head"), position("low"));
        let oldest = seconds("oldest").filter(|_| head != low);
        *lock(&self.untrimmed) = shown_text("untrimmed");
        if let Some(memory) = field("memory").and_then(text) {
            self.connections.set_memory(memory);
        }
        let quarantined = counted("quarantined");
        let mut status = self.lists_of(now, quarantined, lists).await?;
        (status.exceptions.late, status.exceptions.skewed) = (counted("late"), counted("skewed"));
        status.exceptions.quarantined = quarantined;
        let created = seconds("created");
        let mut journal = JournalHealth::default();
        journal.entries = number(entries);
        journal.bytes = head.offset.saturating_sub(low.offset);
        journal.oldest_age_seconds = oldest.map(|at| now.saturating_sub(at).max(0) as f64);
        journal.folder = bytes(folder).filter(|id| !id.is_empty()).map(shown);
        let took = field("took").and_then(float);
        journal.last_fold_seconds = took.map(|millis| millis / 1e3);
        journal.set_aside = counted("set_aside");
        journal.hole_bytes = counted("hole");
        journal.orphaned = counted("orphaned");
        Ok(StoreStatus {
            as_of: oldest.unwrap_or(now).min(now),
            created,
            since: seconds("since").or(created),
            instances: number(instances),
            gone: shown_text("gone"),
            journal: Some(journal),
            newer: field("newer").and_then(|newer| newer_entry(text(newer)?, low)),
            time: self.time_of(time),
            ..status
        })
    }

    /// The time in the reply to TIME, unless the command was denied.
    fn time_of(&self, reply: &Value) -> Option<StoreTime> {
        let [seconds, micros] = items(reply) else {
            return None;
        };
        let nanos = match &self.clock {
            Some(clock) => clock.now_nanos(),
            None => int(seconds)?
                .saturating_mul(1_000_000_000)
                .saturating_add(int(micros)?.saturating_mul(1_000)),
        };
        let is_manual = self.clock.as_ref().is_some_and(Clock::is_manual);
        Some(StoreTime { nanos, is_manual })
    }
}

/// Parses the field `newer` of the state, which amend.lua and acquire.lua write about an entry of a newer version: id,
/// version, time and seconds of waiting.
fn newer_entry(newer: &str, low: Position) -> Option<NewerEntry> {
    let mut words = newer.split(' ');
    let position: Position = words.next()?.parse().ok()?;
    let version: u64 = words.next()?.parse().ok()?;
    let entry = NewerEntry {
        version,
        readable: u64::from(ENTRY_VERSION),
        waited: words.nth(1)?.parse().ok()?,
    };
    (position > low && version > entry.readable).then_some(entry)
}

fn ranking_warnings(hash: &Value) -> Vec<String> {
    let fields = pairs(hash).filter_map(|(name, specs)| Some((bytes(name)?, bytes(specs)?)));
    let mut warnings = CarriedSpecs::warnings(fields);
    warnings.truncate(MAX_MIXED_RANKINGS);
    warnings
}

/// The quarantined keys, oldest first. Each value ends with the number of the omitted write, by which the keys are
/// sorted.
fn problems(hash: &Value) -> Vec<Problem> {
    let mut problems: Vec<((u64, i64), Problem)> = pairs(hash)
        .filter_map(|(key, value)| {
            let (at, reason) = text(value)?.split_once(' ')?;
            let (reason, number) = reason.rsplit_once(" #")?;
            let order = (number.parse().ok()?, at.parse().ok()?);
            Some((order, problem(bytes(key)?, reason)))
        })
        .collect();
    problems.order_by(|(a, x), (b, y)| a.cmp(b).then_with(|| x.key.cmp(&y.key)));
    // HSCAN may return a key twice.
    problems.dedup();
    let problems = problems.into_iter().map(|(_, problem)| problem);
    problems.take(MAX_QUARANTINED_KEYS).collect()
}
