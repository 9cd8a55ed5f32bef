//! Three common alert rules, for comparison with the detector. The rules get the same aggregates of each minute as the
//! detector.

use std::collections::VecDeque;

use tower_pulse_model::aggregate::Aggregate;

use crate::workload::PAGES;

/// The sums of one or more minutes: of requests, of seconds, and of squared seconds.
#[derive(Clone, Copy, Default)]
struct Sums {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Sums {
    fn add(&mut self, other: Self, sign: f64) {
        self.count += sign * other.count;
        self.sum += sign * other.sum;
        self.squares += sign * other.squares;
    }

    fn mean(self) -> f64 {
        self.sum / self.count.max(1.0)
    }

    fn variance(self) -> f64 {
        (self.squares / self.count.max(1.0) - self.mean().powi(2)).max(0.0)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Rule {
    /// The mean of 5 minutes is above 1.5 times the mean of the hour before.
    Mean,
    /// By Welch's t-test, 10 minutes are slower than the hour before, and the ratio of the means is at least 1.2.
    Recent,
    /// By Welch's t-test, the last 60 minutes are slower than the 60 minutes before.
    Hours,
}

impl Rule {
    pub(crate) const ALL: [Self; 3] = [Self::Mean, Self::Recent, Self::Hours];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean of 5 min > 1.5 x the hour",
            Self::Recent => "Welch's t, 10 min against the hour, >= 1.2",
            Self::Hours => "Welch's t, this hour against the last",
        }
    }

    /// The lengths, in minutes, of the recent window and of the window before it.
    fn windows(self) -> (usize, usize) {
        match self {
            Self::Mean => (5, 60),
            Self::Recent => (10, 60),
            Self::Hours => (60, 60),
        }
    }

    fn alarms(self, recent: Sums, past: Sums) -> bool {
        if recent.count < 2.0 || past.count < 2.0 {
            return false;
        }
        let ratio = recent.mean() / past.mean();
        let error = recent.variance() / recent.count + past.variance() / past.count;
        let t = (recent.mean() - past.mean()) / error.sqrt().max(1e-12);
        match self {
            Rule::Mean => ratio > 1.5,
            Rule::Recent => ratio >= 1.2 && t > SIGNIFICANT,
            Rule::Hours => t > SIGNIFICANT,
        }
    }
}

pub(crate) struct Baseline {
    rule: Rule,
    minutes: Vec<VecDeque<Sums>>,
}

/// The usual threshold of a two-sided test: a chance of 1 in 20.
const SIGNIFICANT: f64 = 1.96;

impl Baseline {
    pub(crate) fn new(rule: Rule) -> Self {
        Self {
            rule,
            minutes: vec![VecDeque::new(); PAGES],
        }
    }

    /// The pages that are slower at the end of the minute, according to the rule.
    pub(crate) fn judge(&mut self, minute: &[(usize, Aggregate)]) -> Vec<usize> {
        let (now, before) = self.rule.windows();
        let mut slower = Vec::new();
        let mut given = minute.iter().peekable();
        for (page, minutes) in self.minutes.iter_mut().enumerate() {
            let sums = given.next_if(|(at, _)| *at == page);
            let sums = sums.map_or(Sums::default(), |(_, aggregate)| Sums {
                count: aggregate.times.count as f64,
                sum: aggregate.times.sum as f64 / 1e9,
                squares: aggregate.times.sumsq as f64 / 1e18,
            });
            minutes.push_front(sums);
            minutes.truncate(now + before);
            if minutes.len() < now + before.min(20) {
                continue;
            }
            let (mut recent, mut past) = (Sums::default(), Sums::default());
            for (back, sums) in minutes.iter().enumerate() {
                let side = if back < now { &mut recent } else { &mut past };
                side.add(*sums, 1.0);
            }
            if self.rule.alarms(recent, past) {
                slower.push(page);
            }
        }
        slower
    }
}
