//! The ranges of the settings, and the errors for values out of range.

use std::ops::RangeInclusive;
use std::time::Duration;

use http::HeaderName;

use super::{Backend, Builder, trace_url};
use tower_pulse_core::error::BuildError;
use tower_pulse_core::recorder::check_counter;
use tower_pulse_model::context::escape_hidden;
use tower_pulse_model::fleet::MAX_VERSION_BYTES;
use tower_pulse_model::order::InOrder;
use tower_pulse_model::slice::{MAX_PRECISIONS, MAX_RETAINED};
use tower_pulse_model::tiers::{LEAST_DAYS, MOST_DAYS};

/// The range of `max_contexts` and of `max_counters`.
const NAMES: RangeInclusive<usize> = 1..=100_000;
const REPLAY: RangeInclusive<usize> = 0..=1 << 30;
const MEMORY: RangeInclusive<usize> = 1 << 20..=1 << 40;
const JOURNAL: RangeInclusive<usize> = 1 << 20..=1 << 30;
const RETAINED: RangeInclusive<usize> = 1..=MAX_RETAINED as usize;
/// The range of a precision, in seconds: up to a year.
const SECONDS: RangeInclusive<u32> = 1..=365 * 24 * 3_600;

impl<Of> Builder<Of> {
    pub(super) fn validate(&self) -> Result<(), BuildError> {
        if let [first, .., second] = self.store_set_by[..] {
            let allowed = format!("`{first}` has set one before: keep only one");
            return Err(BuildError::new(second, "a second store", allowed));
        }
        const S: Duration = Duration::from_secs(1);
        const DAY: Duration = Duration::from_secs(24 * 3_600);
        let (to_minute, days) = (Duration::ZERO..=60 * S, LEAST_DAYS * DAY..=MOST_DAYS * DAY);
        let (to_year, to_decade) = (60 * S..=365 * DAY, 3_600 * S..=3_650 * DAY);
        let (options, limits) = (&self.options, &self.options.limits);
        let (flush, clean) = (options.flush.interval, Some(options.clean_interval));
        let (retention, shutdown) = (&options.retention, Some(options.shutdown_timeout));
        let [ranking, context] =
            [retention.ranking_retention, retention.context_retention].map(Some);
        for (field, value, range, allowed) in [
            ("flush_interval", flush, S / 100..=60 * S, "10 ms to 60 s"),
            ("clean_interval", clean, S..=3_600 * S, "1 s to 1 h"),
            ("ranking_retention", ranking, to_year, "1 min to 1 year"),
            ("context_retention", context, to_decade, "1 h to 10 years"),
            ("history", self.history, days, "15 to 400 days"),
            ("shutdown_timeout", shutdown, to_minute, "0 to 60 s"),
        ] {
            duration(field, value, range, allowed)?;
        }
        for (field, value) in [
            ("redis_connection_timeout", self.redis_connection_timeout),
            ("redis_response_timeout", self.redis_response_timeout),
        ] {
            duration(field, value, S / 100..=10 * S, "10 ms to 10 s")?;
        }
        if let Some(target) = options.targets.all {
            measurable("target", target)?;
        }
        self.validate_path_targets()?;
        if let Some(url) = &self.trace_url {
            trace_url::check(url)?;
        }
        number("retained_slices", self.retained_slices as usize, RETAINED)?;
        number("max_contexts", limits.max_contexts, NAMES)?;
        number("max_counters", limits.max_counters, NAMES)?;
        number("replay_bytes", options.flush.replay_bytes, REPLAY)?;
        number("pending_bytes", limits.pending_bytes, MEMORY)?;
        number("memory_bytes", self.memory_bytes, MEMORY)?;
        number("query_bytes", options.query_bytes, MEMORY)?;
        number("journal_bytes", self.journal_bytes as usize, JOURNAL)?;
        self.validate_precisions()?;
        self.parsed_queue_header()?;
        for name in &options.counters {
            check_counter("declare_counters", name)?;
        }
        for path in &self.ignore {
            if !path.starts_with('/') {
                let allowed = "must be a path or route template that begins with a slash";
                return Err(BuildError::new("ignore", format!("{path:?}"), allowed));
            }
        }
        let (service, prefix) = (self.service.as_deref(), self.prefix.as_deref());
        let (name, version) = (options.flush.name.as_deref(), limits.app_version.as_deref());
        let plain: fn(&str) -> usize = str::len;
        let escaped: fn(&str) -> usize = |text| escape_hidden(text).len();
        for (field, text, length, bytes, allowed) in [
            ("service", service, plain, 1..=100, "1 to 100"),
            ("prefix", prefix, plain, 0..=128, "at most 128"),
            ("instance", name, escaped, 1..=100, "1 to 100"),
            (
                "app_version",
                version,
                escaped,
                1..=MAX_VERSION_BYTES,
                "1 to 200",
            ),
        ] {
            if let Some(text) = text
                && (!bytes.contains(&length(text)) || text.chars().any(char::is_control))
            {
                let allowed = format!("must have {allowed} bytes without control characters");
                return Err(BuildError::new(field, format!("{text:?}"), allowed));
            }
        }
        self.validate_store()
    }

    pub(super) fn parsed_queue_header(&self) -> Result<Option<HeaderName>, BuildError> {
        let parsed = self.queue_header.as_ref().map(|name| {
            HeaderName::try_from(name.as_str()).map_err(|_| {
                let allowed = "must be the name of a header, such as x-request-start";
                BuildError::new("queue_time_header", format!("{name:?}"), allowed)
            })
        });
        parsed.transpose()
    }

    /// Checks that a store that was opened elsewhere has the precisions of this builder, because a store refuses
    /// batches with other precisions.
    fn validate_store(&self) -> Result<(), BuildError> {
        let Backend::Custom(store) = &self.backend else {
            return Ok(());
        };
        let (theirs, ours) = (store.precisions(), self.all_precisions());
        if *theirs != ours {
            let value = format!("a store with the precisions {theirs}");
            let allowed = format!("a store with those of this builder is allowed: {ours}");
            return Err(BuildError::new("store", value, allowed));
        }
        Ok(())
    }

    fn validate_precisions(&self) -> Result<(), BuildError> {
        let mut seconds = self.precisions.clone();
        seconds.order();
        seconds.dedup();
        let is_allowed = seconds.len() == self.precisions.len()
            && (1..=MAX_PRECISIONS).contains(&seconds.len())
            && seconds.iter().all(|p| SECONDS.contains(p));
        if !is_allowed {
            let value = format!("{:?}", self.precisions);
            let allowed =
                "must be 1 to 16 different numbers of seconds, each 1 to 31,536,000 (a year)";
            return Err(BuildError::new("precisions", value, allowed));
        }
        Ok(())
    }
}

/// Refuses a duration outside the range of the histograms' buckets.
pub(super) fn measurable(field: &'static str, value: Duration) -> Result<(), BuildError> {
    let range = Duration::from_micros(1)..=Duration::from_secs(3_600);
    duration(field, Some(value), range, "1 µs to 1 h")
}

fn duration(
    field: &'static str,
    value: Option<Duration>,
    range: RangeInclusive<Duration>,
    allowed: &str,
) -> Result<(), BuildError> {
    let Some(value) = value.filter(|value| !range.contains(value)) else {
        return Ok(());
    };
    let allowed = format!("{allowed} is allowed");
    Err(BuildError::new(field, format!("{value:?}"), allowed))
}

fn number(
    field: &'static str,
    value: usize,
    allowed: RangeInclusive<usize>,
) -> Result<(), BuildError> {
    if allowed.contains(&value) {
        return Ok(());
    }
    let (least, most) = allowed.into_inner();
    let allowed = format!("{least} to {most} is allowed");
    Err(BuildError::new(field, value, allowed))
}
