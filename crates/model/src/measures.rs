//! Measures: numbers of a context within a slice that need only a sum or a maximum. Each measure is declared once,
//! here, and recorded by one call; cells, drain, merge, pack and unpack handle all measures in the same way.

use super::slices::Merge;

/// How two numbers of a measure are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merging {
    /// The numbers are added.
    Sum,
    /// The larger number is kept. When a window moves on, a largest number cannot be subtracted from the window.
    Largest,
}

/// Declares the measures: their names, and how they merge. The position in the list is a measure's number in a record,
/// so a new measure comes last, and no measure is ever removed.
macro_rules! measures {
    ($($(#[$doc:meta])* $name:ident: $merging:ident;)*) => {
        /// A number that is recorded about a context.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Measure {
            $($(#[$doc])* $name,)*
        }

        impl Measure {
            /// All measures, in the order of their numbers.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// How two numbers of the measure are combined.
            #[inline(always)]
            pub const fn merging(self) -> Merging {
                match self {
                    $(Self::$name => Merging::$merging,)*
                }
            }
        }
    };
}

measures! {
    /// The time within the polls of requests, in nanoseconds: requests compute, or block a worker thread.
    PollTime: Sum;
    /// The time of the same requests outside of their polls, in nanoseconds: the requests wait.
    Waited: Sum;
    /// The longest single poll, in nanoseconds.
    LongestPoll: Largest;
    /// How often requests were polled.
    Polls: Sum;
    /// The requests that are missing in the other numbers of `<all>`: lost, skewed or set aside. Only `<all>` has this
    /// measure.
    Missing: Sum;
}

/// The number of measures.
pub const MEASURES: usize = Measure::ALL.len();

/// The measures of a context within a slice. A measure that was not recorded is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measures([u64; MEASURES]);

impl Measures {
    /// The value of a measure.
    pub fn get(&self, measure: Measure) -> u64 {
        self.0[measure as usize]
    }

    /// Adds to a measure.
    pub fn add(&mut self, measure: Measure, number: u64) {
        let mine = &mut self.0[measure as usize];
        *mine = match measure.merging() {
            Merging::Sum => mine.saturating_add(number),
            Merging::Largest => number.max(*mine),
        };
    }

    /// The measures that were recorded.
    pub fn iter(&self) -> impl Iterator<Item = (Measure, u64)> {
        let all = Measure::ALL.iter().copied().zip(self.0);
        all.filter(|(_, number)| *number > 0)
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|number| *number == 0)
    }

    /// Subtracts `other`, which was merged before. Maxima stay as long as any sum is left.
    pub fn subtract(&mut self, other: &Self) {
        for (measure, number) in other.iter() {
            if measure.merging() == Merging::Sum {
                let mine = &mut self.0[measure as usize];
                *mine = mine.saturating_sub(number);
            }
        }
        let is_left = |(measure, _): (Measure, u64)| measure.merging() == Merging::Sum;
        if !self.iter().any(is_left) {
            *self = Self::default();
        }
    }
}

impl Merge for Measures {
    fn merge(&mut self, other: &Self) {
        for (measure, number) in other.iter() {
            self.add(measure, number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::Aggregate;
    use crate::pack;
    use proptest::prelude::*;

    fn any_measures() -> impl Strategy<Value = Measures> {
        let numbers = prop_oneof![Just(0), 0..1_000_000u64, 0..u64::MAX / 4];
        proptest::collection::vec(numbers, MEASURES).prop_map(|numbers| {
            let mut measures = Measures::default();
            for (measure, number) in Measure::ALL.iter().zip(numbers) {
                measures.add(*measure, number);
            }
            measures
        })
    }

    #[test]
    fn sums_are_added_and_the_largest_stays() {
        const BOTH: [Measure; 2] = [Measure::PollTime, Measure::LongestPoll];
        let (mut measures, mut nine) = (Measures::default(), Measures::default());
        for measure in BOTH {
            let numbers = [3, 9, 4].into_iter();
            numbers.for_each(|number| measures.add(measure, number));
            nine.add(measure, 9);
        }
        assert_eq!(BOTH.map(|measure| measures.get(measure)), [16, 9]);
        measures.subtract(&nine);
        assert_eq!(BOTH.map(|measure| measures.get(measure)), [7, 9]);
    }

    #[test]
    fn a_measure_of_a_newer_version_is_skipped() {
        let mut aggregate = Aggregate::default();
        aggregate.times.record(7);
        aggregate.measures.add(Measure::Polls, 5);
        let mut packed = pack::Writer(pack::aggregate(&Aggregate {
            measures: Measures::default(),
            ..aggregate.clone()
        }));
        let newer = [MEASURES as u8, 99, Measure::Polls as u8, 5];
        packed.section(pack::MEASURES, |out| out.0.extend(newer));
        assert_eq!(pack::read_aggregate(&packed.0), Some(aggregate));
        // The last measure has a number, but no value.
        packed.section(pack::MEASURES, |out| out.0.push(0));
        assert_eq!(pack::read_aggregate(&packed.0), None);
    }

    proptest! {
        #[test]
        fn merged_measures_can_be_subtracted(a in any_measures(), b in any_measures()) {
            let mut left = a;
            left.merge(&b);
            left.subtract(&b);
            for measure in Measure::ALL.iter().filter(|measure| measure.merging() == Merging::Sum) {
                prop_assert_eq!(left.get(*measure), a.get(*measure));
            }
            left.subtract(&a);
            prop_assert!(left.is_empty());
        }
    }
}
