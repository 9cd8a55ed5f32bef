use super::*;
use crate::pack::{pack, unpack};
use proptest::collection::vec;
use proptest::prelude::*;

const WEEK: i64 = WEEK_HOURS as i64 * HOUR;
/// A Wednesday, 15:00.
const START: i64 = 1_700_060_400;
const AT: usize = 2 * 24 + 15; // the number of this hour within its week

fn requests(count: u64, millis: u64, errors: u64) -> Aggregate {
    let mut aggregate = crate::tests::requests(count, millis * 1_000_000);
    aggregate.outcomes.errors = errors;
    aggregate
}

fn recorded(hours: i64) -> RecordedHours {
    let mut recorded = RecordedHours::beginning_at(START);
    (0..hours).for_each(|at| recorded.push(START + at * HOUR, MINUTES));
    recorded
}

#[track_caller]
fn assert_near(number: Option<f64>, expected: f64) {
    let number = number.expect("there are requests");
    let is_near = (number - expected).abs() <= 1e-9 * expected.abs().max(1.0);
    assert!(is_near, "{number} instead of {expected}");
}

fn known(profile: &Profile) -> Vec<(usize, ProfileHour)> {
    let hours = profile.hours().iter().copied().enumerate();
    hours.filter(|(_, hour)| hour.weeks > 0).collect()
}

#[test]
fn the_week_begins_on_monday_at_midnight_utc() {
    // 2026-11-23 00:00 UTC, a Monday.
    let monday = 1_795_392_000;
    assert_eq!(hour_of_week(monday), 0);
    assert_eq!(hour_of_week(monday - 1), 167);
    assert_eq!(hour_of_week(monday + 3_599), 0);
    assert_eq!(hour_of_week(monday + WEEK + 3_600), 1);
    assert_eq!(hour_of_week(0), 3 * 24, "1970-01-01 was a Thursday");
    assert_eq!(hour_of_week(-1), 3 * 24 - 1);
    // Nights in which clocks change in Europe and in America have as many hours as other nights.
    for night in [1_774_745_999, 1_793_008_799, 1_772_956_799, 1_793_523_599] {
        let (hour, next) = (hour_of_week(night), hour_of_week(night + HOUR));
        assert_eq!(next, (hour + 1) % WEEK_HOURS);
    }
    assert_eq!(hour_of_week(START), AT);
}

#[test]
fn each_week_multiplies_the_weight_of_earlier_weeks_by_three_quarters() {
    let recorded = recorded(4 * 168);
    let mut profile = Profile::beginning_at(START);
    for (week, count, millis, errors) in [(0, 100, 10, 10), (1, 200, 20, 0), (2, 40, 30, 4)] {
        let requests = requests(count, millis, errors);
        assert!(profile.apply(START + week * WEEK, &requests, &recorded));
    }
    let hour = profile.hours()[AT];
    let (old, older) = (0.75, 0.75 * 0.75);
    let weight = 1.0 + old + older;
    let count = 40.0 + 200.0 * old + 100.0 * older;
    assert_eq!(hour.weeks, 3);
    assert_near(Some(hour.weight), weight);
    let seconds = 40.0 * 0.030 + 200.0 * 0.020 * old + 100.0 * 0.010 * older;
    assert_near(hour.requests_per_hour(), count / weight);
    assert_near(hour.errors_per_hour(), (4.0 + 10.0 * older) / weight);
    assert_near(hour.mean(), seconds / count);
    // The percentile is exact, because all requests of an hour take the same time.
    assert_near(hour.tail(), seconds / count);
    // The next hour was recorded twice, without requests.
    let next = profile.hours()[AT + 1];
    assert_eq!((next.weeks, next.requests), (2, 0.0));
    assert_eq!((next.requests_per_hour(), next.mean()), (Some(0.0), None));
}

#[test]
fn an_hour_is_applied_once() {
    let recorded = recorded(200);
    let mut profile = Profile::beginning_at(START);
    assert!(profile.apply(START + HOUR, &requests(10, 1, 0), &recorded));
    let once = profile.clone();
    for hour in [START + HOUR, START, START - WEEK] {
        assert!(!profile.apply(hour, &requests(10, 1, 0), &recorded));
        assert_eq!(profile, once);
    }
    profile.apply_idle(START + 2 * HOUR, &recorded);
    assert_eq!(profile, once);
}

#[test]
fn hours_without_requests_count_if_they_were_recorded() {
    let mut recorded = recorded(2);
    recorded.push(START + 26 * HOUR, 30);
    recorded.push(START + 27 * HOUR, MINUTES);
    let mut profile = Profile::beginning_at(START);
    profile.apply(START, &requests(60, 1, 0), &recorded);
    profile.apply_idle(recorded.until(), &recorded);
    let weights = known(&profile).into_iter();
    let weights = weights.map(|(at, hour)| (at - AT, hour.weight));
    assert!(weights.eq([(0, 1.0), (1, 1.0), (26, 0.5), (27, 1.0)]));
    assert_eq!(profile.until(), recorded.until());
    profile.apply_idle(START + 100 * HOUR, &recorded);
    assert_eq!(known(&profile).len(), 4);
}

#[test]
fn a_part_of_an_hour_weighs_as_much_as_the_part() {
    let mut recorded = RecordedHours::beginning_at(START);
    // An hour with requests counts as recorded for at least a minute.
    let mut profile = Profile::beginning_at(START);
    assert!(profile.apply(START, &requests(2, 1, 0), &recorded));
    assert_near(profile.hours()[AT].requests_per_hour(), 120.0);

    recorded.push(START, 20);
    recorded.push(START + WEEK, MINUTES);
    let mut profile = Profile::beginning_at(START);
    profile.apply(START, &requests(100, 1, 0), &recorded);
    assert_near(profile.hours()[AT].requests_per_hour(), 300.0);
    profile.apply(START + WEEK, &requests(100, 1, 0), &recorded);
    let expected = (100.0 + 75.0) / (1.0 + 0.25);
    assert_near(profile.hours()[AT].requests_per_hour(), expected);
}

#[test]
fn a_page_has_no_zeros_from_before_its_first_request() {
    let recorded = recorded(400);
    let mut profile = Profile::beginning_at(START + 200 * HOUR);
    profile.apply(START + 200 * HOUR, &requests(5, 1, 0), &recorded);
    assert_eq!(known(&profile).len(), 1);
}

#[test]
fn a_profile_that_was_ahead_continues_after_it_is_reopened() {
    let recorded = recorded(2);
    let mut profile = Profile::beginning_at(START + 500 * WEEK);
    assert!(!profile.apply(START, &requests(5, 1, 0), &recorded));
    profile.reopen_from(START);
    assert!(profile.apply(START, &requests(5, 1, 0), &recorded));
    profile.reopen_from(START + WEEK);
    assert_eq!(profile.until(), START + HOUR);
}

#[test]
fn weeks_are_counted_up_to_255_and_the_weight_stays_below_four() {
    let mut profile = Profile::beginning_at(START);
    for week in 0..300 {
        let mut recorded = RecordedHours::beginning_at(START + week * WEEK);
        recorded.push(START + week * WEEK, MINUTES);
        profile.apply(START + week * WEEK, &requests(50, 8, 1), &recorded);
        profile = unpack(&pack(&profile)).expect("a profile");
    }
    let hour = profile.hours()[AT];
    assert_eq!(hour.weeks, 255);
    assert!((3.999..=4.0).contains(&hour.weight), "{}", hour.weight);
    let requests = hour.requests_per_hour().expect("it was recorded");
    assert!((requests - 50.0).abs() < 0.02, "{requests}");
    let mean = hour.mean().expect("there are requests");
    assert!((mean - 0.008).abs() < 0.008 * 1e-4, "{mean}");
}

#[test]
fn a_full_profile_takes_15_bytes_for_each_hour() {
    let (mut profile, recorded) = (Profile::beginning_at(START), recorded(1_000));
    for hour in 0..1_000 {
        profile.apply(START + hour * HOUR, &requests(700, 42, 7), &recorded);
    }
    let bytes = pack(&profile).len() as u64;
    assert!((2_520..=2_528).contains(&bytes), "{bytes}");
    // A new profile takes a byte for each hour.
    assert_eq!(pack(&Profile::beginning_at(START)).len(), 168 + 5);
}

fn sums(hour: &ProfileHour) -> [f64; 4] {
    let (seconds, tail_seconds) = (hour.seconds, hour.tail_seconds);
    [hour.requests, hour.errors, seconds, tail_seconds]
}

fn hours() -> impl Strategy<Value = ProfileHour> {
    let sums = vec(prop_oneof![Just(0.0), 0.0..1e12, Just(f64::MAX)], 4);
    (any::<u8>(), 0.0..=4.0, sums).prop_map(|(weeks, weight, sums)| match weeks {
        0 => ProfileHour::default(),
        weeks => ProfileHour {
            weeks,
            weight,
            requests: sums[0],
            errors: sums[1],
            seconds: sums[2],
            tail_seconds: sums[3],
        },
    })
}

proptest! {
    #[test]
    fn a_packed_profile_is_read_back(hours in vec(hours(), WEEK_HOURS), until in -1_000_000..1_000_000i64) {
        let mut profile = Profile::beginning_at(until * HOUR);
        profile.hours.copy_from_slice(&hours);
        let read = unpack::<Profile>(&pack(&profile)).expect("it is one");
        prop_assert_eq!(read.until(), until * HOUR);
        for (read, hour) in read.hours().iter().zip(&hours) {
            prop_assert_eq!(read.weeks, hour.weeks);
            prop_assert!((read.weight - hour.weight).abs() <= WEIGHT_UNIT);
            for (read, sum) in sums(read).into_iter().zip(sums(hour)) {
                let sum = sum.min(f64::from(f32::MAX));
                prop_assert!((read - sum).abs() <= 1e-5 * sum, "{} {}", read, sum);
            }
        }
        // A value that was rounded once is not changed by another rounding.
        prop_assert_eq!(unpack::<Profile>(&pack(&read)), Some(read));
    }

    #[test]
    fn arbitrary_bytes_are_refused_or_give_finite_sums(mut bytes in vec(any::<u8>(), 0..3_000), until in any::<i64>()) {
        let mut begun = pack(&Profile::beginning_at(hour_of(until)));
        begun.truncate(begun.len() - WEEK_HOURS);
        begun.append(&mut bytes);
        for cut in [&begun[..], &begun[begun.len().min(5)..]] {
            if let Some(mut profile) = unpack::<Profile>(cut) {
                let is_sane = |sum: f64| sum.is_finite() && sum >= 0.0;
                let mut hours = profile.hours().iter();
                prop_assert!(hours.all(|hour| is_sane(hour.weight) && sums(hour).into_iter().all(is_sane)));
                profile.apply(START, &requests(3, 1, 0), &recorded(3));
                profile.apply_idle(START + WEEK, &recorded(100));
            }
        }
    }
}
