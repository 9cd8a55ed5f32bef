//! Tests of rates, series and rows.

use super::*;
use tower_pulse_model::recorded::RecordedTime;
use tower_pulse_model::tiers::Tiers;

/// 20 s into a minute.
const NOW: i64 = 1_700_000_000;
const MINUTE: Precision = Precision::new(60, 120);

/// A store that was created at this time, and has recorded without gaps since then.
pub(in crate::query::answers) fn recorded(created: i64) -> Span {
    Span {
        generation: created,
        recorded: RecordedTime::new(created, []),
        as_of: NOW,
        recorded_until: NOW,
        tiers: Tiers::default(),
        now: NOW,
    }
}

/// The service was not running between `from` and `to`, in seconds before `NOW`.
fn not_running(from: i64, to: i64) -> Span {
    Span {
        recorded: RecordedTime::new(0, [(NOW - from, NOW - to)]),
        ..recorded(0)
    }
}

/// Slices of a minute. Each pair has the age of the slice in minutes, and its count.
fn counts(minutes: &[(i64, i64)]) -> Vec<SliceCount> {
    let slice = |(ago, n): &(i64, i64)| SliceCount::new(NOW - 20 - 60 * ago, *n);
    minutes.iter().map(slice).collect()
}

#[test]
fn a_rate_covers_a_minute_or_a_slice_and_the_current_slice() {
    let span = |seconds, created| {
        let span = rate_span(Precision::new(seconds, 120), &recorded(created));
        (NOW - span.from, span.to - NOW, span.seconds)
    };
    assert_eq!(span(1, 0), (60, 1, 60));
    assert_eq!(span(5, 0), (60, 5, 60));
    assert_eq!(span(7, 0), (69, 1, 69));
    assert_eq!(span(60, 0), (80, 40, 80));
    assert_eq!(span(3_600, 0), (4_400, 2_800, 4_400));
    // A part of the time was not recorded.
    assert_eq!(span(60, NOW - 30), (80, 40, 30));
    assert_eq!(span(60, NOW), (80, 40, 1));
    assert_eq!(rate_span(MINUTE, &not_running(90, 30)).seconds, 30);
    // The retention is shorter than the time of a rate.
    for (precision, seconds) in [(Precision::new(1, 10), 9), (Precision::new(60, 1), 20)] {
        let span = rate_span(precision, &recorded(0));
        assert_eq!((NOW - span.from, span.seconds), (seconds, seconds));
    }
}

#[test]
fn a_series_has_a_count_for_each_slice_that_was_recorded() {
    let minute = Precision::new(60, 5);
    let spans = [0, NOW - 70].map(recorded);
    let series = |bounds, at: usize| SeriesSlices::new(minute, bounds, &spans[at]);
    let last = |seconds| series(Some(Window::seconds(seconds).bounds(NOW)), 0);
    let bounds = |series: SeriesSlices<'_>| (NOW - series.from, series.to - NOW);
    let newest = series(None, 0);
    assert_eq!(bounds(newest), (260, 40));
    let expected = [Some(0), Some(-7), Some(0), Some(0), Some(3)];
    assert_eq!(newest.counts(&counts(&[(9, 1), (3, -7), (0, 3)])), expected);
    // The store is younger than the slices. Another program counted before the store was created.
    let expected = [Some(2), None, None, Some(0), Some(0)];
    assert_eq!(series(None, 1).counts(&counts(&[(4, 2)])), expected);
    assert_eq!(bounds(last(400)), (440, 40));
    let counts_of_window = last(400).counts(&counts(&[(6, 1), (5, 1), (4, 2)]));
    let kept = [Some(2), Some(0), Some(0), Some(0), Some(0)];
    assert_eq!(counts_of_window, [&[None; 3][..], &kept].concat());
    // The service was not running during a whole minute, and during parts of the minutes before and after.
    let with_gap = SeriesSlices::new(minute, None, &not_running(150, 50)).counts(&[]);
    assert_eq!(with_gap, [Some(0), Some(0), None, Some(0), Some(0)]);
    // The window has more slices than a row shows.
    assert_eq!(bounds(last(86_400)), (75 * 60 - 40, 40));
}

#[test]
fn a_row_has_the_last_ended_slice_the_rate_and_the_sum() {
    let span = rate_span(MINUTE, &recorded(0));
    let row = |minutes: &[(i64, i64)]| {
        let row = CounterRow::new("sales", &counts(minutes), span, None);
        assert_eq!(row.last_start, Some(NOW - 80));
        (row.last, row.rate, row.sum)
    };
    assert_eq!(row(&[]), (Some(0), 0.0, 0));
    // The current slice has not ended.
    assert_eq!(row(&[(9, 7), (1, 5), (0, 3)]), (Some(5), 0.1, 15));
    assert_eq!(row(&[(2, 7), (1, -8)]), (Some(-8), -0.1, -1));
    assert_eq!(row(&[(2, 7)]), (Some(0), 0.0, 7));
    assert_eq!(row(&[(120, 9)]), (Some(0), 0.0, 0));
    assert_eq!(row(&[(0, 3), (-1, 99)]), (Some(0), 0.0375, 3));
    let most = i64::MAX;
    assert_eq!(row(&[(1, most), (0, most)]).2, most);
}

#[test]
fn the_last_slice_is_readable_recorded_and_kept() {
    let last = |precision: Precision, behind: i64, created: i64| {
        let recorded = Span {
            as_of: NOW - behind,
            ..recorded(created)
        };
        rate_span(precision, &recorded).last.map(|at| NOW - at)
    };
    let second = Precision::new(1, 120);
    assert_eq!(last(second, 0, 0), Some(2));
    assert_eq!(last(MINUTE, 0, 0), Some(80));
    // The samples of the last 7 s cannot be read yet, so the last readable slice is older.
    assert_eq!(last(second, 7, 0), Some(9));
    assert_eq!(last(MINUTE, 19, 0), Some(80));
    assert_eq!(last(MINUTE, 20, 0), Some(140));
    // The store's clock is ahead.
    assert_eq!(last(MINUTE, -600, 0), Some(80));
    assert_eq!(last(MINUTE, 0, NOW - 21), Some(80));
    assert_eq!(last(MINUTE, 0, NOW - 20), None, "it was not recorded");
    assert_eq!(last(Precision::new(60, 1), 0, 0), None, "it is not kept");
    assert_eq!(rate_span(MINUTE, &not_running(80, 20)).last, None);
}
