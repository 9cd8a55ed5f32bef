//! A verdict, derived from an ongoing alarm and the minutes since it began.

use super::change::ChangeKind;
use super::cost::{Cost, Pace, Weighted, agreeing, differs, ratio};
use super::detector::Detector;
use super::history::{Counts, Minutes, STORED, Tick};
use super::minute::{Verdict, all_id};
use super::reference::{Means, Past};
use super::scored::Tally;
use super::speed;
use super::state::{Alarm, SharedMinutes};
use tower_pulse_model::records::RecordId;

impl Past {
    /// Requests per minute.
    pub(crate) fn rate(&self) -> f64 {
        self.requests as f64 / f64::from(self.minutes.max(1))
    }

    pub(crate) fn error_share(&self) -> f64 {
        self.errors as f64 / self.requests.max(1) as f64
    }

    /// Mean seconds per request.
    pub(crate) fn mean(&self) -> f64 {
        self.micros as f64 * 1e-6 / self.requests.max(1) as f64
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sums {
    pub(crate) minutes: u32,
    pub(crate) requests: u64,
    errors: u64,
    seconds: f64,
}

impl Sums {
    /// Adds up a page's minutes from `from` to before `to`.
    pub(crate) fn of(minutes: &Minutes, from: Tick, to: Tick) -> Self {
        let mut sums = Self::default();
        let minutes = minutes.iter();
        for minute in minutes.filter(|minute| (from..to).contains(&minute.tick)) {
            sums.minutes += 1;
            sums.requests = sums.requests.saturating_add(u64::from(minute.requests));
            sums.errors = sums.errors.saturating_add(u64::from(minute.errors));
            sums.seconds += f64::from(minute.seconds);
        }
        sums
    }

    /// Adds up the minutes of all pages from `from` to before `to`.
    pub(crate) fn of_all(shared: &SharedMinutes, from: Tick, to: Tick) -> Self {
        let mut sums = Self::default();
        for minute in shared.within(from..to) {
            sums.minutes += 1;
            sums.requests = sums.requests.saturating_add(minute.requests);
            sums.seconds += minute.micros as f64 * 1e-6;
        }
        sums
    }

    pub(crate) fn error_share(&self) -> f64 {
        self.errors as f64 / self.requests.max(1) as f64
    }

    /// Mean seconds per request.
    pub(crate) fn mean(&self) -> f64 {
        self.seconds / self.requests.max(1) as f64
    }

    /// A past without a distribution.
    pub(crate) fn past(&self) -> Past {
        Past {
            minutes: self.minutes,
            requests: self.requests,
            errors: self.errors,
            micros: (self.seconds * 1e6) as u64,
            ..Past::default()
        }
    }
}

/// The confidence of a strength in hundredths of a standard deviation. A normal deviate exceeds `z` standard deviations
/// with a probability of at most `exp(-z²/2)`.
pub(crate) fn confidence(strength: u32) -> f64 {
    let z = f64::from(strength) / 100.0;
    1.0 - (-z * z / 2.0).exp()
}

/// Replaces a rate of zero: half a request in 20 minutes.
const LEAST_RATE: f64 = 0.5 / 20.0;
/// The part of the requests that belongs to the tail.
const TAIL_SHARE: f64 = 0.1;

/// The standard deviations by which two means may differ by chance.
const MAY_BE_CHANCE: f64 = 3.0;

/// A minute with requests: their number, and their seconds.
type Busy = (Tick, f64, f64);

struct Times {
    then: f64,
    now: f64,
    is_tail: bool,
    /// The number of compared requests before the change.
    count_then: f64,
    count_now: f64,
    /// The mean of all compared requests, as expected now without the change.
    mean_then: f64,
    mean_now: f64,
}

impl Detector {
    pub(super) fn verdict(&self, alarm: &Alarm, now: Tick) -> Verdict {
        let from = alarm.since.max(now - STORED + 1);
        let until = now + 1;
        let since = self.sums(alarm, from, until);
        let judged = self.state.shared.within(from..until).count();
        let minutes = since.minutes.max(judged.try_into().unwrap_or(u32::MAX));
        let per_minute = 1.0 / f64::from(minutes.max(1));
        let past = &alarm.past;
        let mut current = Pace::new(since.requests as f64 * per_minute, since.mean());
        let mut usual = current;
        // A past counts only minutes with requests. Their share of all minutes before the change is assumed to be the
        // same as since the change.
        let busy = f64::from(since.minutes) * per_minute;
        let has_other_traffic = || self.has_other_traffic(alarm);
        let mut is_tail = false;
        let (before, figure, least) = match alarm.kind {
            ChangeKind::Slower | ChangeKind::Faster => {
                let times = self.times(alarm, &since, until);
                is_tail = times.is_tail;
                current = Pace::new(times.count_now * per_minute, times.mean_now);
                usual = Pace::new(current.rate, times.mean_then);
                if has_other_traffic() {
                    usual.rate = busy * times.count_then / f64::from(past.minutes.max(1));
                }
                (times.then, times.now, 0.0)
            }
            ChangeKind::Failing | ChangeKind::Refusing => {
                if has_other_traffic() {
                    usual.rate = busy * past.rate();
                }
                if self.has_other_mean(alarm) {
                    usual.mean = past.mean();
                }
                // 0 errors count as half an error.
                let least = 0.5 / past.requests.max(1) as f64;
                (past.error_share(), since.error_share(), least)
            }
            ChangeKind::Surging => {
                usual = Pace::new(
                    past.rate(),
                    current.mean / self.slowness(alarm.context, until),
                );
                (past.rate(), current.rate, LEAST_RATE)
            }
            ChangeKind::Silent | ChangeKind::Instance | ChangeKind::NewError => {
                current = Pace::new(0.0, past.mean());
                usual = Pace::new(past.rate(), past.mean());
                (past.rate(), 0.0, LEAST_RATE)
            }
        };
        Verdict {
            context: alarm.context,
            kind: alarm.kind,
            instance: None,
            error: None,
            since: i64::from(alarm.since) * 60,
            detected: (i64::from(alarm.detected) + 1) * 60,
            then: before,
            now: figure,
            ratio: ratio(before, figure, least),
            is_tail,
            confidence: confidence(alarm.strength),
            requests: since.requests,
            minutes,
            cost: Cost::new(usual, current, since.seconds * per_minute),
            mean_then: past.mean(),
            mean_now: since.mean(),
        }
    }

    /// The sums of an alarm's context between two minutes, the second excluded.
    fn sums(&self, alarm: &Alarm, from: Tick, to: Tick) -> Sums {
        match self.pages.get(&alarm.context) {
            Some(page) => Sums::of(&page.history.minutes_for(alarm.kind), from, to),
            None if alarm.context == all_id() => Sums::of_all(&self.state.shared, from, to),
            None => Sums::default(),
        }
    }

    fn busy(&self, context: RecordId) -> Vec<Busy> {
        let of_page = self.pages.get(&context).into_iter();
        let of_page = of_page.flat_map(|page| &page.history.minutes);
        let of_page =
            of_page.map(|minute| (minute.tick, minute.requests.into(), minute.seconds.into()));
        let is_all = context == all_id();
        let of_all = self.state.shared.0.iter().filter(|_| is_all);
        let of_all = of_all.map(|all| (all.tick, all.requests as f64, all.micros as f64 * 1e-6));
        let busy = of_page.chain(of_all);
        busy.filter(|(_, requests, _)| *requests > 0.0).collect()
    }

    /// Whether the traffic of a context since a change differs from before by more than chance.
    fn has_other_traffic(&self, alarm: &Alarm) -> bool {
        let busy = self.busy(alarm.context);
        let (before, since) = split(&busy, alarm.since, |(_, requests, _)| (1.0, *requests));
        let then = (f64::from(alarm.past.minutes), alarm.past.rate());
        // Counts vary at least as much as independent requests do: their variance is at least the rate.
        differs(then, &before, &since, then.1)
    }

    /// Whether the mean time of a context's requests since a change differs from before by more than chance.
    fn has_other_mean(&self, alarm: &Alarm) -> bool {
        let busy = self.busy(alarm.context);
        let sample = |(_, requests, seconds): &Busy| (*requests, seconds / requests);
        let (before, since) = split(&busy, alarm.since, sample);
        let then = (alarm.past.requests as f64, alarm.past.mean());
        differs(then, &before, &since, 0.0)
    }

    /// The factor by which a context's requests take longer; 1 if no slowdown is ongoing.
    fn slowness(&self, context: RecordId, until: Tick) -> f64 {
        let slower = self.state.ongoing(context, &[ChangeKind::Slower]).next();
        let times = slower.map(|alarm| self.times(alarm, &Sums::default(), until));
        let ratio = times.map_or(1.0, |times| times.mean_now / times.mean_then);
        agreeing(ratio, 1.0, false)
    }

    /// Compares the times of a context that is slower or faster. `then` is the mean that is expected now without the
    /// change, so it includes the shift that all contexts share.
    fn times(&self, alarm: &Alarm, since: &Sums, until: Tick) -> Times {
        let is_faster = alarm.kind == ChangeKind::Faster;
        let page = self.pages.get(&alarm.context);
        let Some((page, base)) = page.and_then(|page| Some((page, page.base.as_ref()?))) else {
            return self.times_of_all(alarm, since, until);
        };
        let mut tally = Tally::new();
        let history = &page.history;
        history.each(alarm.since, |_, packed| tally.add(packed));
        let (counts_then, counts_now) = (base.past.counts(), tally.finish());
        let (then, now) = (Means::of(&counts_then), Means::of(&counts_now));
        let shared = self.state.shared.of(alarm.context);
        let size = speed::size(base, &shared, alarm.score_kind, alarm.since);
        let mut times = Times {
            then: then.all,
            now: now.all,
            is_tail: size.is_tail,
            count_then: count(&counts_then),
            count_now: count(&counts_now),
            mean_then: 0.0,
            mean_now: now.all,
        };
        if size.is_tail {
            let ratio = agreeing(now.tail / (then.tail * size.shared), 1.0, is_faster);
            (times.then, times.now) = (now.tail / ratio, now.tail);
            // The other nine tenths of the requests are unchanged.
            times.mean_then = (now.all - TAIL_SHARE * (times.now - times.then)).max(0.0);
        } else {
            let of_means = now.all / (then.all * size.shared);
            // A few very slow requests change a mean, and the number of such requests is random.
            let is_chance = (of_means / size.body).ln().abs()
                <= MAY_BE_CHANCE * (then.variance + now.variance).sqrt();
            let of_means = if is_chance { size.body } else { of_means };
            times.then = now.all / agreeing(of_means, size.body, is_faster);
            times.mean_then = times.then;
        }
        times
    }

    /// Compares the times of all contexts by their shared level, because a mean also changes with the mix of requests.
    fn times_of_all(&self, alarm: &Alarm, since: &Sums, until: Tick) -> Times {
        let effect = (alarm.effect as f64 * 1e-6).exp();
        let level = self.state.shared.median_level(alarm.since, until);
        let then = alarm.past.level as f64 * 1e-6;
        let level = level.map_or(effect, |level| (level - then).exp());
        let ratio = match alarm.context == all_id() {
            true => agreeing(level, effect, alarm.kind == ChangeKind::Faster),
            false => 1.0,
        };
        let now = match since.requests {
            0 => alarm.past.mean() * ratio,
            _ => since.mean(),
        };
        Times {
            then: now / ratio,
            now,
            is_tail: false,
            count_then: alarm.past.requests as f64,
            count_now: since.requests as f64,
            mean_then: now / ratio,
            mean_now: now,
        }
    }
}

fn count(counts: &Counts) -> f64 {
    counts.iter().map(|n| f64::from(*n)).sum()
}

fn split(
    busy: &[Busy],
    since: Tick,
    sample: impl Fn(&Busy) -> Weighted,
) -> (Vec<Weighted>, Vec<Weighted>) {
    let (before, since) = busy.split_at(busy.partition_point(|minute| minute.0 < since));
    let samples = |minutes: &[Busy]| minutes.iter().map(&sample).collect();
    (samples(before), samples(since))
}
