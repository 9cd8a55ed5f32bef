//! The health of this process, with facts that only the store knows. The answer comes even if the store fails.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::condition::{Condition, conditions, texts};
use crate::health::{ChangeHealth, FoldHealth, Health, Status, StoreHealth};
use crate::query::source::Source;
use crate::skew::{Skew, skew_warning};
use tower_pulse_model::order::InOrder;
use tower_pulse_model::snapshot::Problem;
use tower_pulse_model::tiers::History;

/// While a dashboard is open, the store is asked for its status at this interval.
const ASKED_EVERY: Duration = Duration::from_secs(1);

/// Counts by name.
type Losses = BTreeMap<&'static str, u64>;

/// The part of the health that seldom changes: the status, the warnings and the losses. A dashboard that polls this
/// answer usually gets a response with status 304.
#[derive(Debug, Serialize)]
pub struct HealthStatus {
    /// Whether the store answers.
    status: Status,
    /// Warnings for the operator. Most warnings name a remedy.
    warnings: Vec<String>,
    /// The conditions that the warnings are about.
    pub conditions: Vec<Condition>,
    /// `dropped`, `dropped_additions` and `overflowed` of [`RecordingHealth`](crate::health::RecordingHealth), and the
    /// numbers of ignored and of negative waits in its `queue`, as `queue_ignored` and `queue_negative`.
    #[serde(skip_serializing_if = "Option::is_none")]
    recording: Option<Losses>,
    /// `lost`, `lost_additions`, `lost_details` and `store_resets` of [`FlushHealth`](crate::health::FlushHealth).
    #[serde(skip_serializing_if = "Option::is_none")]
    flush: Option<Losses>,
    /// `late`, `skewed` and `quarantined` of [`FoldHealth`].
    fold: Losses,
    /// The days of history; `None` without history, or if the store cannot be read.
    history: Option<HistoryHealth>,
}

/// The days of history that the store keeps.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct HistoryHealth {
    /// The number of days.
    pub days: u32,
    /// The start of the history, in Unix seconds; `None` if the history is as old as the store's samples.
    pub since: Option<i64>,
}

/// The health of this process, with the facts that only the store knows.
///
/// The answer of [`Reader::health`](crate::query::Reader::health).
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct FullHealth {
    /// The health of this process.
    #[serde(flatten)]
    pub health: Health,
    /// The keys whose value has the wrong form. In JSON, an object with the list `unreadable` of [`Problem`].
    #[serde(rename = "reading", serialize_with = "reading")]
    pub unreadable: Vec<Problem>,
    /// The days of history; `None` without history, or if the store cannot be read.
    pub history: Option<HistoryHealth>,
    /// The version of this crate.
    pub version: &'static str,
}

fn reading<S: Serializer>(unreadable: &[Problem], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map([("unreadable", unreadable)])
}

pub(in crate::query) async fn status(source: &Source) -> HealthStatus {
    let health = of_process(source, &unreadable(source).await).await;
    let is_of_instance = health.is_of_instance();
    let (recording, flush) = (&health.recording, &health.flush);
    let queue = recording.queue.iter().flat_map(|queue| {
        [
            ("queue_ignored", queue.too_long + queue.unreadable),
            ("queue_negative", queue.negative),
        ]
    });
    let recording = [
        ("dropped", recording.dropped),
        ("dropped_additions", recording.dropped_additions),
        ("overflowed", recording.overflowed),
    ];
    let flush = [
        ("lost", flush.lost),
        ("lost_additions", flush.lost_additions),
        ("lost_details", flush.lost_details),
        ("store_resets", flush.store_resets),
    ];
    HealthStatus {
        recording: is_of_instance.then(|| recording.into_iter().chain(queue).collect()),
        flush: is_of_instance.then(|| flush.into()),
        fold: Losses::from([
            ("late", health.fold.late),
            ("skewed", health.fold.skewed),
            ("quarantined", health.fold.quarantined),
        ]),
        history: history(source).await,
        status: health.status,
        warnings: health.warnings,
        conditions: health.conditions,
    }
}

async fn history(source: &Source) -> Option<HistoryHealth> {
    let History { days, since, .. } = source.tiers().await.ok()?.history?;
    let since = (since > i64::MIN).then_some(since);
    Some(HistoryHealth { days, since })
}

pub(in crate::query) async fn health(source: &Source) -> FullHealth {
    // If the store cannot be read, `unreadable` is empty, and `history` is `None`.
    let unreadable = unreadable(source).await;
    FullHealth {
        health: of_process(source, &unreadable).await,
        unreadable,
        history: history(source).await,
        version: env!("CARGO_PKG_VERSION"),
    }
}

async fn unreadable(source: &Source) -> Vec<Problem> {
    let (book, fleet) = tokio::join!(source.book(), source.fleet());
    let mut unreadable = book.map_or_else(|_| Vec::new(), |book| book.problems());
    unreadable.extend(fleet.iter().flat_map(|fleet| fleet.problems.clone()));
    unreadable
}

/// At most this many warnings are about unreadable keys, and at most as many about other instances.
const MAX_WARNED: usize = 5;

async fn of_process(source: &Source, unreadable: &[Problem]) -> Health {
    let mut health = match &source.process {
        Some(process) => process.health(),
        None => of_the_fleet(source).await,
    };
    health.cost.reader_bytes = source.held_bytes();
    let keys = unreadable.iter().take(MAX_WARNED).map(|problem| {
        let (key, reason) = (&problem.key, &problem.reason);
        Condition::UnreadableKey.warning(format!(
            "a key cannot be read: {key} ({reason}); delete it, and find the program that writes it"
        ))
    });
    let fleet = source.fleet().await;
    let alive = fleet.iter().flat_map(|fleet| &fleet.alive);
    let others = alive.filter(|other| *other.instance != *health.instance);
    let reported = others.flat_map(|other| {
        let whose = format!("instance {}", other.instance);
        let cleaning = other.cleaning.iter();
        let cleaning = cleaning.map(|text| Condition::Cleaning.warning(format!("{whose}: {text}")));
        cleaning
            .chain(skew_warning(&whose, other.skew))
            .collect::<Vec<_>>()
    });
    let further: Vec<_> = keys.chain(reported.take(MAX_WARNED)).collect();
    health.conditions.extend(conditions(&further));
    health.conditions.order();
    health.conditions.dedup();
    health.warnings.extend(texts(further));
    health
}

/// The health, in a process that only reads the store.
async fn of_the_fleet(source: &Source) -> Health {
    let (status, changes) = tokio::join!(source.status(), source.changes());
    let last_error = status.as_ref().err().map(ToString::to_string);
    let (status, log) = (status.ok(), changes.unwrap_or_default());
    let mut warnings = source.store.conditions();
    warnings.extend(source.notices.all(&source.clock));
    let store = status.as_ref().map(|status| &status.store);
    if let Some(store) = store {
        warnings.extend(store.warnings(&source.notices, &source.clock));
    }
    let skew = source.skew.as_ref().and_then(Skew::seconds);
    warnings.extend(skew_warning("this dashboard", skew));
    if store.is_some_and(|store| store.created.is_none()) {
        warnings.push(Condition::EmptyStore.warning(format!(
            "nothing is recorded in {} yet: start an instance of the service there, and look whether it has the same \
             prefix",
            source.store.describe()
        )));
    }
    let age = source.contact_age();
    let (until, coverage) = (log.judged_until(), log.judged.coverage);
    Health {
        status: Status::at_age(age, ASKED_EVERY),
        conditions: conditions(&warnings),
        warnings: texts(warnings),
        wrong_credentials: source.notices.wrong_credentials(),
        fold: store.map_or_else(FoldHealth::default, |store| store.fold_health(false)),
        changes: ChangeHealth::new(until, coverage, source.clock.now_seconds()),
        store: StoreHealth {
            description: source.store.describe(),
            contact_age_seconds: age.map(|age| age.as_secs_f64()),
            last_error,
            clock_skew_seconds: skew,
        },
        ..Health::default()
    }
}
