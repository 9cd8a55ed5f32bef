use super::*;
use tower_pulse_model::tier::DAY;
use tower_pulse_model::tiers::History;

/// 20 s into a minute.
const NOW: i64 = 1_700_000_000;
const WITHOUT_DAYS: Tiers = Tiers { history: None };

fn named(name: &str) -> Window {
    name.parse().expect("it is a name")
}

fn since(since: i64) -> RecordedTime {
    RecordedTime::new(since, [])
}

#[test]
fn a_named_window_and_the_window_before_it_are_kept() {
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
            // These windows get no slices of a day, even if the store has a history.
            let with_days = named(name).slices(days(400, i64::MIN), NOW);
            assert_eq!(with_days, named(name).slices(WITHOUT_DAYS, NOW), "{name}");
        }
    }
}

/// The tiers of a store with a history, whose days have all samples since `since`.
fn days(days: u32, since: i64) -> Tiers {
    let history = Some(History {
        days,
        since,
        renewed_at: NOW,
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
fn an_hour_is_two_half_hours_and_the_hour_before_is_kept() {
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
fn complete_excludes_gaps_and_time_before_the_recording() {
    let slices = Window::seconds(3_600).slices(WITHOUT_DAYS, NOW);
    let length = NOW - slices.from;
    let seconds = |from, until| slices.covered(&since(from), until, NOW).recorded_seconds;
    assert_eq!(seconds(i64::MIN, NOW), length);
    assert_eq!(seconds(NOW - 600, NOW), 600);
    assert_eq!(seconds(i64::MIN, NOW - 600), length - 600);
    assert_eq!(seconds(NOW - 100, NOW - 200), 0);
    let share = |from, until| slices.covered(&since(from), until, NOW).complete;
    assert_eq!(share(NOW - length / 2, NOW), 0.5);
    // If the store's clock is ahead of this instance's, data can be read up to a time after `NOW`. Even then, the share
    // is at most 1.
    assert_eq!(share(i64::MIN, NOW + 7), 1.0);

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
fn a_window_has_a_positive_length() {
    let seconds = |seconds| Window::last(Duration::from_secs(seconds));
    assert_eq!(seconds(0), Window::seconds(1));
    assert_eq!(seconds(u64::MAX), Window::seconds(YEAR_9999));
    let refused = |from, to| Window::between(from, to).expect_err("refused").to_string();
    for (from, to) in [(5, 5), (6, 5), (-1, 5)] {
        assert!(refused(from, to).starts_with("from"), "{from} {to}");
    }
    assert!(refused(1, i64::MAX).starts_with("to"));
}
