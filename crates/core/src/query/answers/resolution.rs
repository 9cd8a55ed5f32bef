//! The slices of a series: their length, and whether they come from counters or records.

use std::ops::Range;

use super::DEFAULT_PRECISION;
use crate::query::error::QueryError;
use crate::query::window::WindowSlices;
use tower_pulse_model::order::InOrder;
use tower_pulse_model::slice::{Precision, Precisions};
use tower_pulse_model::tier::{DAY, WIDTHS, tier_for};
use tower_pulse_model::tiers::Tiers;

/// The maximum number of points of a series, if the question does not set the precision.
const DEFAULT_POINTS: i64 = 200;

/// The maximum number of points of a series in a row of a list: enough for six hours, which have 73 slices of five
/// minutes.
pub(super) const MAX_ROW_POINTS: i64 = 75;

/// Slices of one length, from counters or from records.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resolution {
    /// Length of the slices, in seconds.
    pub(super) precision: u32,
    /// The precision of the counters, or the tier of the records, from which the slices are made.
    pub(super) tier: Precision,
    pub(super) is_counter: bool,
    /// When the store began to keep slices of this length, in Unix seconds; `i64::MIN` if they are always kept.
    since: i64,
}

impl Resolution {
    pub(super) fn of_counters(precision: Precision) -> Self {
        Self {
            precision: precision.seconds,
            tier: precision,
            is_counter: true,
            since: i64::MIN,
        }
    }

    /// All resolutions for a metric, finest first. At equal precision, counters come before records, because a counter
    /// is a single key.
    ///
    /// Without `has_counters`, the metric can be read only from the records of `tiers`.
    pub(super) fn all(precisions: &Precisions, has_counters: bool, tiers: Tiers) -> Vec<Self> {
        let counters = precisions.counters.iter().filter(|_| has_counters);
        let counters = counters.map(|precision| Self::of_counters(*precision));
        let of_tier = |precision, tier| Self {
            precision,
            tier,
            is_counter: false,
            since: tiers.since(tier),
        };
        let records = WIDTHS.into_iter();
        let records =
            records.filter_map(|precision| Some(of_tier(precision, tier_for(precision)?)));
        // Days that are combined from six-hour slices come before stored days. So the combined days are used while the
        // six-hour slices are kept.
        let days = tiers.get(DAY).map(|days| of_tier(DAY, days));
        let mut all: Vec<_> = counters.chain(records).chain(days).collect();
        all.order_by_key(|resolution| resolution.precision);
        all
    }

    /// Chooses the resolution with slices of the given length that cover the window. Without a length, chooses the
    /// finest slices that cover the window with at most 200 points.
    pub(super) fn choose(
        all: &[Self],
        given: Option<u32>,
        bounds: Option<&Range<i64>>,
        now: i64,
    ) -> Result<Self, QueryError> {
        let wanted = given.or_else(|| Self::default_precision(all));
        let of_wanted = all.iter().filter(|choice| Some(choice.precision) == wanted);
        let mut of_wanted = of_wanted.copied();
        let chosen = match bounds {
            None => of_wanted.next(),
            Some(bounds) if given.is_some() => Self::reaching(of_wanted, bounds, now),
            Some(bounds) => Self::finest(all.iter().copied(), DEFAULT_POINTS, bounds, now),
        };
        chosen.ok_or_else(|| refused(all, wanted))
    }

    /// The precision of the counters' series in the rows of a list: the finest precision that covers the window with at
    /// most [`MAX_ROW_POINTS`] points; `None` if all precisions are too fine.
    pub(super) fn of_rows(
        precisions: &Precisions,
        bounds: &Range<i64>,
        now: i64,
    ) -> Option<Precision> {
        let all = Self::all(precisions, true, Tiers::default()).into_iter();
        let counters = all.filter(|resolution| resolution.is_counter);
        let finest = Self::finest(counters, MAX_ROW_POINTS, bounds, now)?;
        precisions.counter(finest.precision)
    }

    /// The precision of a series without a window: a precision of the counters, if the metric has counters.
    fn default_precision(all: &[Self]) -> Option<u32> {
        let has_counters = all.iter().any(|resolution| resolution.is_counter);
        let mut precisions = (all.iter())
            .filter(|choice| !has_counters || choice.is_counter)
            .map(|choice| choice.precision);
        let finest = precisions.clone().next();
        precisions.find(|p| *p == DEFAULT_PRECISION).or(finest)
    }

    /// The finest slices that cover a window with at most `max_points` points. Days may have more points. If no slices
    /// go back far enough, returns the slices that are kept for longest.
    fn finest(
        all: impl Iterator<Item = Self> + Clone,
        max_points: i64,
        bounds: &Range<i64>,
        now: i64,
    ) -> Option<Self> {
        let few = all.filter(|choice| {
            let slices = choice.slices(bounds);
            slices.seconds() / i64::from(choice.precision) <= max_points || choice.precision >= DAY
        });
        Self::reaching(few, bounds, now)
    }

    /// The first resolution that covers a window. If none covers the window, returns the first resolution whose slices
    /// are kept for longest.
    fn reaching(
        all: impl Iterator<Item = Self> + Clone,
        bounds: &Range<i64>,
        now: i64,
    ) -> Option<Self> {
        let oldest = |choice: &Self| choice.slices(bounds).oldest(now);
        let mut covering = all.clone();
        let covering = covering.find(|choice| oldest(choice) <= choice.slices(bounds).from);
        covering.or_else(|| all.min_by_key(oldest))
    }

    pub(super) fn slices(self, bounds: &Range<i64>) -> WindowSlices {
        WindowSlices::around(bounds, self.precision, self.tier, self.since)
    }
}

fn refused(all: &[Resolution], asked: Option<u32>) -> QueryError {
    let mut precisions: Vec<_> = all.iter().map(|choice| choice.precision).collect();
    precisions.dedup();
    let precisions: Vec<_> = precisions.iter().map(u32::to_string).collect();
    let precisions = precisions.join(", ");
    let asked = asked.unwrap_or_default();
    let message = format!("precision is {asked}: the metric allows {precisions}");
    QueryError::parameter("precision", message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::window::Window;

    const NOW: i64 = 1_700_000_000;

    fn chosen(has_counters: bool, given: Option<u32>, asked: Option<Window>) -> (u32, bool, i64) {
        let all = Resolution::all(&Precisions::default(), has_counters, Tiers::default());
        let bounds = asked.map(|window| window.bounds(NOW));
        let chosen = Resolution::choose(&all, given, bounds.as_ref(), NOW).expect("there is one");
        let seconds = bounds.map_or(0, |bounds| chosen.slices(&bounds).seconds());
        let points = seconds / i64::from(chosen.precision);
        (chosen.precision, chosen.is_counter, points)
    }

    #[test]
    fn a_window_has_a_sensible_number_of_points() {
        let last = |seconds| Some(Window::seconds(seconds));
        for (asked, with_counters, with_records) in [
            (last(300), (5, true, 61), (60, false, 6)),
            (last(900), (60, true, 16), (60, false, 16)),
            (last(3_600), (60, true, 61), (60, false, 61)),
            (last(21_600), (300, true, 73), (1_800, false, 13)),
            (last(86_400), (1_800, false, 49), (1_800, false, 49)),
            (last(604_800), (18_000, true, 35), (21_600, false, 29)),
            (Some(Window::HOUR), (60, true, 60), (60, false, 60)),
            (Some(Window::LAST_HOUR), (60, true, 60), (60, false, 60)),
        ] {
            assert_eq!(chosen(true, None, asked), with_counters, "{asked:?}");
            assert_eq!(chosen(false, None, asked), with_records, "{asked:?}");
        }
        let between = |from, to| Some(Window::of(NOW - from, NOW - to));
        assert_eq!(chosen(true, None, between(100, 40)), (1, true, 60));
        let two_months = chosen(true, None, between(5_000_000, 0));
        assert_eq!(two_months, (86_400, true, 58));
        // No slices are kept for so long.
        assert_eq!(chosen(true, None, between(NOW, 0)).0, 86_400);
        assert_eq!(chosen(false, None, between(2_000_000, 0)).0, 21_600);
    }

    #[test]
    fn the_rows_of_a_list_have_few_points() {
        let windows = [300, 900, 3_600, 21_600, 86_400, 604_800];
        let of_rows = |precisions: &Precisions| {
            let windows = windows.map(|seconds| Window::seconds(seconds).bounds(NOW));
            let chosen = windows.map(|window| Resolution::of_rows(precisions, &window, NOW));
            chosen.map(|precision| Some(precision?.seconds))
        };
        let expected = [5, 60, 60, 300, 3_600, 18_000].map(Some);
        assert_eq!(of_rows(&Precisions::default()), expected);
        assert_eq!(of_rows(&Precisions::new([1], 120)), [None; 6]);
    }

    #[test]
    fn slices_of_a_given_length_come_from_counters_or_records() {
        let last = |seconds| Some(Window::seconds(seconds));
        assert_eq!(chosen(true, Some(60), last(3_600)), (60, true, 61));
        // Counters are kept for 120 minutes, records for 130.
        assert_eq!(chosen(true, Some(60), last(7_500)), (60, false, 126));
        assert!(!chosen(true, Some(60), last(86_400)).1);
        assert_eq!(chosen(true, Some(300), last(21_600)), (300, true, 73));
        assert_eq!(chosen(true, Some(1_800), last(21_600)), (1_800, false, 13));
        assert_eq!(chosen(true, None, None), (60, true, 0));
        assert_eq!(chosen(false, None, None), (60, false, 0));
        assert_eq!(chosen(true, Some(21_600), None), (21_600, false, 0));
        let all = Resolution::all(&Precisions::new([7], 9), true, Tiers::default());
        let default = Resolution::choose(&all, None, None, NOW).expect("there is one");
        assert_eq!(default.precision, 7, "counters are not kept by the minute");
        let refused = Resolution::choose(&all, Some(5), None, NOW);
        let refused = format!("{:?}", refused.expect_err("there is none"));
        let expected = "is 5: the metric allows 7, 60, 300, 1800, 3600, 21600, 86400";
        assert!(refused.contains(expected), "{refused}");
    }
}
