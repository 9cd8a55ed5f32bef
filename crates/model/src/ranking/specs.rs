//! The configurations of a ranking that instances configure differently. The longest period, the finest interval and
//! the most ids are in effect, so the store drops no data that any instance wants to retain. A configuration expires
//! when no instance with this configuration has added to the ranking for the length of its period.

use super::RankingSpec;
use crate::order::InOrder;
use crate::pack::{packed, unpack};

/// The most configurations that are kept separately.
const MAX_SPECS: usize = 8;
/// Times of additions are rounded up to multiples of this many seconds, so that they seldom change and are seldom
/// written.
const UNIT: i64 = 60;

impl RankingSpec {
    /// A configuration that retains everything that either configuration retains. Its interval divides both intervals.
    pub fn covering(self, other: Self) -> Self {
        let interval = greatest_divisor(self.interval.max(1), other.interval.max(1));
        let period = self.period().max(other.period());
        let slices = period.saturating_add(i64::from(interval) - 1) / i64::from(interval);
        Self {
            interval,
            slices: u32::try_from(slices).unwrap_or(u32::MAX),
            max_ids: self.max_ids.max(other.max_ids),
        }
    }
}

fn greatest_divisor(a: u32, b: u32) -> u32 {
    match a % b {
        0 => b,
        remainder => greatest_divisor(b, remainder),
    }
}

/// The configurations of a ranking, each with the time of its last addition, in Unix seconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CarriedSpecs(Vec<(RankingSpec, i64)>);

packed!(CarriedSpecs { 0 } if |specs| (2..=MAX_SPECS).contains(&specs.0.len()));

impl CarriedSpecs {
    /// Whether there are no configurations.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether there are several configurations.
    pub fn is_mixed(&self) -> bool {
        self.0.len() > 1
    }

    /// Notes an addition with a configuration.
    pub fn carry(&mut self, spec: RankingSpec, at: i64) {
        match self.0.iter_mut().find(|(other, _)| *other == spec) {
            Some((_, last)) => *last = at.max(*last),
            None => self.0.push((spec, at)),
        }
        if self.0.len() <= MAX_SPECS {
            return;
        }
        // The two configurations with the shortest periods are merged.
        let order = |spec: RankingSpec| (-spec.period(), spec.interval, spec.max_ids);
        self.0.order_by_key(|(spec, _)| order(*spec));
        if let (Some((a, at)), Some((b, other))) = (self.0.pop(), self.0.pop()) {
            self.carry(a.covering(b), at.max(other));
        }
    }

    /// The configuration of the last addition.
    pub fn newest(&self) -> Option<RankingSpec> {
        let newest = self.0.iter().max_by_key(|(_, at)| *at);
        newest.map(|(spec, _)| *spec)
    }

    /// Merges the configurations of a round that ends at `now` with the configurations of the store. The store has none
    /// if all instances have agreed for a long time. Returns the new configuration in effect.
    pub fn merge(&mut self, in_effect: RankingSpec, added: &Self, now: i64) -> RankingSpec {
        let rounded = |at: i64| at.saturating_add(UNIT - 1).div_euclid(UNIT) * UNIT;
        let newest = added.newest();
        for (spec, at) in &added.0 {
            let is_recent = now.saturating_sub(*at) <= spec.period() || Some(*spec) == newest;
            if !is_recent || self.0.is_empty() && *spec == in_effect {
                continue;
            }
            if self.0.is_empty() {
                self.carry(in_effect, rounded(now));
            }
            self.carry(*spec, rounded(*at));
        }
        self.covering().unwrap_or(in_effect)
    }

    fn covering(&self) -> Option<RankingSpec> {
        let specs = self.0.iter().map(|(spec, _)| *spec);
        specs.reduce(RankingSpec::covering)
    }

    /// Forgets configurations that had no addition for as long as their period. Returns the configuration in effect.
    pub fn expire(&mut self, in_effect: RankingSpec, now: i64) -> RankingSpec {
        let newest = self.0.iter().map(|(_, at)| *at).max();
        let age = |at: i64| now.saturating_sub(at);
        (self.0).retain(|(spec, at)| Some(*at) == newest || age(*at) <= spec.period());
        let covering = self.covering();
        // The last configuration is kept, with its time, until there is a new addition with it. Without this time, an
        // addition with another configuration would make `merge` keep `in_effect` for a whole period from then on.
        if !self.is_mixed() {
            self.0.retain(|(_, at)| age(*at) > 2 * UNIT);
        }
        covering.unwrap_or(in_effect)
    }

    /// The messages for the operator about all rankings with several configurations, sorted. `fields` are the fields of
    /// the table of configurations.
    pub fn warnings<'a>(fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Vec<String> {
        let warning = |(name, specs)| {
            let specs: Self = unpack(specs)?;
            let name = std::str::from_utf8(name).ok()?;
            specs.is_mixed().then(|| specs.warning(name))
        };
        let mut warnings: Vec<String> = fields.filter_map(warning).collect();
        warnings.order();
        warnings.dedup();
        warnings
    }

    /// The message for the operator about one ranking.
    pub fn warning(&self, ranking: &str) -> String {
        let mut specs: Vec<_> = self.0.iter().map(|(spec, _)| *spec).collect();
        specs.order_by_key(|spec| -spec.period());
        let specs: Vec<_> = specs.iter().map(ToString::to_string).collect();
        format!(
            "the ranking {ranking:?} is built with different configurations: {}. The longest period, an interval that \
             divides all intervals, and the most ids are in effect. A configuration expires when no instance has used \
             it for its period: give the ranking the same configuration in every instance",
            specs.join("; ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::{pack, unpack};
    use crate::tests::spec;
    use proptest::prelude::*;

    const DAY: i64 = 86_400;
    const NOW: i64 = 1_700_000_040;

    #[test]
    fn the_longer_period_is_in_effect_until_its_configuration_expires() {
        let (fleet, canary) = (spec(3_600, 24, 100), spec(300, 12, 200));
        let mut specs = CarriedSpecs::default();
        let note = |specs: &mut CarriedSpecs, one, in_effect, now| {
            let in_effect = specs.expire(in_effect, now);
            let mut added = CarriedSpecs::default();
            added.carry(one, now);
            specs.merge(in_effect, &added, now)
        };
        assert_eq!(note(&mut specs, fleet, fleet, NOW), fleet);
        assert!(specs.is_empty());
        let both = spec(300, 288, 200);
        assert_eq!(note(&mut specs, canary, fleet, NOW), both);
        let warning = specs.warning("posts");
        for part in ["\"posts\"", "86400 s", "3600 s", "same configuration"] {
            assert!(warning.contains(part), "{part}: {warning}");
        }
        // All instances have changed to the configuration of the canary.
        assert_eq!(note(&mut specs, canary, both, NOW + DAY), both);
        assert_eq!(note(&mut specs, canary, both, NOW + DAY + 61), canary);
        assert!(specs.is_empty());

        // The canary has ended.
        let mut specs = CarriedSpecs::default();
        note(&mut specs, canary, fleet, NOW);
        assert_eq!(note(&mut specs, fleet, both, NOW + 3_600), both);
        assert_eq!(note(&mut specs, fleet, both, NOW + 3_700), fleet);
        assert!(specs.is_empty());

        // The fleet has changed to the configuration of the canary, and adds only every two hours.
        let mut specs = CarriedSpecs::default();
        note(&mut specs, canary, fleet, NOW);
        for hours in (2..=24).step_by(2) {
            assert_eq!(specs.expire(both, NOW + 3_600 * (hours - 1)), both);
            assert_eq!(note(&mut specs, canary, both, NOW + 3_600 * hours), both);
        }
        assert_eq!(note(&mut specs, canary, both, NOW + 26 * 3_600), canary);
    }

    #[test]
    fn the_number_of_separate_configurations_is_bounded() {
        let mut specs = CarriedSpecs::default();
        let in_effect = spec(3_600, 24, 9);
        for slices in 1..=20 {
            let mut added = CarriedSpecs::default();
            added.carry(spec(60, slices, 9), NOW);
            specs.merge(in_effect, &added, NOW);
        }
        assert_eq!(specs.expire(in_effect, NOW), spec(60, 1_440, 9));
        assert_eq!(specs.0.len(), MAX_SPECS);
        assert_eq!(unpack(&pack(&specs)), Some(specs));
        let read_back = |specs: &[(u32, u32)]| {
            let specs = specs.iter();
            let specs = specs.map(|(interval, slices)| (spec(*interval, *slices, 4), 5));
            unpack::<CarriedSpecs>(&pack(&CarriedSpecs(specs.collect())))
        };
        assert!(read_back(&[(60, 3), (60, 4)]).is_some());
        for specs in [&[][..], &[(60, 3)], &[(60, 3), (0, 4)], &[(60, 3); 9]] {
            assert_eq!(read_back(specs), None, "{specs:?}");
        }
    }

    proptest! {
        /// With any intervals, neither window begins before the window of the covering configuration.
        #[test]
        fn a_covering_configuration_drops_nothing_early(a in 0..6usize, b in 0..6usize, long in 1..50u32, short in 1..50u32, now in 0..10_000_000i64) {
            let intervals = [60, 300, 7_200, 10_800, 86_400, 259_200];
            let (a, b) = (spec(intervals[a], long, 3), spec(intervals[b], short, 4));
            let covering = a.covering(b);
            prop_assert_eq!(covering, b.covering(a));
            prop_assert!(covering.oldest(now) <= a.oldest(now).min(b.oldest(now)));
            prop_assert_eq!(covering.max_ids, 4);
        }
    }
}
