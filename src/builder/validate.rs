//! What is allowed in each field, and the errors that say so.

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

/// Contexts, and counters.
const NAMES: RangeInclusive<usize> = 1..=100_000;
/// Bytes of calls that may have to be sent again.
const REPLAY: RangeInclusive<usize> = 0..=1 << 30;
/// Bytes of what is pending, held or stored in this process.
const MEMORY: RangeInclusive<usize> = 1 << 20..=1 << 40;
/// Bytes of the journal.
const JOURNAL: RangeInclusive<usize> = 1 << 20..=1 << 30;
/// Slices of each precision.
const RETAINED: RangeInclusive<usize> = 1..=MAX_RETAINED as usize;
/// Seconds of a precision: up to a year.
const SECONDS: RangeInclusive<u32> = 1..=365 * 24 * 3_600;

impl Builder {
    pub(super) fn validate(&self) -> Result<(), BuildError> {
        if let [Some(first), Some(second)] = self.store_named_by {
            let allowed = format!("one store, and `{first}` has named one before: remove either");
            return Err(BuildError::new(second, "a second store", allowed));
        }
        let second = Duration::from_secs(1);
        let year = 365 * 24 * 3_600 * second;
        duration(
            "flush_interval",
            self.flush_interval.unwrap_or(Duration::from_secs(1)),
            second / 100,
            60 * second,
            "10 ms to 60 s",
        )?;
        duration(
            "clean_interval",
            self.clean_interval,
            second,
            3_600 * second,
            "1 s to 1 h",
        )?;
        duration(
            "ranking_retention",
            self.ranking_retention,
            60 * second,
            year,
            "1 min to 1 year",
        )?;
        duration(
            "context_retention",
            self.context_retention,
            3_600 * second,
            10 * year,
            "1 h to 10 years",
        )?;
        if let Some(length) = self.history {
            let day = 24 * 3_600 * second;
            let (least, most) = (LEAST_DAYS * day, MOST_DAYS * day);
            duration("history", length, least, most, "15 to 400 days")?;
        }
        duration(
            "shutdown_timeout",
            self.shutdown_timeout,
            Duration::ZERO,
            60 * second,
            "0 to 60 s",
        )?;
        let timeouts = [
            ("redis_connection_timeout", self.redis_connection_timeout),
            ("redis_response_timeout", self.redis_response_timeout),
        ];
        for (field, timeout) in timeouts {
            if let Some(timeout) = timeout {
                let (least, most) = (second / 100, 10 * second);
                duration(field, timeout, least, most, "10 ms to 10 s")?;
            }
        }
        if let Some(target) = self.targets.all {
            measurable("target", target)?;
        }
        self.validate_path_targets()?;
        if let Some(url) = &self.trace_url {
            trace_url::check(url)?;
        }
        number("retained_slices", self.retained_slices as usize, RETAINED)?;
        number("max_contexts", self.max_contexts, NAMES)?;
        number("max_counters", self.max_counters, NAMES)?;
        number("replay_bytes", self.replay_bytes, REPLAY)?;
        number("pending_bytes", self.pending_bytes, MEMORY)?;
        number("memory_bytes", self.memory_bytes, MEMORY)?;
        number("query_bytes", self.query_bytes, MEMORY)?;
        number("journal_bytes", self.journal_bytes as usize, JOURNAL)?;
        self.validate_precisions()?;
        self.parsed_queue_header()?;
        for name in &self.counters {
            check_counter("declare_counters", name)?;
        }
        for path in &self.ignore {
            if !path.starts_with('/') {
                let allowed = "a path or route template that begins with a slash";
                return Err(BuildError::new("ignore", format!("{path:?}"), allowed));
            }
        }
        if let Some(service) = &self.service
            && (service.is_empty() || service.len() > 100 || service.chars().any(char::is_control))
        {
            let allowed = "1 to 100 bytes without control characters";
            return Err(BuildError::new("service", format!("{service:?}"), allowed));
        }
        if let Some(prefix) = &self.prefix
            && (prefix.len() > 128 || prefix.chars().any(char::is_control))
        {
            let allowed = "at most 128 bytes without control characters";
            return Err(BuildError::new("prefix", format!("{prefix:?}"), allowed));
        }
        if let Some(name) = &self.instance
            && (!(1..=100).contains(&escape_hidden(name).len())
                || name.chars().any(char::is_control))
        {
            let allowed = "1 to 100 bytes without control characters";
            return Err(BuildError::new("instance", format!("{name:?}"), allowed));
        }
        if let Some(version) = &self.app_version
            && (!(1..=MAX_VERSION_BYTES).contains(&escape_hidden(version).len())
                || version.chars().any(char::is_control))
        {
            return Err(BuildError::new(
                "app_version",
                format!("{version:?}"),
                format!("1 to {MAX_VERSION_BYTES} bytes without control characters"),
            ));
        }
        self.validate_store()
    }

    /// The header of the queue in front.
    pub(super) fn parsed_queue_header(&self) -> Result<Option<HeaderName>, BuildError> {
        let parsed = self.queue_header.as_ref().map(|name| {
            HeaderName::try_from(name.as_str()).map_err(|_| {
                let allowed = "the name of a header, such as x-request-start";
                BuildError::new("queue_time_header", format!("{name:?}"), allowed)
            })
        });
        parsed.transpose()
    }

    /// A store refuses batches with other precisions than its own.
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
        let refuse = |value: &dyn std::fmt::Debug| {
            let allowed = "1 to 16 different numbers of seconds, each 1 to 31,536,000 (a year)";
            Err(BuildError::new("precisions", format!("{value:?}"), allowed))
        };
        let mut seconds = self.precisions.clone();
        seconds.order();
        seconds.dedup();
        if seconds.len() != self.precisions.len() || !(1..=MAX_PRECISIONS).contains(&seconds.len())
        {
            return refuse(&self.precisions);
        }
        if seconds.iter().any(|p| !SECONDS.contains(p)) {
            return refuse(&self.precisions);
        }
        Ok(())
    }
}

/// Refuses a duration that histograms do not tell apart from others.
pub(super) fn measurable(field: &'static str, value: Duration) -> Result<(), BuildError> {
    let (least, most) = (Duration::from_micros(1), Duration::from_secs(3_600));
    duration(field, value, least, most, "1 µs to 1 h")
}

fn duration(
    field: &'static str,
    value: Duration,
    least: Duration,
    most: Duration,
    allowed: &str,
) -> Result<(), BuildError> {
    if value < least || value > most {
        return Err(BuildError::new(
            field,
            format!("{value:?}"),
            format!("{allowed} is allowed"),
        ));
    }
    Ok(())
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
