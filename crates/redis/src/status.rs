//! The status of the fleet: the instances that are alive, the journal, and the samples that folding could not
//! use.

use std::sync::Mutex;
use std::sync::atomic::Ordering;

use redis::{Pipeline, Value, pipe};

use super::RedisStore;
use super::connection::Role;
use super::error::is_permission;
use super::script::MEMORY;
use super::value::{bytes, int, items, pairs, problem, shown, text};
use tower_pulse_core::clock::Clock;
use tower_pulse_core::error::StoreError;
use tower_pulse_core::skew::StoreTime;
use tower_pulse_core::store::read;
use tower_pulse_core::store::table::Table;
use tower_pulse_core::store::{
    Exceptions, INSTANCE_TTL, JournalStatus, MAX_QUARANTINED_KEYS, NewerEntry, Position,
    StoreStatus,
};
use tower_pulse_core::task::lock;
use tower_pulse_model::entry::ENTRY_VERSION;
use tower_pulse_model::snapshot::Problem;

/// The longest name of an instance.
const MAX_NAME_BYTES: usize = 300;
/// Quarantined keys that are listed by one command.
const QUARANTINE_AT_ONCE: usize = 1_000;

/// Seconds after which keys in quarantine and rankings are listed again once there was nothing to tell of them. The status
/// is asked for each second, and hardly any service has such a key or ranking.
const NOTHING_LISTED_FOR: i64 = 5;

/// Rankings with several configurations that are listed, about.
const MAX_MIXED_RANKINGS: usize = 20;

const FIELDS: [&str; 16] = [
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
];

/// Seconds after which the server is asked again for what it has refused to tell about itself, and after which the folder
/// notes again what it does when its memory is full.
const ASKED_AFTER: i64 = 5;
const NOTED_AFTER: i64 = 10;

/// When there was last nothing to list, in Unix seconds, and how often a key had been quarantined by then.
#[derive(Debug, Default)]
pub(super) struct LastListing(Mutex<Option<(i64, u64)>>);

/// Why the server does not remove entries of the journal that are folded, as the folder has noted it; empty if it does.
#[derive(Debug, Default)]
pub(super) struct Untrimmed(Mutex<String>);

impl Untrimmed {
    pub(super) fn set(&self, refusal: &str) {
        let (mut noted, refusal) = (lock(&self.0), shown(refusal.as_bytes()));
        if noted.is_empty() && !refusal.is_empty() {
            tracing::warn!(%refusal, "entries that are folded cannot be removed; allow XTRIM");
        }
        *noted = refusal;
    }

    pub(super) fn refusal(&self) -> String {
        lock(&self.0).clone()
    }
}

/// What the operator should know of single keys.
#[derive(Debug, Default)]
struct Lists {
    quarantined_keys: Vec<Problem>,
    ranking_warnings: Vec<String>,
}

impl RedisStore {
    pub(super) fn untrimmed_warning(&self) -> Option<String> {
        let refusal = self.untrimmed.refusal();
        // The instances of a fleet have one user, and who only reads has another.
        let user = Some(self.connections.server_info()).filter(|_| !self.is_read_only);
        let grant = user.map_or_else(|| "ACL SETUSER … +xtrim".into(), |user| user.grant("xtrim"));
        (!refusal.is_empty()).then(|| {
            format!(
                "entries of {} that are folded stay there, and at `journal_bytes` instances hold their samples back, \
                 as XTRIM is denied ({refusal}): allow it with {grant}",
                self.keys.journal()
            )
        })
    }

    pub(super) async fn read_status(&self, now: i64) -> Result<StoreStatus, StoreError> {
        let mut pipeline = pipe();
        self.ask_status(&mut pipeline, now);
        let replies = self.connections.pipeline(Role::Write, &mut pipeline);
        self.status_of(now, replies.await?).await
    }

    /// Adds the commands to which [`status_of`](Self::status_of) takes the replies.
    pub(super) fn ask_status(&self, pipeline: &mut Pipeline, now: i64) {
        let keys = &self.keys;
        pipeline.cmd("HMGET").arg(keys.state()).arg(&FIELDS[..]);
        pipeline.cmd("XLEN").arg(keys.journal());
        let folder = pipeline.cmd("GETRANGE").arg(keys.fold_lease());
        folder.arg(0).arg(MAX_NAME_BYTES - 1);
        let instances = pipeline.cmd("ZCOUNT").arg(keys.instances());
        instances.arg(now.saturating_sub(INSTANCE_TTL)).arg("+inf");
        pipeline.cmd("TIME");
        let last = *lock(&self.last_listing.0);
        let is_recent =
            |(at, _): (i64, _)| (0..NOTHING_LISTED_FOR).contains(&now.saturating_sub(at));
        if !last.is_some_and(is_recent) {
            self.ask_lists(pipeline);
        }
    }

    fn ask_lists(&self, pipeline: &mut Pipeline) {
        let keys = &self.keys;
        // One command lists all quarantined keys, unless another program has added many.
        let quarantine = pipeline.cmd("HSCAN").arg(keys.quarantine());
        quarantine.arg(0).arg("COUNT").arg(QUARANTINE_AT_ONCE);
        let specs = pipeline.cmd("HSCAN");
        specs.arg(keys.table(&Table::RankingSpecs)).arg(0);
        specs.arg("COUNT").arg(MAX_MIXED_RANKINGS);
    }

    /// The lists by the replies about them. They are asked for if there are none, and a key was quarantined meanwhile.
    async fn lists_of(
        &self,
        now: i64,
        quarantined: u64,
        mut replies: Vec<Result<Value, String>>,
    ) -> Result<Lists, StoreError> {
        if replies.is_empty() {
            let last = *lock(&self.last_listing.0);
            if last.is_some_and(|(_, before)| before == quarantined) {
                return Ok(Lists::default());
            }
            let mut pipeline = pipe();
            self.ask_lists(&mut pipeline);
            replies = self
                .connections
                .pipeline(Role::Write, &mut pipeline)
                .await?;
        }
        if let Some(Err(reason)) = replies.first() {
            self.delete_own(Role::Write, &self.keys.quarantine(), reason)
                .await?;
        }
        let page = |at: usize| {
            let reply = replies.get(at)?.as_ref().ok()?;
            items(reply).get(1)
        };
        let lists = Lists {
            quarantined_keys: page(0).map_or_else(Vec::new, problems),
            ranking_warnings: page(1).map_or_else(Vec::new, ranking_warnings),
        };
        let has_none = lists.quarantined_keys.is_empty() && lists.ranking_warnings.is_empty();
        *lock(&self.last_listing.0) = has_none.then_some((now, quarantined));
        Ok(lists)
    }

    /// Asks the server about itself, unless that was done a moment ago: again for what it has refused to tell, or, for the
    /// instance that folds, what it does when its memory is full, which is noted for all.
    pub(super) async fn ask_about_server(&self, now: i64, is_folder: bool) {
        let is_known = self.connections.server().map(|server| server.is_known());
        let last = self.server_asked_at.load(Ordering::Relaxed);
        let is_recent = |seconds| (0..seconds).contains(&now.saturating_sub(last));
        if is_known != Some(is_folder)
            || is_recent(if is_folder { NOTED_AFTER } else { ASKED_AFTER })
        {
            return;
        }
        self.server_asked_at.store(now, Ordering::Relaxed);
        // The next call meets the errors of the server, too.
        if !is_folder {
            let _ = self.connections.ask_for_server().await;
        } else if let script = self.step(&[self.keys.state()], &[])
            && let Ok(reply) = self.connections.run(Role::Fold, &MEMORY, &script).await
            && let Some(refusal) = items(&reply).get(1).and_then(text)
            && is_permission(refusal)
        {
            self.connections.set_server("");
        }
    }

    /// The status by the replies to the commands of [`ask_status`](Self::ask_status).
    pub(super) async fn status_of(
        &self,
        now: i64,
        mut replies: Vec<Result<Value, String>>,
    ) -> Result<StoreStatus, StoreError> {
        self.ask_about_server(now, false).await;
        let lists = replies.split_off(replies.len().min(5));
        let replies: Vec<Value> = (replies.into_iter())
            .map(|reply| reply.unwrap_or(Value::Nil))
            .collect();
        let [state, entries, folder, instances, time] = &replies[..] else {
            return Err(self.not_understood("the status"));
        };
        let state = items(state);
        let field = |name: &str| {
            let at = FIELDS.iter().position(|field| *field == name)?;
            text(state.get(at)?)
        };
        let number = |name| field(name).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
        let position = |name| field(name).and_then(|id| id.parse::<Position>().ok());
        let (head, low) = (
            position("head").unwrap_or_default(),
            position("low").unwrap_or_default(),
        );
        let oldest = field("oldest").and_then(|at| at.parse::<i64>().ok());
        let oldest = oldest.filter(|_| head != low);
        let count = |value: &Value| int(value).and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
        self.untrimmed.set(field("untrimmed").unwrap_or_default());
        if let Some(memory) = field("memory") {
            self.connections.set_memory(memory);
        }
        let quarantined = number("quarantined");
        let lists = self.lists_of(now, quarantined, lists).await?;
        let seconds = |name| field(name).and_then(|at| at.parse::<i64>().ok());
        let created = seconds("created");
        Ok(StoreStatus {
            as_of: oldest.unwrap_or(now).min(now),
            created,
            since: seconds("since").or(created),
            gaps: Vec::new(),
            instances: count(instances),
            exceptions: Exceptions {
                late: number("late"),
                skewed: number("skewed"),
                quarantined,
                quarantined_keys: lists.quarantined_keys,
            },
            ranking_warnings: lists.ranking_warnings,
            journal: Some(JournalStatus {
                entries: count(entries),
                bytes: head.offset.saturating_sub(low.offset),
                oldest_age: oldest.map(|at| now.saturating_sub(at).max(0) as f64),
                folder: bytes(folder).filter(|id| !id.is_empty()).map(shown),
                last_fold: field("took")
                    .and_then(|millis| millis.parse::<f64>().ok())
                    .map(|millis| millis / 1e3),
                set_aside: number("set_aside"),
                hole_bytes: number("hole"),
                orphaned: number("orphaned"),
                newer: field("newer").and_then(|newer| waiting(newer, low)),
            }),
            time: self.time_of(time),
        })
    }
}

impl RedisStore {
    /// The time by the reply to TIME, unless that was denied.
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

/// Reads what acquire.lua notes of an entry of a newer version: id, version, time and seconds.
fn waiting(newer: &str, low: Position) -> Option<NewerEntry> {
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

/// What the operator should know of rankings with several configurations.
fn ranking_warnings(hash: &Value) -> Vec<String> {
    let fields = pairs(hash).filter_map(|(name, specs)| Some((bytes(name)?, bytes(specs)?)));
    let mut warnings = read::ranking_warnings(fields);
    warnings.truncate(MAX_MIXED_RANKINGS);
    warnings
}

/// The quarantined keys, oldest first.
fn problems(hash: &Value) -> Vec<Problem> {
    let mut problems: Vec<(i64, Problem)> = pairs(hash)
        .filter_map(|(key, value)| {
            let (at, reason) = text(value)?.split_once(' ')?;
            Some((at.parse().ok()?, problem(bytes(key)?, reason)))
        })
        .collect();
    problems.sort_by(|(a, x), (b, y)| a.cmp(b).then_with(|| x.key.cmp(&y.key)));
    // HSCAN may return a key twice.
    problems.dedup();
    let problems = problems.into_iter().map(|(_, problem)| problem);
    problems.take(MAX_QUARANTINED_KEYS).collect()
}
