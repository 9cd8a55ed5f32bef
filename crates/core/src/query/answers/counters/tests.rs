//! Tests of rates, series and rows.

use super::*;
use tower_pulse_model::recorded::RecordedTime;
use tower_pulse_model::tiers::Tiers;

const NOW: i64 = 1_700_000_000; // 20 s into a minute

fn recorded(created: i64) -> Span {
    Span {
        generation: created,
        recorded: RecordedTime::new(created, []),
        as_of: NOW,
        recorded_until: NOW,
        tiers: Tiers::default(),
        now: NOW,
    }
}

#[test]
fn a_rate_is_about_a_minute_or_a_slice_and_the_current_slice() {
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
    // The service was not running.
    let gap = Span {
        recorded: RecordedTime::new(0, [(NOW - 90, NOW - 30)]),
        ..recorded(0)
    };
    assert_eq!(rate_span(Precision::new(60, 120), &gap).seconds, 30);
    // The retention is shorter than the time of a rate.
    let span = rate_span(Precision::new(1, 10), &recorded(0));
    assert_eq!((NOW - span.from, span.seconds), (9, 9));
    let span = rate_span(Precision::new(60, 1), &recorded(0));
    assert_eq!((NOW - span.from, span.seconds), (20, 20));
}

#[test]
fn a_series_has_a_count_for_each_slice_that_was_recorded() {
    let minute = Precision::new(60, 5);
    let spans = [0, NOW - 70].map(recorded);
    let series = |bounds, at: usize| SeriesSlices::new(minute, bounds, &spans[at]);
    let counts = |series: SeriesSlices<'_>, slices: &[(i64, i64)]| {
        let slices = slices.iter();
        let slices = slices.map(|(ago, n)| SliceCount::new(NOW - 20 - 60 * ago, *n));
        series.counts(&slices.collect::<Vec<_>>())
    };
    let newest = series(None, 0);
    assert_eq!((NOW - newest.from, newest.to - NOW), (260, 40));
    let expected = [Some(0), Some(-7), Some(0), Some(0), Some(3)];
    assert_eq!(counts(newest, &[(9, 1), (3, -7), (0, 3)]), expected);
    // The store is younger than the window. Another program counted before the store was created.
    let expected = [Some(2), None, None, Some(0), Some(0)];
    assert_eq!(counts(series(None, 1), &[(4, 2)]), expected);
    let window = series(Some(Window::seconds(400).bounds(NOW)), 0);
    assert_eq!((NOW - window.from, window.to - NOW), (440, 40));
    let counts = counts(window, &[(6, 1), (5, 1), (4, 2)]);
    let kept = [Some(2), Some(0), Some(0), Some(0), Some(0)];
    assert_eq!(counts, [&[None; 3][..], &kept].concat());
    // The service was not running during part of one minute, and all of the next.
    let gap = Span {
        recorded: RecordedTime::new(0, [(NOW - 150, NOW - 50)]),
        ..recorded(0)
    };
    let with_gap = SeriesSlices::new(minute, None, &gap).counts(&[]);
    assert_eq!(with_gap, [Some(0), Some(0), None, Some(0), Some(0)]);
    // More slices than a row shows.
    let long = series(Some(Window::seconds(86_400).bounds(NOW)), 0);
    assert_eq!((long.to - long.from, long.to - NOW), (75 * 60, 40));
}

#[test]
fn a_row_tells_the_last_slice_that_has_ended_the_rate_and_the_sum() {
    let span = rate_span(Precision::new(60, 120), &recorded(0));
    let row = |slices: &[(i64, i64)]| {
        let slices = slices.iter();
        let slices = slices.map(|(ago, n)| SliceCount::new(NOW - 20 - 60 * ago, *n));
        let row = CounterRow::new("sales", &slices.collect::<Vec<_>>(), span, None);
        (
            row.last,
            row.last_start.map(|at| NOW - at),
            row.rate,
            row.sum,
        )
    };
    let last = Some(80);
    assert_eq!(row(&[]), (Some(0), last, 0.0, 0));
    // The current slice has not ended.
    assert_eq!(row(&[(9, 7), (1, 5), (0, 3)]), (Some(5), last, 0.1, 15));
    assert_eq!(row(&[(2, 7), (1, -8)]), (Some(-8), last, -0.1, -1));
    assert_eq!(row(&[(2, 7)]), (Some(0), last, 0.0, 7));
    assert_eq!(row(&[(120, 9)]), (Some(0), last, 0.0, 0));
    assert_eq!(row(&[(0, 3), (-1, 99)]), (Some(0), last, 0.0375, 3));
    let most = i64::MAX;
    assert_eq!(row(&[(1, most), (0, most)]).3, most);
}

#[test]
fn the_last_slice_is_one_that_can_be_read_was_recorded_and_is_kept() {
    let last = |precision: Precision, behind: i64, created: i64| {
        let recorded = Span {
            as_of: NOW - behind,
            ..recorded(created)
        };
        rate_span(precision, &recorded).last.map(|at| NOW - at)
    };
    let (second, minute) = (Precision::new(1, 120), Precision::new(60, 120));
    assert_eq!(
        (last(second, 0, 0), last(minute, 0, 0)),
        (Some(2), Some(80))
    );
    // If samples of the last 7 s cannot be read yet, the last readable slice is older.
    assert_eq!(last(second, 7, 0), Some(9));
    assert_eq!(
        (last(minute, 19, 0), last(minute, 20, 0)),
        (Some(80), Some(140))
    );
    assert_eq!(
        last(minute, -600, 0),
        Some(80),
        "the store's clock is ahead"
    );
    assert_eq!(last(minute, 0, NOW - 21), Some(80));
    assert_eq!(last(minute, 0, NOW - 20), None, "it was not recorded");
    assert_eq!(last(Precision::new(60, 1), 0, 0), None, "it is not kept");
    let gap = Span {
        recorded: RecordedTime::new(0, [(NOW - 80, NOW - 20)]),
        ..recorded(0)
    };
    let last = rate_span(minute, &gap).last;
    assert_eq!(last, None, "the service was not running");
}
