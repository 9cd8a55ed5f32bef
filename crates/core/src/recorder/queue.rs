//! The queue in front of this process: how long a request has waited there, according to a header of the proxy.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::{HeaderMap, HeaderName};

use super::counter::Gauge;
use super::{ContextHandle, thread_number};
use crate::health::QueueHealth;
use tower_pulse_model::outcome::Outcome;
use tower_pulse_model::timer_sums::TimerSums;

/// The longest wait that is recorded. A longer wait is more likely due to a wrong clock, or to a client's own header.
const LONGEST_WAIT: i64 = 60_000_000_000;

/// The longest value that is read, in bytes: `t=`, 19 digits, a point, 9 digits, and some spaces.
const MAX_VALUE: usize = 40;

/// The header in which a proxy says when it received a request, and the timer that records the waits.
#[derive(Clone, Debug)]
pub struct Queue {
    header: HeaderName,
    timer: Arc<ContextHandle>,
}

/// The time that a request has waited in front of this process, according to its header.
#[derive(Clone, Debug)]
pub struct QueueTime {
    timer: Arc<ContextHandle>,
    wait: Wait,
}

/// The wait that a header implies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// Nanoseconds.
    Of(u64),
    /// The time in the header is later than the time of this process.
    Negative,
    /// The wait is longer than [`LONGEST_WAIT`].
    TooLong,
    /// The header is not a time.
    Unreadable,
}

/// Counts of the requests that have the header of a [`Queue`].
#[derive(Debug, Default)]
pub(super) struct QueueCounts {
    /// Requests whose wait was recorded. A [`Gauge`], because each request may have the header, and threads must not
    /// contend for the count.
    timed: Gauge,
    negative: AtomicU64,
    too_long: AtomicU64,
    unreadable: AtomicU64,
}

impl Queue {
    pub(super) fn new(header: HeaderName, timer: Arc<ContextHandle>) -> Self {
        Self { header, timer }
    }

    /// A clone whose timer has a reference count of its own.
    pub fn clone_unshared(&self) -> Self {
        Self {
            header: self.header.clone(),
            timer: self.timer.clone_unshared(),
        }
    }

    /// The wait of a request with these headers; `None` without the header. Allocates nothing.
    pub fn read(&self, headers: &HeaderMap) -> Option<QueueTime> {
        let value = headers.get(&self.header)?;
        let now = self.timer.recording().clock().wall_nanos();
        Some(QueueTime {
            timer: self.timer.clone(),
            wait: Wait::new(value.as_bytes(), now),
        })
    }
}

impl QueueTime {
    /// The wait in nanoseconds, if the header implies one.
    pub fn nanos(&self) -> Option<u64> {
        match self.wait {
            Wait::Of(nanos) => Some(nanos),
            Wait::Negative => Some(0),
            Wait::TooLong | Wait::Unreadable => None,
        }
    }

    /// Records the wait of a request under the request's context. The request must be recorded before.
    pub fn record(&self, context: &ContextHandle) {
        let counts = &context.recording().queue_counts;
        let add = |count: &AtomicU64| {
            count.fetch_add(1, Ordering::Relaxed);
        };
        match self.wait {
            Wait::Of(_) => {}
            Wait::Negative => add(&counts.negative),
            Wait::TooLong => add(&counts.too_long),
            Wait::Unreadable => add(&counts.unreadable),
        }
        let Some(nanos) = self.nanos() else {
            return;
        };
        counts.timed.add(thread_number(), 1);
        let duration = Duration::from_nanos(nanos);
        self.timer.record_measured(duration, Outcome::Completed);
        let sums = TimerSums {
            count: 1,
            requests: 1,
            sum: nanos,
            // The wait ends before the request's own time begins, so it covers no part of that time.
            covered: 0,
        };
        context.add_timers(0, [(self.timer.id, sums)]);
    }
}

impl QueueCounts {
    pub(super) fn stats(&self) -> QueueHealth {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        QueueHealth {
            timed: self.timed.sum().max(0).unsigned_abs(),
            negative: count(&self.negative),
            too_long: count(&self.too_long),
            unreadable: count(&self.unreadable),
        }
    }
}

impl Wait {
    fn new(value: &[u8], now: i64) -> Self {
        match nanos_in(value) {
            None => Self::Unreadable,
            Some(start) if start > now => Self::Negative,
            Some(start) if now.saturating_sub(start) > LONGEST_WAIT => Self::TooLong,
            Some(start) => Self::Of(now.saturating_sub(start).unsigned_abs()),
        }
    }
}

/// The time in a header, in nanoseconds since the Unix epoch: a decimal number of seconds, milliseconds, microseconds
/// or nanoseconds, distinguished by its size, with or without `t=` before it.
fn nanos_in(value: &[u8]) -> Option<i64> {
    if value.len() > MAX_VALUE {
        return None;
    }
    let value = value.trim_ascii();
    let number = value.strip_prefix(b"t=").unwrap_or(value).trim_ascii();
    let point = number.iter().position(|byte| *byte == b'.');
    let (whole, fraction) = number.split_at(point.unwrap_or(number.len()));
    let fraction = fraction.strip_prefix(b".").unwrap_or_default();
    let is_number = whole.iter().all(u8::is_ascii_digit);
    if !is_number || (point.is_some() && fraction.is_empty()) {
        return None;
    }
    let whole: i64 = std::str::from_utf8(whole).ok()?.parse().ok()?;
    // The unit follows from the size. Each limit is in the year 5138, or in 1973 if read in the next smaller unit.
    let mut unit: i64 = match whole {
        0..100_000_000_000 => 1_000_000_000,
        100_000_000_000..100_000_000_000_000 => 1_000_000,
        100_000_000_000_000..100_000_000_000_000_000 => 1_000,
        _ => 1,
    };
    let mut nanos = whole.checked_mul(unit)?;
    for byte in fraction {
        let digit = byte.is_ascii_digit().then(|| i64::from(byte - b'0'))?;
        unit /= 10;
        nanos = nanos.checked_add(digit * unit)?;
    }
    Some(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    /// 2023-11-14 22:13:20.123456 UTC.
    const NOW: i64 = 1_700_000_000_123_456_000;

    #[test]
    fn times_in_each_unit_are_read_and_other_texts_are_refused() {
        for (value, nanos) in [
            ("1700000000.123", 1_700_000_000_123_000_000),
            (" t=1700000000 ", 1_700_000_000_000_000_000),
            ("t=1700000000123", 1_700_000_000_123_000_000),
            ("1700000000123.5", 1_700_000_000_123_500_000),
            ("t=1700000000123456", NOW),
            ("1700000000123456789", 1_700_000_000_123_456_789),
            ("t=1700000000.1234567899999", 1_700_000_000_123_456_789),
            ("0", 0),
        ] {
            assert_eq!(nanos_in(value.as_bytes()), Some(nanos), "{value:?}");
        }
        let nonsense = "t= t=t=1700000000 T=1700000000 1700000000. .5 1.2.3 -1700000000 \
            +1700000000 1,700 1e9 0x10 now 1700000000s 99999999999999999999 9999999999999999999 \
            t=\u{661} 17000000000000000000000000000000000000000 \
            1700000000.12345678901234567890123456789012345";
        for value in nonsense.split(' ').chain(["", " "]) {
            assert_eq!(nanos_in(value.as_bytes()), None, "{value:?}");
        }
        assert_eq!(nanos_in(b"1700000000.\xff"), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn any_value_is_read_or_refused(value in vec(prop_oneof![30 => select(&b"0123456789.t="[..]), 1 => any::<u8>()], 0..48), now in any::<i64>()) {
            match Wait::new(&value, now) {
                Wait::Of(nanos) => prop_assert!(nanos <= LONGEST_WAIT as u64),
                Wait::Negative | Wait::TooLong => prop_assert!(nanos_in(&value).is_some()),
                Wait::Unreadable => prop_assert_eq!(nanos_in(&value), None),
            }
        }

        #[test]
        fn a_time_in_any_unit_is_read_as_it_was_written(micros in 200_000_000_000_000..4_000_000_000_000_000i64) {
            let (seconds, fraction) = (micros / 1_000_000, micros % 1_000_000);
            for (text, nanos) in [
                (format!("t={seconds}.{fraction:06}"), micros * 1_000),
                (format!("{}", micros / 1_000), micros / 1_000 * 1_000_000),
                (format!("t={micros}"), micros * 1_000),
            ] {
                prop_assert_eq!(nanos_in(text.as_bytes()), Some(nanos));
            }
        }
    }
}
