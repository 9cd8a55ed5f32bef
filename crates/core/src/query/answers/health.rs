//! The state of this process, with what only the store knows. It is answered whatever the state of the store.

use std::time::Duration;

use serde::Serialize;

use crate::condition::{Condition, conditions, texts};
use crate::health::{
    ChangeHealth, CleaningHealth, FlushHealth, FoldHealth, Health, RecordingHealth, Status,
    StoreHealth,
};
use crate::query::source::Source;
use crate::skew::{Skew, skew_warning};
use tower_pulse_detect::detector::Sight;
use tower_pulse_model::order::InOrder;
use tower_pulse_model::snapshot::Problem;
use tower_pulse_model::tiers::History;

/// How often the store is asked for its status while somebody looks.
const ASKED_EVERY: Duration = Duration::from_secs(1);

/// The version of this crate.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The status, the warnings and the losses: what changes seldom, so that a page that polls gets 304.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct HealthStatus {
    /// Whether the store answers, in one word.
    pub status: Status,
    /// Sentences for the operator. Each ends in what to do.
    pub warnings: Vec<String>,
    /// The conditions that these sentences are about.
    pub conditions: Vec<Condition>,
    /// What was not recorded; `None` in a process that is no instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recording: Option<RecordingLosses>,
    /// What did not reach the store; `None` in a process that is no instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flush: Option<FlushLosses>,
    /// What could not be folded.
    pub fold: FoldLosses,
    /// The days that the store keeps; `None` if it keeps none, or cannot be read.
    pub history: Option<HistoryHealth>,
}

/// The days that the store keeps, where `history` is asked for.
#[derive(Clone, Copy, Debug, Serialize)]
#[non_exhaustive]
pub struct HistoryHealth {
    /// How many days.
    pub days: u32,
    /// Since when they are kept, in Unix seconds; `None` if they were since the store has samples.
    pub since: Option<i64>,
}

impl HistoryHealth {
    fn new(History { days, since, .. }: History) -> Self {
        Self {
            days,
            since: (since > i64::MIN).then_some(since),
        }
    }
}

/// What was not recorded, as in [`RecordingHealth`](crate::health::RecordingHealth).
#[derive(Clone, Copy, Debug, Serialize)]
#[non_exhaustive]
pub struct RecordingLosses {
    /// Samples that came after the shutdown.
    pub dropped: u64,
    /// How much was added to counters and rankings after the shutdown.
    pub dropped_additions: u64,
    /// Requests that are counted as `<overflow>`.
    pub overflowed: u64,
    /// Requests whose wait in front was ignored: too long, or unreadable. `None` where no header tells of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_ignored: Option<u64>,
    /// Requests whose wait in front was negative, and counts as 0. `None` where no header tells of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_negative: Option<u64>,
}

/// What did not reach the store, as in [`FlushHealth`](crate::health::FlushHealth).
#[derive(Clone, Copy, Debug, Serialize)]
#[non_exhaustive]
pub struct FlushLosses {
    /// Samples that are lost.
    pub lost: u64,
    /// How much is lost of what was added to counters and rankings.
    pub lost_additions: u64,
    /// Minute reports, listed requests and marks that are lost.
    pub lost_details: u64,
    /// How often the store forgot this instance.
    pub store_resets: u64,
}

/// What could not be folded, as in [`FoldHealth`](crate::health::FoldHealth).
#[derive(Clone, Copy, Debug, Serialize)]
#[non_exhaustive]
pub struct FoldLosses {
    /// Samples too late for the statistics.
    pub late: u64,
    /// Samples from the store's future.
    pub skewed: u64,
    /// Parts of calls that were dropped for a key.
    pub quarantined: u64,
}

impl From<ProcessHealth> for HealthStatus {
    fn from(health: ProcessHealth) -> Self {
        let own = health.own.as_ref();
        Self {
            status: health.status,
            warnings: health.warnings,
            conditions: health.conditions,
            recording: own.map(|own| RecordingLosses {
                dropped: own.recording.dropped,
                dropped_additions: own.recording.dropped_additions,
                overflowed: own.recording.overflowed,
                queue_ignored: (own.recording.queue).map(|queue| queue.too_long + queue.unreadable),
                queue_negative: own.recording.queue.map(|queue| queue.negative),
            }),
            flush: own.map(|own| FlushLosses {
                lost: own.flush.lost,
                lost_additions: own.flush.lost_additions,
                lost_details: own.flush.lost_details,
                store_resets: own.flush.store_resets,
            }),
            fold: FoldLosses {
                late: health.fold.late,
                skewed: health.fold.skewed,
                quarantined: health.fold.quarantined,
            },
            history: None,
        }
    }
}

/// The state of this process, which may be an instance or a `Dashboard`.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ProcessHealth {
    /// Whether the store answers, in one word.
    pub status: Status,
    /// Sentences for the operator. Each ends in what to do.
    pub warnings: Vec<String>,
    /// The conditions that these sentences are about.
    pub conditions: Vec<Condition>,
    /// Name of this instance; `None` in a process that is no instance.
    pub instance: Option<String>,
    /// Requests to the admin routers of this process with wrong credentials. One without any is not counted.
    pub wrong_credentials: u64,
    /// What only an instance has.
    #[serde(flatten)]
    pub own: Option<OwnHealth>,
    /// Folding, of the whole fleet.
    pub fold: FoldHealth,
    /// Change detection, of the whole fleet.
    pub changes: ChangeHealth,
    /// The store.
    pub store: StoreHealth,
}

/// What only an instance has, as in [`Health`].
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct OwnHealth {
    /// The share of what was recorded that is not missing.
    pub completeness: f64,
    /// Recording.
    pub recording: RecordingHealth,
    /// Flushing.
    pub flush: FlushHealth,
    /// Cleaning.
    pub cleaning: CleaningHealth,
}

impl From<Health> for ProcessHealth {
    fn from(health: Health) -> Self {
        Self {
            status: health.status,
            warnings: health.warnings,
            conditions: health.conditions,
            instance: Some(health.instance),
            wrong_credentials: health.wrong_credentials,
            own: Some(OwnHealth {
                completeness: health.completeness,
                recording: health.recording,
                flush: health.flush,
                cleaning: health.cleaning,
            }),
            fold: health.fold,
            changes: health.changes,
            store: health.store,
        }
    }
}

/// The state of this process, with what only the store knows: [`Reader::health`](crate::query::Reader::health).
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct FullHealth {
    /// The state of this process.
    #[serde(flatten)]
    pub health: ProcessHealth,
    /// Reading.
    pub reading: ReadingHealth,
    /// The days that the store keeps; `None` if it keeps none, or cannot be read.
    pub history: Option<HistoryHealth>,
    /// The version of this crate.
    pub version: &'static str,
}

/// What could not be read.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ReadingHealth {
    /// Keys whose value has the wrong form.
    pub unreadable: Vec<Problem>,
}

/// What changes seldom.
pub(in crate::query) async fn status(source: &Source) -> HealthStatus {
    HealthStatus {
        history: history(source).await,
        ..of_process(source, &unreadable(source).await).await.into()
    }
}

/// The days that the store keeps.
async fn history(source: &Source) -> Option<HistoryHealth> {
    let tiers = source.reader.tiers().await.ok()?;
    tiers.history.map(HistoryHealth::new)
}

pub(in crate::query) async fn health(source: &Source) -> FullHealth {
    // If the store cannot be read, all other fields are still answered.
    let unreadable = unreadable(source).await;
    FullHealth {
        health: of_process(source, &unreadable).await,
        reading: ReadingHealth { unreadable },
        history: history(source).await,
        version: VERSION,
    }
}

/// The keys that could not be read.
async fn unreadable(source: &Source) -> Vec<Problem> {
    let (book, fleet) = tokio::join!(source.reader.book(), source.reader.fleet());
    let mut unreadable = book.map_or_else(|_| Vec::new(), |book| book.problems());
    unreadable.extend(fleet.iter().flat_map(|fleet| fleet.problems.clone()));
    unreadable
}

/// The most unreadable keys that are warned of.
const MAX_WARNED: usize = 5;

async fn of_process(source: &Source, unreadable: &[Problem]) -> ProcessHealth {
    let mut health: ProcessHealth = match &source.process {
        Some(process) => process.health().into(),
        None => of_the_fleet(source).await,
    };
    let keys = unreadable.iter().take(MAX_WARNED).map(|of| {
        let (key, reason) = (&of.key, &of.reason);
        Condition::UnreadableKey.warning(format!(
            "{key} cannot be read ({reason}): delete it, and look for the program that writes it"
        ))
    });
    let fleet = source.reader.fleet().await;
    let alive = fleet.iter().flat_map(|fleet| &fleet.alive);
    let others = alive.filter(|of| Some(&*of.instance) != health.instance.as_deref());
    let told = others.flat_map(|of| {
        let whose = format!("instance {}", of.instance);
        let cleaning = of.cleaning.iter();
        let cleaning = cleaning.map(|text| Condition::Cleaning.warning(format!("{whose}: {text}")));
        cleaning
            .chain(skew_warning(&whose, of.skew))
            .collect::<Vec<_>>()
    });
    let further: Vec<_> = keys.chain(told.take(MAX_WARNED)).collect();
    health.conditions.extend(conditions(&further));
    health.conditions.order();
    health.conditions.dedup();
    health.warnings.extend(texts(further));
    health
}

/// What a process can tell that only reads the store.
async fn of_the_fleet(source: &Source) -> ProcessHealth {
    let reader = &source.reader;
    let (status, changes) = tokio::join!(reader.status(), reader.changes());
    let (status, last_error) = match status {
        Ok(status) => (Some(status), None),
        Err(error) => (None, Some(error.to_string())),
    };
    let mut warnings = source.store.conditions();
    warnings.extend(source.notices.all(&source.clock));
    let store = status.as_ref().map(|status| &status.store);
    warnings.extend(
        store
            .into_iter()
            .flat_map(|store| store.warnings(&source.notices, &source.clock)),
    );
    let skew = reader.skew.as_ref().and_then(Skew::seconds);
    warnings.extend(skew_warning("this dashboard", skew));
    if store.is_some_and(|store| store.created.is_none()) {
        warnings.push(Condition::EmptyStore.warning(format!(
            "nothing is recorded in {} yet: start an instance of the service there, and look whether it has the same \
             prefix",
            source.store.describe()
        )));
    }
    let age = reader.contact_age();
    let (until, sight) = match &changes {
        Ok(log) => (log.judged_until(), log.judged.sight),
        Err(_) => (None, Sight::default()),
    };
    ProcessHealth {
        status: Status::at_age(age, ASKED_EVERY),
        conditions: conditions(&warnings),
        warnings: texts(warnings),
        instance: None,
        wrong_credentials: source.notices.wrong_credentials(),
        own: None,
        fold: store.map_or_else(FoldHealth::default, |store| store.fold_health(false)),
        changes: ChangeHealth::new(until, sight, source.clock.now_seconds()),
        store: StoreHealth {
            description: source.store.describe(),
            contact_age_seconds: age.map(|age| age.as_secs_f64()),
            last_error,
            clock_skew_seconds: skew,
        },
    }
}
