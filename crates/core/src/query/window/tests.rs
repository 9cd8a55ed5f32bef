use super::*;
use tower_pulse_model::tier::DAY;
use tower_pulse_model::tiers::History;

/// 20 s into a minute.
const NOW: i64 = 1_700_000_000;
/// The tiers of a store without a history.
const WITHOUT_DAYS: Tiers = Tiers { history: None };

fn named(name: &str) -> Window {
    name.parse().expect("it is a name")
}

fn since(since: i64) -> RecordedTime {
    RecordedTime::new(since, [])
}

#[test]
fn slices_contain_their_start_and_not_their_end() {
    let slices = Window::of(NOW - 3_600, NOW).slices(WITHOUT_DAYS, NOW);
    let contained = [slices.from - 1, slices.from, slices.to - 1, slices.to];
    let contained = contained.map(|time| slices.contains(time));
    assert_eq!(contained, [false, true, true, false]);
}

#[test]
fn a_rounded_window_has_the_same_slices() {
    for (from, to) in [
        (30, 0),
        (3_600, 60),
        (9_000, 8_000),
        (400_000, 0),
        (2_000_000, 7),
    ] {
        for now in (NOW..NOW + 3_600).step_by(13) {
            let window = Window::of(now - from, now - to + 1);
            let rounded = window.rounded(WITHOUT_DAYS, now);
            let slices = window.slices(WITHOUT_DAYS, now);
            assert_eq!(rounded.slices(WITHOUT_DAYS, now), slices);
            assert_eq!(rounded.rounded(WITHOUT_DAYS, now), rounded);
        }
    }
}

#[test]
fn a_named_window_and_the_one_before_it_are_kept() {
    for (tier, names) in [(60, "5m 15m 1h"), (1_800, "6h 24h"), (21_600, "7d")] {
        for name in names.split(' ') {
            for now in (NOW..NOW + 21_600).step_by(7) {
                let slices = named(name).slices(WITHOUT_DAYS, now);
                assert_eq!(slices.tier.seconds, tier, "{name} at {now}");
                let tier = i64::from(tier);
                assert!(slices.contains(now) && slices.to - now <= tier);
                let rounded_by = named(name).bounds(now).start - slices.from;
                assert!((0..tier).contains(&rounded_by), "{name} at {now}");
                let before = slices.before();
                assert_eq!(before.to, slices.from);
                assert_eq!(before.seconds(), slices.seconds());
                let starts = (before.from..before.to).step_by(tier as usize);
                assert!(before.starts(now).eq(starts), "{name} at {now}");
                assert!((before.covered(&since(i64::MIN), now, now).complete - 1.0).abs() < 1e-9);
            }
            // It has no days, even where a history has them.
            let with_days = named(name).slices(days(400, i64::MIN), NOW);
            assert_eq!(with_days, named(name).slices(WITHOUT_DAYS, NOW), "{name}");
        }
    }
}

/// The tiers of a store with a history of this many days. Its days have all samples since `since`.
fn days(days: u32, since: i64) -> Tiers {
    let history = Some(History {
        days,
        since,
        asked_at: NOW,
    });
    Tiers { history }
}

#[test]
fn a_history_has_the_windows_of_a_month_and_of_a_quarter() {
    let complete = |slices: WindowSlices| slices.covered(&since(i64::MIN), NOW, NOW).complete;
    for (name, points) in [("30d", 31), ("90d", 91)] {
        let slices = named(name).slices(days(400, i64::MIN), NOW);
        assert_eq!(slices.tier, Precision::new(DAY, 400), "{name}");
        assert_eq!(slices.starts(NOW).count(), points, "{name}");
        assert_eq!(slices.before().starts(NOW).count(), points, "{name}");
        assert!((complete(slices.before()) - 1.0).abs() < 1e-9);
        // Without a history, the tier of six hours goes back furthest.
        let slices = named(name).slices(WITHOUT_DAYS, NOW);
        assert_eq!((slices.tier, slices.since), (TIERS[2], i64::MIN), "{name}");
        assert!(complete(slices) < 0.51);
    }
}

#[test]
fn days_before_a_history_began_are_not_recorded() {
    let day = i64::from(DAY);
    let month = |history| Window::seconds(30 * day).slices(history, NOW);
    let young = month(days(90, NOW - 3 * day));
    assert_eq!(young.tier, TIERS[2], "six hours go back further");
    let begun = NOW - 20 * day;
    let slices = month(days(90, begun));
    assert_eq!(slices.tier.seconds, DAY);
    for (from, recorded) in [(i64::MIN, 20 * day), (NOW - day, day)] {
        let covered = slices.covered(&since(from), NOW, NOW);
        assert_eq!(covered.recorded_seconds, recorded);
    }
    let first = slices.starts(NOW).next();
    assert_eq!(first, Some(slices.tier.slice(begun)), "partly recorded");
    let before = slices.before().covered(&since(i64::MIN), NOW, NOW);
    assert_eq!(before.complete, 0.0);
    // A history of 30 days does not have the month before, for a comparison.
    let slices = month(days(30, i64::MIN));
    assert_eq!(slices.tier.seconds, DAY);
    assert_eq!(slices.before().starts(NOW).count(), 0);
}

#[test]
fn an_hour_is_two_half_hours_and_the_one_before_it_is_kept() {
    let hour = hour_of(NOW);
    for (hours, now) in [(0, NOW), (1, NOW), (1, hour), (0, hour + HOUR - 1)] {
        let slices = Window(Asked::HoursAgo(hours)).slices(WITHOUT_DAYS, now);
        assert_eq!(slices.from, hour_of(now) - hours * HOUR);
        assert_eq!((slices.tier.seconds, slices.seconds()), (1_800, HOUR));
        let starts: Vec<_> = slices.before().starts(now).collect();
        assert_eq!(starts, [slices.from - HOUR, slices.from - HOUR / 2]);
    }
}

#[test]
fn a_window_between_two_times_is_rounded_outward() {
    let between = |from: i64, to: i64| {
        let slices = Window::of(NOW + from, NOW + to).slices(WITHOUT_DAYS, NOW);
        (slices.tier.seconds, slices.from - NOW, slices.to - NOW)
    };
    assert_eq!(between(-100, -40), (60, -140, -20));
    assert_eq!(between(-80, -20), (60, -80, -20));
    // The window ends with the current slice.
    assert_eq!(between(-80, 500), (60, -80, 40));
    assert_eq!(between(-7_700, -7_600).0, 60);
    // Minutes of that time are not kept.
    assert_eq!(between(-7_900, -7_600).0, 1_800);
    assert_eq!(between(-200_000, -100).0, 21_600);
    let old = Window::of(0, 100_000).slices(WITHOUT_DAYS, NOW);
    assert_eq!((old.tier.seconds, old.from, old.to), (21_600, 0, 108_000));
    assert_eq!(old.starts(NOW).count(), 0);
    assert_eq!(old.covered(&since(0), NOW, NOW).complete, 0.0);
}

#[test]
fn what_was_not_recorded_is_not_complete() {
    let slices = Window::seconds(3_600).slices(WITHOUT_DAYS, NOW);
    let length = NOW - slices.from;
    let seconds = |from, until| slices.covered(&since(from), until, NOW).recorded_seconds;
    assert_eq!(seconds(i64::MIN, NOW), length);
    assert_eq!(seconds(NOW - 600, NOW), 600);
    assert_eq!(seconds(i64::MIN, NOW - 600), length - 600);
    assert_eq!(seconds(NOW - 100, NOW - 200), 0);
    let share = |from, until| slices.covered(&since(from), until, NOW).complete;
    assert_eq!(share(NOW - length / 2, NOW), 0.5);
    // The store's clock is ahead of this instance's, so data can be read up to a time after `NOW`. The share is still
    // at most 1.
    assert_eq!(share(i64::MIN, NOW + 7), 1.0);
}

#[test]
fn a_gap_is_not_recorded() {
    let slices = Window::seconds(3_600).slices(WITHOUT_DAYS, NOW);
    let recorded = RecordedTime::new(NOW - 600, [(NOW - 500, NOW - 200)]);
    let found = |until: i64| {
        let part = slices.covered(&recorded, until, NOW);
        (part.recorded_seconds, part.not_running_seconds)
    };
    assert_eq!(slices.passed(NOW), NOW - slices.from);
    assert_eq!((found(NOW), found(NOW - 300)), ((300, 300), (100, 200)));
    let gaps = slices.not_running(&recorded, NOW - 300, NOW);
    assert_eq!(gaps, [(NOW - 500, NOW - 300)]);
    // These slices are not retained.
    let old = Window::of(0, 100_000).slices(WITHOUT_DAYS, NOW);
    let gap = RecordedTime::new(0, [(10, 20)]);
    assert_eq!(old.covered(&gap, NOW, NOW).not_running_seconds, 0);
}

#[test]
fn a_short_lag_counts_as_recorded_unless_it_may_last() {
    let until = |lag, uncertain| recorded_until(NOW - lag, NOW, uncertain) - NOW;
    let certain = [0, LAG, LAG + 1, -7].map(|lag| until(lag, false));
    assert_eq!(certain, [0, 0, -LAG - 1, 0]);
    assert_eq!([1, -7].map(|lag| until(lag, true)), [-1, 0]);
}

#[test]
fn every_name_is_a_window() {
    for name in Window::NAMES {
        let hours = ["hour", "last_hour"].contains(&name);
        assert_eq!(named(name).is_hour(), hours, "{name}");
    }
    let error = "2h".parse::<Window>().expect_err("it is none").to_string();
    assert!(error.contains("24h, 7d, 30d, 90d"), "{error}");
}

#[test]
fn a_window_has_a_length() {
    let seconds = |seconds| Window::last(Duration::from_secs(seconds));
    assert_eq!(seconds(0), Window::seconds(1));
    assert_eq!(seconds(u64::MAX), Window::seconds(YEAR_9999));
    let refused = |from, to| Window::between(from, to).expect_err("refused").to_string();
    for (from, to) in [(5, 5), (6, 5), (-1, 5)] {
        assert!(refused(from, to).starts_with("from"), "{from} {to}");
    }
    assert!(refused(1, i64::MAX).starts_with("to"));
}
