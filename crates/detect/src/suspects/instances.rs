//! The instances that a change comes from.

use std::sync::Arc;

use super::{MIN_REQUESTS, Sides};
use crate::change::{ChangeKind, Suspect};
use crate::minute::failed;
use crate::words::{NAMED, against, names, percent};
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::order::InOrder;
use tower_pulse_model::sorted::Map;

/// The smallest part of a change that the instances must account for.
const MIN_SHARE: f64 = 0.6;

/// The smallest ratio of the suspected instances' figure to that of the others.
const MIN_RATIO: f64 = 1.25;

/// The fewest minutes in which both sides must have requests to be compared. A process and its replacement both have
/// requests in the minute of a restart.
const FEWEST_TOGETHER: usize = 2;

/// The requests of instances in some minutes, and the sum of the figure that a change is about.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    requests: f64,
    sum: f64,
}

impl Counted {
    fn of(kind: ChangeKind, sums: &Aggregate) -> Option<Self> {
        let (count, mean) = match kind {
            ChangeKind::Slower => (sums.successes().count(), sums.successes().mean()?),
            ChangeKind::Failing | ChangeKind::Refusing => {
                let share = failed(kind, sums) as f64 / sums.times.count.max(1) as f64;
                (sums.times.count, share)
            }
            _ => return None,
        };
        let requests = count as f64;
        (count > 0).then_some(Self {
            requests,
            sum: requests * mean,
        })
    }

    fn sum<'a>(all: impl IntoIterator<Item = &'a Self>) -> Self {
        all.into_iter().fold(Self::default(), |sums, one| Self {
            requests: sums.requests + one.requests,
            sum: sums.sum + one.sum,
        })
    }

    fn mean(self) -> f64 {
        self.sum / self.requests.max(1.0)
    }
}

/// The instances that a change of a context comes from; `None` if no instances stand out. The instances are out of
/// line with the others in the same minutes, and cause most of the change. `minutes` has the sums of each instance in
/// each minute since the change began.
pub fn instances(
    kind: ChangeKind,
    sides: &Sides,
    minutes: &[Vec<(&Arc<str>, &Aggregate)>],
) -> Option<Suspect> {
    let mut served: Map<&Arc<str>, Vec<Counted>> = Map::default();
    for (at, minute) in minutes.iter().enumerate() {
        for (instance, sums) in minute {
            let counted =
                served.or_insert_with(instance, || vec![Counted::default(); minutes.len()]);
            counted[at] = Counted::of(kind, sums).unwrap_or_default();
        }
    }
    let fewest = MIN_REQUESTS as f64;
    let all = served.iter();
    let all = all.map(|(name, counted)| (Counted::sum(counted), *name, counted));
    let mut all: Vec<_> = all.filter(|(sum, ..)| sum.requests >= fewest).collect();
    all.order_by(|(a, ..), (b, ..)| b.mean().total_cmp(&a.mean()));
    // The sums of the worst instances and of the others, in the minutes in which both sides had requests.
    let divided = |worst: usize| {
        let of_minute = |at: usize| {
            let (these, others) = all.split_at(worst);
            [these, others].map(|part| Counted::sum(part.iter().map(|(.., counted)| &counted[at])))
        };
        let both = (0..minutes.len()).map(of_minute);
        let both = both.filter(|sides| sides.iter().all(|side| side.requests > 0.0));
        let both: Vec<_> = both.collect();
        let sides = [0, 1].map(|side| Counted::sum(both.iter().map(|sides| &sides[side])));
        let is_enough = sides.iter().all(|side| side.requests >= fewest);
        (is_enough && both.len() >= FEWEST_TOGETHER).then_some((worst, sides))
    };
    let ratio_of = |these: Counted, others: Counted| {
        let least = match kind {
            // 0 errors count as half an error.
            ChangeKind::Failing | ChangeKind::Refusing => 0.5 / (these.requests + others.requests),
            _ => f64::MIN_POSITIVE,
        };
        these.mean() / others.mean().max(least)
    };
    // If several instances are suspected, each must be out of line, and at least a quarter of all instances must not be
    // suspected.
    let is_gap = |worst: &usize| {
        let is_clear = || ratio_of(all[worst - 1].0, all[*worst].0) >= MIN_RATIO;
        *worst == 1 || (4 * worst <= 3 * all.len() && is_clear())
    };
    // As in Otsu's method for the threshold of an image, the instances are divided where the two sides differ most.
    let apart = |[these, others]: [Counted; 2]| {
        these.requests * others.requests * (these.mean() - others.mean()).powi(2)
    };
    let candidates = (1..all.len()).filter(is_gap).filter_map(divided);
    let (worst, sides_of) = candidates.max_by(|a, b| apart(a.1).total_cmp(&apart(b.1)))?;
    let [own, others] = sides_of;
    let change = Counted::of(kind, &sides.now)?.mean() - Counted::of(kind, &sides.then)?.mean();
    // How much of the change comes from these instances.
    let extra = (own.mean() - others.mean()) * own.requests / (own.requests + others.requests);
    let (ratio, share) = (ratio_of(own, others), extra / change);
    if change <= 0.0 || ratio < MIN_RATIO || share < MIN_SHARE {
        return None;
    }
    let mut named: Vec<Arc<str>> = all.iter().map(|(_, name, _)| Arc::clone(name)).collect();
    let (these, well) = named.split_at_mut(worst);
    these.order();
    well.order();
    let well = match well.len() {
        ..=NAMED => names(well),
        more => format!("the other {more}"),
    };
    let compared = match kind {
        ChangeKind::Failing | ChangeKind::Refusing => {
            let (now, then) = (percent(own.mean()), percent(others.mean()));
            let verb = ["fail", "get 4xx"][usize::from(kind == ChangeKind::Refusing)];
            format!("{now} {verb}, {then} on {well}")
        }
        _ => against(ratio, &well),
    };
    Some(Suspect::Instance {
        text: format!("{}: {compared} in the same minutes", names(these)).into(),
        instances: these.iter().take(NAMED).cloned().collect(),
        count: worst as u64,
        then: others.mean(),
        now: own.mean(),
        ratio,
        share: share.min(1.0),
    })
}
