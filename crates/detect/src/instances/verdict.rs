//! The verdicts about the instances that are out of line.

use super::compare::{Measure, Moments, total};
use super::{InstanceDetector, OutOfLine, SETTLING};
use crate::change::ChangeKind;
use crate::cost::{Cost, Pace, agreeing, differs, ratio};
use crate::history::Tick;
use crate::minute::{Verdict, all_id};
use crate::verdict::confidence;
use tower_pulse_model::order::InOrder;
use tower_pulse_model::records::RecordId;

impl InstanceDetector {
    pub(super) fn verdicts(&self, now: Tick) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        for one in &self.state.ongoing {
            if !self.state.is_on_many(&one.instance) && now - one.detected >= SETTLING {
                let detected = one.detected + SETTLING;
                verdicts.push(self.verdict(&[one], one.context, one.since, detected));
            }
        }
        for (instance, detected) in &self.state.on_many {
            let ongoing = self.state.ongoing.iter();
            let of_instance: Vec<_> = ongoing.filter(|one| one.instance == *instance).collect();
            let mut since: Vec<Tick> = of_instance.iter().map(|one| one.since).collect();
            since.order();
            if let Some(since) = since.get(since.len() / 2) {
                verdicts.push(self.verdict(&of_instance, all_id(), *since, *detected));
            }
        }
        verdicts
    }

    /// The verdict about an instance that is out of line on some contexts.
    fn verdict(
        &self,
        all: &[&OutOfLine],
        context: RecordId,
        since: Tick,
        detected: Tick,
    ) -> Verdict {
        let (mut own, mut others) = (Moments::default(), Moments::default());
        let (mut logs, mut expected, mut weights, mut minutes) = (0.0, 0.0, 0.0, 0);
        let (mut own_minutes, mut other_minutes) = (Vec::new(), Vec::new());
        for (number, one) in all.iter().enumerate() {
            // An instance that is slow and fails on a context has two differences there. The context counts once.
            let mut earlier = all[..number].iter();
            if earlier.any(|other| other.context == one.context) {
                continue;
            }
            let sides = self.sides(&one.instance, one.context, since);
            minutes = minutes.max(sides.len() as u32);
            let (mine, theirs) = total(&sides);
            let (n, level, _) = mine.samples(Measure::Time);
            let (_, other, _) = theirs.samples(Measure::Time);
            logs += n * (level - other);
            weights += n;
            // The time that the instance would have taken at the pace of the others.
            expected += mine.requests * theirs.mean_seconds();
            own.add(&mine);
            others.add(&theirs);
            let sample = |moments: &Moments| (moments.requests, moments.mean_seconds());
            own_minutes.extend(sides.iter().map(|(_, mine, _)| sample(mine)));
            other_minutes.extend(sides.iter().map(|(_, _, theirs)| sample(theirs)));
        }
        let is_time = all.iter().any(|one| one.measure == Measure::Time);
        let strength = all.iter().map(|one| one.strength).max().unwrap_or(0);
        let (mean_then, mean_now) = (expected / own.requests.max(1.0), own.mean_seconds());
        let mut mean = mean_now;
        let (then, now, least) = match is_time {
            true => {
                let of_most = (logs / f64::max(weights, 1.0)).exp();
                mean = mean_now / agreeing(mean_now / mean_then, of_most, false);
                (mean, mean_now, 0.0)
            }
            false => {
                // The instance has a cost only if its requests, of which more are errors, are slower or faster by more
                // than chance.
                let then = (others.requests, mean_then);
                if differs(then, &other_minutes, &own_minutes, 0.0) {
                    mean = mean_then;
                }
                let least = 0.5 / others.requests.max(1.0);
                let share = |moments: &Moments| moments.samples(Measure::Errors).1;
                (share(&others), share(&own), least)
            }
        };
        let per_minute = 1.0 / f64::from(minutes.max(1));
        let pace = |mean| Pace::new(own.requests * per_minute, mean);
        Verdict {
            context,
            kind: ChangeKind::Instance,
            instance: all.first().map(|one| one.instance.clone()),
            error: None,
            since: i64::from(since) * 60,
            detected: (i64::from(detected) + 1) * 60,
            then,
            now,
            ratio: ratio(then, now, least),
            is_tail: false,
            confidence: confidence(strength),
            requests: own.requests as u64,
            minutes,
            cost: Cost::new(pace(mean), pace(mean_now), own.seconds * per_minute),
            mean_then,
            mean_now,
        }
    }
}
