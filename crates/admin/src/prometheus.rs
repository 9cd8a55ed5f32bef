//! `metrics`, in the Prometheus text format 0.0.4 or in OpenMetrics. The text has metrics of this instance since it
//! started, and metrics of the fleet from the store. Only metrics of instances may be summed over instances.
//!
//! Read `format` (the choice of the format), `names` (the names of metrics) and `text` (the form of a line), then
//! `requests` and this file (the metrics).

mod format;
mod names;
mod requests;
mod text;

use std::sync::Arc;

use axum::response::Response;
use http::request::Parts;
use http::{HeaderValue, header};

use self::format::Format;
use self::names::Names;
use self::text::Text;
use super::response::ApiError;
use super::{Admin, response};
use tower_pulse_core::condition::Condition;
use tower_pulse_core::health::{Health, JournalHealth};
use tower_pulse_core::query::source;
use tower_pulse_core::recorder::totals::Totals;
use tower_pulse_core::store::judgement::ChangeLog;
use tower_pulse_detect::change::ChangeKind;
use tower_pulse_model::context::ALL;
use tower_pulse_model::order::InOrder;
use tower_pulse_model::snapshot::{FleetSnapshot, HourSnapshot};

const VARY: HeaderValue = HeaderValue::from_static("accept");

/// The counters `pulse_…_total` in health, each with its help text after a colon.
const COUNTERS: [&str; 14] = [
    "recorded:Samples that were recorded, lost ones included.",
    "dropped:Samples that came after the shutdown.",
    "lost:Samples that the store lost, or that a shutdown could not flush.",
    "recorded_additions:How much was added to counters and rankings.",
    "dropped_additions:How much was added to counters and rankings after the shutdown.",
    "lost_additions:How much of the additions to counters and rankings was lost.",
    "lost_details:Lost details: marks, entries in lists of slow and failed requests, a minute's figures.",
    "late:Samples too late for hourly keys that other programs read. Do not sum over instances.",
    "skewed:Refused samples: their time was over an hour ahead. Do not sum over instances.",
    "overflowed:Samples of contexts beyond max_contexts.",
    "quarantined:Omitted writes to keys with foreign values. Do not sum over instances.",
    "flush_errors:Calls to the store that failed.",
    "store_resets:Resets of the store that this instance has seen.",
    "replayed:Calls that were sent again.",
];

type Row = (Arc<str>, Totals);

/// Answers a scrape. A thread for blocking work writes the text, which takes milliseconds for 2,000 contexts.
pub(super) async fn metrics(admin: &Admin, parts: &Parts) -> Result<Response, ApiError> {
    let names = Names::parse(parts.uri.query())?;
    let format = Format::preferred(&parts.headers);
    let fleet = fleet(admin).await.ok();
    let query = admin.query.clone();
    let changes = source(&query).changes().await.ok();
    let totals = admin.source.instance.as_ref();
    let totals = totals.map(|instance| instance.totals.clone());
    let conditions = query.health().await.conditions;
    // The health of an instance includes the journal. A process that is no instance asks the store.
    let journal = match totals {
        Some(_) => None,
        None => {
            let status = source(&query).status().await.ok();
            status.and_then(|status| status.store.fold_health(false).journal)
        }
    };
    let write = move || {
        let mut totals = totals.map_or_else(Vec::new, |totals| totals());
        totals.order_by(|a, b| a.0.cmp(&b.0));
        let mut text = Text::with_capacity(totals.iter().map(capacity).sum(), format);
        if let Some(process) = &source(&query).process {
            text.requests(&totals, &source(&query).targets.of_paths, names);
            let mut counters: Vec<_> = process.counters().into_iter().collect();
            counters.order();
            text.counters(&counters);
            text.health(&process.health(), names);
        }
        let help = "Requests to the admin router with wrong credentials.";
        let wrong = source(&query).notices.wrong_credentials();
        text.single("pulse_wrong_credentials_total", help, &wrong);
        let name = "pulse_condition";
        let help = "1 while the condition lasts. `api/health` says what to do.";
        text.begin(name, help);
        for condition in &Condition::ALL {
            let is_ongoing = u8::from(conditions.contains(condition));
            text.sample(name, &[("name", condition.as_str())], &is_ongoing);
        }
        text.journal(journal.as_ref());
        text.fleet(fleet);
        text.changes(changes.as_deref());
        let text = text.into_bytes();
        response::body(text, format.content_type())
    };
    let written = tokio::task::spawn_blocking(write).await;
    // Joining fails if the runtime shuts down, or if the user's clock panics.
    let mut response = written
        .map_err(|error| ApiError::unavailable(format!("no metrics: {error}; see the log")))?;
    let headers = response.headers_mut();
    headers.insert(header::VARY, VARY);
    Ok(response)
}

/// The approximate bytes of a context's lines: those of its histogram and seven others.
fn capacity((context, _): &Row) -> usize {
    const LINES: usize = 24;
    LINES * (context.len() + 70)
}

/// The fleet according to the store: all requests of the hour, and the current activity.
struct Fleet {
    hour: Option<HourSnapshot>,
    contexts: usize,
    now: Arc<FleetSnapshot>,
}

async fn fleet(admin: &Admin) -> Result<Fleet, ApiError> {
    let source = source(&admin.query);
    let now = source.fleet().await?;
    // Reads only one context, so that a scrape of each instance costs little.
    let all = source.contexts(ALL).await?;
    Ok(Fleet {
        hour: all.iter().find_map(|all| all.hour.clone()),
        contexts: now.contexts + source.book().await?.foreign,
        now,
    })
}

impl Text {
    /// The user's counters. They are gauges, because they may fall, and a counter of Prometheus never falls.
    fn counters(&mut self, counters: &[(Arc<str>, i64)]) {
        let name = "pulse_counted";
        let help = "The sums of the counters of this instance since it started.";
        self.begin(name, help);
        for (counter, total) in counters {
            self.sample(name, &[("name", counter)], total);
        }
    }

    /// The ongoing changes; nothing if the store cannot be read.
    fn changes(&mut self, log: Option<&ChangeLog>) {
        let name = "pulse_changes";
        let help = "Ongoing changes of the fleet. Do not sum over instances.";
        self.begin(name, help);
        for kind in ChangeKind::ALL.into_iter().filter(|_| log.is_some()) {
            let changes = log.into_iter().flat_map(|log| &log.changes);
            let ongoing = changes.filter(|c| c.kind == kind && c.ended.is_none());
            self.sample(name, &[("kind", kind.as_str())], &ongoing.count());
        }
    }

    fn health(&mut self, health: &Health, names: Names) {
        let (recording, flush, fold) = (&health.recording, &health.flush, &health.fold);
        let name = "pulse_build_info";
        self.begin(name, "The version of tower-pulse.");
        self.sample(name, &[("version", env!("CARGO_PKG_VERSION"))], &1);
        let help = "Requests in flight.";
        self.single(names.in_flight(), help, &recording.in_flight);
        let help = "Contexts, counters, rankings and reports that wait to be flushed.";
        self.single("pulse_pending_series", help, &recording.pending_series);
        let (name, lag) = ("pulse_drain_lag_seconds", recording.drain_lag_seconds);
        let help = "How late the last samples came in.";
        self.single(name, help, &lag);
        if let Some(age) = &health.store.contact_age_seconds {
            let help = "Time since the store last answered.";
            self.single("pulse_store_contact_age_seconds", help, age);
        }
        self.journal(fold.journal.as_ref());
        // To Prometheus, a total that falls means a restart, so lost samples stay in the totals.
        let counts = [
            recording.recorded.saturating_add(flush.lost),
            recording.dropped,
            flush.lost,
            (recording.recorded_additions).saturating_add(flush.lost_additions),
            recording.dropped_additions,
            flush.lost_additions,
            flush.lost_details,
            fold.late,
            fold.skewed,
            recording.overflowed,
            fold.quarantined,
            flush.errors,
            flush.store_resets,
            flush.replayed,
        ];
        for (counter, count) in COUNTERS.into_iter().zip(counts) {
            let (name, help) = counter.split_once(':').unwrap_or_default();
            self.single(&format!("pulse_{name}_total"), help, &count);
        }
    }

    fn journal(&mut self, journal: Option<&JournalHealth>) {
        let Some(journal) = journal else { return };
        let help =
            "Bytes of the journal's entries that are not folded yet. Do not sum over instances.";
        self.single("pulse_fleet_journal_bytes", help, &journal.bytes);
        let age = journal.oldest_age_seconds.unwrap_or(0.0);
        let help = "Age of the oldest entry that is not folded yet. Do not sum over instances.";
        self.single("pulse_fleet_journal_age_seconds", help, &age);
    }

    /// Gauges from the store. If the store does not answer, only `pulse_store_up` is written.
    fn fleet(&mut self, fleet: Option<Fleet>) {
        let help = "Whether the store could be read.";
        self.single("pulse_store_up", help, &u8::from(fleet.is_some()));
        let Some(fleet) = fleet else { return };
        let (hour, now) = (fleet.hour.as_ref(), &fleet.now);
        let requests = hour.map_or(0, |hour| hour.times.count as u64);
        let errors = hour.map_or(0, |hour| hour.aggregate.outcomes.errors);
        let help = "Requests of the whole fleet in this hour. Do not sum over instances.";
        self.single("pulse_fleet_requests", help, &requests);
        let help = "Errors of the whole fleet in this hour. Do not sum over instances.";
        self.single("pulse_fleet_errors", help, &errors);
        let help = "Instances that are alive. Do not sum over instances.";
        self.single("pulse_fleet_instances", help, &now.instances);
        let help = "Requests in flight in the whole fleet. Do not sum over instances.";
        self.single("pulse_fleet_in_flight", help, &now.in_flight);
        let help = "Contexts of the whole fleet. Do not sum over instances.";
        self.single("pulse_fleet_contexts", help, &fleet.contexts);
    }
}
