use super::*;
use tower_pulse_model::tier::DAY;
use tower_pulse_model::tiers::History;

const NOW: i64 = 1_700_000_000;

fn named(name: &str) -> Window {
    name.parse().expect("it is a name")
}

fn since(since: i64) -> RecordedTime {
    RecordedTime::new(since, [])
}

#[test]
fn slices_contain_their_start_and_not_their_end() {
    let slices = Window::of(NOW - 3_600, NOW).slices(Tiers::default(), NOW);
    let contained = [slices.from - 1, slices.from, slices.to - 1, slices.to];
    assert_eq!(
        contained.map(|time| slices.contains(time)),
        [false, true, true, false]
    );
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
            let rounded = window.rounded(Tiers::default(), now);
            assert_eq!(
                rounded.slices(Tiers::default(), now),
                window.slices(Tiers::default(), now)
            );
            assert_eq!(rounded.rounded(Tiers::default(), now), rounded);
        }
    }
}

#[test]
fn a_named_window_and_the_one_before_it_are_kept() {
    for (name, tier) in [
        ("5m", 60),
        ("15m", 60),
        ("1h", 60),
        ("6h", 1_800),
        ("24h", 1_800),
        ("7d", 21_600),
    ] {
        for now in (NOW..NOW + 21_600).step_by(7) {
            let slices = named(name).slices(Tiers::default(), now);
            assert_eq!(slices.tier.seconds, tier, "{name} at {now}");
            assert!(slices.contains(now) && slices.to - now <= i64::from(tier));
            assert!(slices.from <= named(name).bounds(now).start);
            assert!(slices.from > named(name).bounds(now).start - i64::from(tier));
            let before = slices.before();
            assert_eq!(
                (before.to, before.seconds()),
                (slices.from, slices.seconds())
            );
            let starts: Vec<_> = before.starts(now).collect();
            assert_eq!(starts.first(), Some(&before.from), "{name} at {now}");
            assert_eq!(starts.len() as i64, before.seconds() / i64::from(tier));
            assert!((before.covered(&since(i64::MIN), now, now).complete - 1.0).abs() < 1e-9);
        }
    }
}

/// The tiers of a store with a history of this many days. Its days have all samples since `since`.
fn days(days: u32, since: i64) -> Tiers {
    let history = History {
        days,
        since,
        asked_at: NOW,
    };
    Tiers {
        history: Some(history),
    }
}

#[test]
fn a_history_has_the_windows_of_a_month_and_of_a_quarter() {
    for (name, points) in [("30d", 31), ("90d", 91)] {
        let tiers = days(400, i64::MIN);
        let slices = named(name).slices(tiers, NOW);
        assert_eq!(slices.tier, Precision::new(DAY, 400), "{name}");
        assert_eq!(slices.starts(NOW).count(), points, "{name}");
        assert_eq!(slices.before().starts(NOW).count(), points, "{name}");
        let complete = slices.before().covered(&since(i64::MIN), NOW, NOW).complete;
        assert!((complete - 1.0).abs() < 1e-9);
        // Without a history, the tier of six hours goes back furthest.
        let slices = named(name).slices(Tiers::default(), NOW);
        assert_eq!((slices.tier, slices.since), (TIERS[2], i64::MIN), "{name}");
        assert!(slices.covered(&since(i64::MIN), NOW, NOW).complete < 0.51);
    }
    for name in ["5m", "15m", "1h", "6h", "24h", "7d"] {
        let window = named(name);
        let with_days = window.slices(days(400, i64::MIN), NOW);
        assert_eq!(with_days, window.slices(Tiers::default(), NOW), "{name}");
    }
}

#[test]
fn days_before_a_history_began_are_not_recorded() {
    let day = i64::from(DAY);
    let month = Window::seconds(30 * day);
    let young = month.slices(days(90, NOW - 3 * day), NOW);
    assert_eq!(young.tier, TIERS[2], "six hours go back further");
    let begun = NOW - 20 * day;
    let slices = month.slices(days(90, begun), NOW);
    assert_eq!(slices.tier.seconds, DAY);
    assert_eq!(
        slices.covered(&since(i64::MIN), NOW, NOW).recorded_seconds,
        20 * day
    );
    assert_eq!(
        slices.covered(&since(NOW - day), NOW, NOW).recorded_seconds,
        day
    );
    let first = slices.starts(NOW).next();
    assert_eq!(first, Some(slices.tier.slice(begun)), "partly recorded");
    assert_eq!(
        slices.before().covered(&since(i64::MIN), NOW, NOW).complete,
        0.0
    );
    // A history of 30 days does not have the month before, for a comparison.
    let slices = month.slices(days(30, i64::MIN), NOW);
    assert_eq!(slices.tier.seconds, DAY);
    assert_eq!(slices.before().starts(NOW).count(), 0);
}

#[test]
fn an_hour_is_two_half_hours_and_the_one_before_it_is_kept() {
    for (hours, now) in [
        (0, NOW),
        (1, NOW),
        (1, hour_of(NOW)),
        (0, hour_of(NOW) + HOUR - 1),
    ] {
        let slices = Window(Asked::HoursAgo(hours)).slices(Tiers::default(), now);
        assert_eq!(slices.from, hour_of(now) - hours * HOUR);
        assert_eq!((slices.tier.seconds, slices.seconds()), (1_800, HOUR));
        let starts: Vec<_> = slices.before().starts(now).collect();
        assert_eq!(starts, [slices.from - HOUR, slices.from - HOUR / 2]);
    }
}

#[test]
fn a_window_between_two_times_is_rounded_outward() {
    let between = |from: i64, to: i64| {
        let slices = Window::of(NOW + from, NOW + to).slices(Tiers::default(), NOW);
        (slices.tier.seconds, slices.from - NOW, slices.to - NOW)
    };
    // NOW is 20 s into a minute.
    assert_eq!(between(-100, -40), (60, -140, -20));
    assert_eq!(between(-80, -20), (60, -80, -20));
    assert_eq!(
        between(-80, 500),
        (60, -80, 40),
        "the window ends with the current slice"
    );
    assert_eq!(between(-7_700, -7_600).0, 60);
    assert_eq!(
        between(-7_900, -7_600).0,
        1_800,
        "minutes of that time are not kept"
    );
    assert_eq!(between(-200_000, -100).0, 21_600);
    let old = Window::of(0, 100_000).slices(Tiers::default(), NOW);
    assert_eq!((old.tier.seconds, old.from, old.to), (21_600, 0, 108_000));
    assert_eq!(
        (
            old.starts(NOW).count(),
            old.covered(&since(0), NOW, NOW).complete
        ),
        (0, 0.0)
    );
}

#[test]
fn what_was_not_recorded_is_not_complete() {
    let slices = Window::seconds(3_600).slices(Tiers::default(), NOW);
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
    let slices = Window::seconds(3_600).slices(Tiers::default(), NOW);
    let recorded = RecordedTime::new(NOW - 600, [(NOW - 500, NOW - 200)]);
    let found = |until: i64| {
        let part = slices.covered(&recorded, until, NOW);
        assert_eq!(slices.passed(NOW), NOW - slices.from);
        (part.recorded_seconds, part.not_running_seconds)
    };
    assert_eq!((found(NOW), found(NOW - 300)), ((300, 300), (100, 200)));
    let gaps = slices.not_running(&recorded, NOW - 300, NOW);
    assert_eq!(gaps, [(NOW - 500, NOW - 300)]);
    // These slices are not retained.
    let old = Window::of(0, 100_000).slices(Tiers::default(), NOW);
    let gap = RecordedTime::new(0, [(10, 20)]);
    assert_eq!(old.covered(&gap, NOW, NOW).not_running_seconds, 0);
}

#[test]
fn a_short_lag_counts_as_recorded_unless_it_may_last() {
    for (lag, uncertain, until) in [
        (0, false, 0),
        (LAG, false, 0),
        (LAG + 1, false, -LAG - 1),
        (1, true, -1),
        (-7, false, 0),
        (-7, true, 0),
    ] {
        let found = recorded_until(NOW - lag, NOW, uncertain) - NOW;
        assert_eq!(found, until, "{lag} s, {uncertain}");
    }
}

#[test]
fn every_name_is_a_window() {
    for name in Window::NAMES {
        let window: Window = name.parse().expect("it is a name");
        let hours = ["hour", "last_hour"].contains(&name);
        assert_eq!(window.is_hour(), hours, "{name}");
    }
    let error = "2h".parse::<Window>().expect_err("it is none").to_string();
    assert!(error.contains("24h, 7d, 30d, 90d"), "{error}");
}

#[test]
fn a_window_has_a_length() {
    let seconds = |seconds| Window::last(Duration::from_secs(seconds));
    assert_eq!(seconds(0), Window::seconds(1));
    assert_eq!(seconds(u64::MAX), Window::seconds(YEAR_9999));
    for (from, to, field) in [
        (5, 5, "from"),
        (6, 5, "from"),
        (-1, 5, "from"),
        (1, i64::MAX, "to"),
    ] {
        let error = Window::between(from, to).expect_err("it is refused");
        assert!(error.to_string().starts_with(field), "{error}");
    }
}
