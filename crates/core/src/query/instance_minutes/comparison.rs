//! The instances, compared with each other.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::beside_others::BesideOthers;
use super::pace::{Pace, Times};
use super::{CachedInstance, MINUTE};
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::machine::MachineMinute;
use tower_pulse_model::order::InOrder;
use tower_pulse_model::records::RecordId;
use tower_pulse_model::slices::Merge;
use tower_pulse_model::sorted;

/// An instance is slow in a minute if its [`Pace`] up to this minute is more than this many times that of the median
/// instance. The other instances are *in line*. A slow instance does not count among the others, because it would make
/// a healthy instance look fast.
const SLOW: f64 = 1.1;

#[derive(Debug, Default)]
pub(in crate::query) struct InstanceSums {
    /// The version of the application that the instance reported last.
    pub version: Option<Arc<str>>,
    /// The start of the first minute with requests, and the end of the last such minute, in Unix seconds.
    pub busy: Range<i64>,
    pub sums: Aggregate,
    pace: Pace,
    /// The pace compared with all instances, including this instance.
    beside_all: Pace,
}

impl InstanceSums {
    /// Like [`ContextBeside::ratio`](super::beside_others::ContextBeside::ratio), over all contexts that are compared.
    /// Slow instances do not count among the others.
    pub(in crate::query) fn ratio(&self) -> Option<f64> {
        self.pace.ratio()
    }
}

/// The measurements of the runtime and the process of an instance over some minutes. Each sum comes with the number of
/// minutes in it.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::query) struct MachineSums {
    cpu: (f64, u32),
    delay: (f64, u32),
    /// The longest scheduling delay, in microseconds.
    worst_delay: Option<u64>,
}

impl MachineSums {
    fn add(&mut self, minute: &MachineMinute) {
        let delay = minute.delay_micros.map(|micros| micros as f64 / 1e6);
        for ((sum, minutes), figure) in [
            (&mut self.cpu, minute.cpu_share()),
            (&mut self.delay, delay),
        ] {
            *sum += figure.unwrap_or(0.0);
            *minutes += u32::from(figure.is_some());
        }
        self.worst_delay = self.worst_delay.max(minute.worst_delay_micros);
    }

    /// The mean share of the CPUs' time; then, in seconds, the mean of the median scheduling delays, and the longest
    /// delay.
    pub(in crate::query) fn cpu_and_delays(&self) -> [Option<f64>; 3] {
        let mean = |(sum, minutes): (f64, u32)| (minutes > 0).then(|| sum / f64::from(minutes));
        let worst = self.worst_delay.map(|micros| micros as f64 / 1e6);
        [mean(self.cpu), mean(self.delay), worst]
    }
}

/// Adds up minutes, and compares each instance with the others by context and minute. The result does not depend on an
/// instance's mix of contexts, or on the hours in which it ran.
#[derive(Default)]
pub(in crate::query) struct Comparison {
    /// The instances with requests, by name.
    pub instances: Vec<(Arc<str>, InstanceSums)>,
    /// The machines of all instances that made reports, by name. A single instance without a version reports only its
    /// machine.
    pub machines: Vec<(Arc<str>, MachineSums)>,
    /// The instance that the question names, compared in detail.
    pub beside: BesideOthers,
}

impl Comparison {
    /// Adds a minute, which must be later than all minutes that were added before. Returns the instances with requests
    /// that are in line.
    pub(super) fn add<'a>(
        &mut self,
        start: i64,
        cached: &'a [CachedInstance],
        context: Option<RecordId>,
    ) -> Vec<&'a CachedInstance> {
        let all = times(cached, context);
        let mut paces = Vec::with_capacity(cached.len());
        for instance in cached {
            let name = &instance.instance;
            if let Some(machine) = &instance.machine {
                sorted::entry(&mut self.machines, name.clone(), Default::default).add(machine);
            }
            let Some(sums) = instance.sums(context) else {
                continue;
            };
            let compared = sorted::entry(&mut self.instances, name.clone(), || InstanceSums {
                busy: start..start,
                ..InstanceSums::default()
            });
            compared.sums.merge(&sums);
            compared.version.clone_from(&instance.version);
            compared.busy.end = start.saturating_add(MINUTE);
            for (id, own) in instance.times(context) {
                compared.beside_all.add(start, own, all[&id]);
            }
            paces.push((compared.beside_all.so_far(), instance));
        }
        paces.order_by(|(a, _), (b, _)| a.total_cmp(b));
        // At least two instances count as in line: with two instances, it is unknown which one is slow.
        let median = paces.get((paces.len().saturating_sub(1) / 2).max(1));
        let most = median.map_or(f64::INFINITY, |(pace, _)| SLOW * pace);
        let first_slow = paces.partition_point(|(pace, _)| *pace <= most);
        let in_line = paces[..first_slow].iter().map(|(_, instance)| *instance);
        let counted = times(in_line.clone(), context);
        for (at, (_, instance)) in paces.iter().enumerate() {
            let name = instance.instance.clone();
            let compared = sorted::entry(&mut self.instances, name, InstanceSums::default);
            for (id, own) in instance.times(context) {
                let all = counted.get(&id).copied().unwrap_or_default();
                let part = Some(own).filter(|_| at < first_slow);
                let others = all.without(part.unwrap_or_default());
                compared.pace.add(start, own, others);
            }
        }
        in_line.collect()
    }
}

fn times<'a>(
    instances: impl IntoIterator<Item = &'a CachedInstance>,
    context: Option<RecordId>,
) -> HashMap<RecordId, Times> {
    let mut times: HashMap<RecordId, Times> = HashMap::new();
    for (id, own) in instances.into_iter().flat_map(|i| i.times(context)) {
        times.entry(id).or_default().add(own);
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;
    use tower_pulse_model::context::Kind;
    use tower_pulse_model::minute_report::InstanceMinute;

    fn id(name: &str) -> RecordId {
        RecordId::new(Kind::Http, name)
    }

    /// A minute of an instance. Each context has a name, a number of requests, and the milliseconds of each request.
    fn minute(instance: &str, contexts: &[(&str, u64, u64)]) -> CachedInstance {
        let context = |(name, count, millis): &(&str, u64, u64)| {
            let mut sums = Aggregate::default();
            (0..*count).for_each(|_| sums.times.record(millis * 1_000_000));
            (id(name), sums)
        };
        let minute = InstanceMinute {
            contexts: contexts.iter().map(context).collect(),
            ..InstanceMinute::default()
        };
        CachedInstance::new(instance.into(), minute)
    }

    /// A minute of some instances that each have one context.
    fn minutes<const N: usize>(instances: [(&str, (&str, u64, u64)); N]) -> Vec<CachedInstance> {
        let minutes = instances.map(|(instance, context)| minute(instance, &[context]));
        minutes.into()
    }

    fn ratios(minutes: &[Vec<CachedInstance>], context: Option<&str>) -> Vec<Option<f64>> {
        let mut comparison = Comparison::default();
        for (start, cached) in (0..).step_by(60).zip(minutes) {
            comparison.add(start, cached, context.map(id));
        }
        let instances = comparison.instances.iter();
        instances.map(|(_, sums)| sums.ratio()).collect()
    }

    #[test]
    fn slow_instances_do_not_make_the_others_look_fast() {
        // `millis` has the milliseconds that each instance takes for a request.
        let ratios = |millis: &[u64]| {
            let minutes = [0, 1].map(|_| {
                let names = ["a", "b", "c", "d"].into_iter().zip(millis);
                let instances = names.map(|(name, millis)| minute(name, &[("x", 50, *millis)]));
                instances.collect()
            });
            let ratios = ratios(&minutes, None).into_iter();
            ratios.map(Option::unwrap_or_default).collect::<Vec<_>>()
        };
        assert_eq!(ratios(&[10, 10, 30]), [1.0, 1.0, 3.0]);
        assert_eq!(ratios(&[10, 10, 20, 30]), [1.0, 1.0, 2.0, 3.0]);
        assert_eq!(ratios(&[10, 10, 10, 10]), [1.0; 4]);
        // No instance is left out if there are only two, or if most of them are slow.
        assert_eq!(ratios(&[10, 20]), [0.5, 2.0]);
        assert_eq!(ratios(&[10, 20, 20]), [0.5, 4.0 / 3.0, 4.0 / 3.0]);
    }

    #[test]
    fn slow_instances_are_left_out_as_soon_as_they_are_slow() {
        let all = |names: [&'static str; 3], millis: [u64; 3]| {
            minutes([0, 1, 2].map(|at| (names[at], ("x", 50, millis[at]))))
        };
        let (old, new) = (["a", "b", "c"], ["d", "e", "f"]);
        let (before, after) = (|| all(old, [10; 3]), || all(new, [10, 10, 30]));
        let replaced = ratios(&[before(), before(), after(), after()], None);
        assert_eq!(replaced, [1.0, 1.0, 1.0, 1.0, 1.0, 3.0].map(Some));
        // The last instance is not slow at first.
        let later = (0..60).map(|at| all(old, [10, 10, if at < 40 { 10 } else { 30 }]));
        let later = ratios(&later.collect::<Vec<_>>(), None);
        let well = later[0].expect("there are enough requests");
        assert!((0.96..1.0).contains(&well), "{later:?}");
    }

    #[test]
    fn only_the_same_minutes_are_compared() {
        let uneven = [
            minutes([("a", ("x", 50, 10)), ("b", ("x", 10, 10))]),
            // In this minute, all requests are slow, and most of them are on `b`.
            minutes([("a", ("x", 10, 900)), ("b", ("x", 50, 900))]),
            // In this minute, `b` is the only instance.
            minutes([("b", ("x", 500, 9_000))]),
        ];
        assert_eq!(ratios(&uneven, None), [Some(1.0); 2]);
        // `old` is alone in the first minute. `new` replaces `old`, and is alone in the last minute.
        let replaced = [
            minutes([("old", ("x", 100, 10))]),
            minutes([("old", ("x", 50, 10)), ("new", ("x", 50, 90))]),
            minutes([("new", ("x", 100, 90))]),
        ];
        assert_eq!(ratios(&replaced, None), [None; 2]);
    }

    #[test]
    fn few_requests_have_no_ratio() {
        let (a, b, c) = (("x", 9, 10), ("x", 90, 10), ("y", 90, 10));
        let few = [minutes([("a", a), ("b", b), ("c", c)])];
        // On `x`, `b` can be compared only with `a`, which has too few requests.
        assert_eq!(ratios(&few, None), [None; 3]);
        assert_eq!(ratios(&few, Some("y")), [None]);
    }
}
