//! A verdict, made from an alarm that stands and the minutes since it began.

use super::history::{History, Tick};
use super::minute::{Verdict, all_id};
use super::page::Page;
use super::reference::{Past, means};
use super::scored::Tally;
use super::speed;
use super::state::{Alarm, AlarmKind, SharedMinutes};

impl Past {
    /// Requests per minute.
    pub(super) fn rate(&self) -> f64 {
        self.requests as f64 / f64::from(self.minutes.max(1))
    }

    pub(super) fn error_share(&self) -> f64 {
        self.errors as f64 / self.requests.max(1) as f64
    }

    /// Mean seconds per request.
    pub(super) fn mean(&self) -> f64 {
        self.micros as f64 * 1e-6 / self.requests.max(1) as f64
    }
}

/// Sums of some minutes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    pub(super) minutes: u32,
    pub(super) requests: u64,
    errors: u64,
    seconds: f64,
}

impl Sums {
    /// Of a page, between two minutes, the second excluded.
    pub(super) fn of(history: &History, from: Tick, to: Tick) -> Self {
        let mut sums = Self::default();
        for minute in history
            .minutes()
            .iter()
            .filter(|minute| (from..to).contains(&minute.tick))
        {
            sums.minutes += 1;
            sums.requests = sums.requests.saturating_add(u64::from(minute.requests));
            sums.errors = sums.errors.saturating_add(u64::from(minute.errors));
            sums.seconds += f64::from(minute.seconds);
        }
        sums
    }

    /// Of all pages, between two minutes, the second excluded.
    pub(super) fn of_all(shared: &SharedMinutes, from: Tick, to: Tick) -> Self {
        let mut sums = Self::default();
        for minute in shared
            .0
            .iter()
            .filter(|minute| (from..to).contains(&minute.tick))
        {
            sums.minutes += 1;
            sums.requests = sums.requests.saturating_add(minute.requests);
            sums.seconds += minute.micros as f64 * 1e-6;
        }
        sums
    }

    pub(super) fn error_share(&self) -> f64 {
        self.errors as f64 / self.requests.max(1) as f64
    }

    fn mean(&self) -> f64 {
        self.seconds / self.requests.max(1) as f64
    }

    fn rate(&self) -> f64 {
        self.requests as f64 / f64::from(self.minutes.max(1))
    }

    /// A past without a distribution.
    pub(super) fn past(&self, minutes: u32) -> Past {
        Past {
            minutes,
            requests: self.requests,
            errors: self.errors,
            micros: (self.seconds * 1e6) as u64,
            ..Past::default()
        }
    }
}

/// The chance of a normal deviate beyond this many standard deviations is at most `exp(-z²/2)`.
fn confidence(strength: u32) -> f64 {
    let z = f64::from(strength) / 100.0;
    1.0 - (-z * z / 2.0).exp()
}

/// What an alarm says at the end of minute `now`.
pub(super) fn verdict(
    alarm: &Alarm,
    page: Option<&Page>,
    shared: &SharedMinutes,
    now: Tick,
) -> Verdict {
    let since = match page {
        Some(page) => Sums::of(&page.history, alarm.since, now + 1),
        None if alarm.context == all_id() => Sums::of_all(shared, alarm.since, now + 1),
        None => Sums::default(),
    };
    let past = &alarm.past;
    let compared = |then: f64, now: f64, ratio: f64| Comparison {
        then,
        now,
        ratio,
        is_tail: false,
    };
    let comparison = match alarm.kind {
        AlarmKind::Slower | AlarmKind::Faster => compare_times(alarm, page, shared),
        AlarmKind::Failing => {
            let (then, now) = (past.error_share(), since.error_share());
            // A share that was zero was below that of one error.
            let least = then.max(0.5 / past.requests.max(1) as f64);
            compared(then, now, now / least)
        }
        AlarmKind::Surging => {
            let (then, now) = (past.rate(), since.rate());
            compared(then, now, now / then.max(1e-9))
        }
        AlarmKind::Silent => compared(past.rate(), 0.0, 0.0),
    };
    Verdict {
        context: alarm.context,
        kind: alarm.kind.into(),
        instance: None,
        since: i64::from(alarm.since) * 60,
        detected: (i64::from(alarm.detected) + 1) * 60,
        then: comparison.then,
        now: comparison.now,
        ratio: comparison.ratio,
        is_tail: comparison.is_tail,
        confidence: confidence(alarm.strength),
        requests: since.requests,
        rate_then: past.rate(),
        rate_now: since.rate(),
        mean_then: past.mean(),
        mean_now: since.mean(),
    }
}

/// A context compared with its past.
struct Comparison {
    then: f64,
    now: f64,
    ratio: f64,
    is_tail: bool,
}

/// Compares the times of a context that is slower or faster.
fn compare_times(alarm: &Alarm, page: Option<&Page>, shared: &SharedMinutes) -> Comparison {
    let Some((page, lens)) = page.and_then(|page| Some((page, page.lens.as_ref()?))) else {
        let ratio = match alarm.context == all_id() {
            true => (alarm.effect as f64 * 1e-6).exp(),
            false => 1.0,
        };
        let then = alarm.past.mean();
        return Comparison {
            then,
            now: then * ratio,
            ratio,
            is_tail: false,
        };
    };
    let mut tally = Tally::new();
    page.history
        .each(alarm.since, |_, packed| tally.add(packed));
    let (then, now) = (means(&lens.past.counts()), means(&tally.finish()));
    let size = speed::size(lens, shared, alarm.score, alarm.since);
    match size.is_tail {
        true => Comparison {
            then: then.1,
            now: now.1,
            ratio: now.1 / then.1.max(1e-9) / size.shared,
            is_tail: true,
        },
        false => Comparison {
            then: then.0,
            now: now.0,
            ratio: size.body,
            is_tail: false,
        },
    }
}
