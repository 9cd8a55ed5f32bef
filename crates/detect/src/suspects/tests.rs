use super::*;
use tower_pulse_model::context::Kind;
use tower_pulse_model::outcome::Outcome;
use tower_pulse_model::timer_sums::TimerSums;

/// The sums of requests, some of which failed.
fn requests(count: u64, failed: u64) -> Aggregate {
    let mut sums = Aggregate::default();
    for number in 0..count {
        sums.times.record(1_000_000);
        sums.outcomes.record(Outcome::Success, number < failed);
    }
    sums
}

/// The suspected instance, the factor by which it fails more often than the others, and its share of the change.
/// Before, 1 of 100 requests failed. Now, `failed` of 100 requests fail on each of three instances.
fn suspected(failed: [u64; 3]) -> Option<(String, f64, f64)> {
    let instances = ["web-1", "web-2", "web-3"].into_iter().zip(failed);
    let instances: Vec<(Arc<str>, Aggregate)> = instances
        .map(|(name, failed)| (name.into(), requests(100, failed)))
        .collect();
    let mut sides = Sides {
        then: requests(300, 3),
        ..Sides::default()
    };
    (instances.iter()).for_each(|(_, sums)| sides.now.merge(sums));
    let hundredths = |figure: f64| (100.0 * figure).round() / 100.0;
    let minute: Vec<_> = instances.iter().map(|(name, sums)| (name, sums)).collect();
    match instance(ChangeKind::Failing, &sides, &[minute.clone(), minute])? {
        Suspect::Instance {
            instance,
            ratio,
            share,
        } => Some((instance.to_string(), hundredths(ratio), hundredths(share))),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_instance_is_suspected_of_what_only_it_has() {
    let suspect = |name: &str, ratio, share| Some((name.to_owned(), ratio, share));
    assert_eq!(suspected([1, 1, 31]), suspect("web-3", 31.0, 1.0));
    assert_eq!(suspected([7, 43, 7]), suspect("web-2", 6.14, 0.67));
    // Half of the change would be there without the instance.
    assert_eq!(suspected([10, 10, 40]), None);
    assert_eq!(suspected([11, 11, 11]), None);
    // The instances fail less often than before.
    assert_eq!(suspected([0, 0, 1]), None);
}

#[test]
fn an_instance_is_compared_with_those_of_the_same_minutes_only() {
    let [old, new, third] = ["old", "new", "third"].map(Arc::<str>::from);
    let (well, failing) = (requests(100, 1), requests(100, 40));
    let mut sides = Sides {
        then: requests(300, 3),
        ..Sides::default()
    };
    sides.now.merge(&well);
    sides.now.merge(&failing);
    let minute = |of: &[(&'static str, bool)]| -> Vec<_> {
        let named = |name: &str| match name {
            "old" => &old,
            "new" => &new,
            _ => &third,
        };
        let sums = |fails: bool| if fails { &failing } else { &well };
        of.iter()
            .map(|(name, fails)| (named(name), sums(*fails)))
            .collect()
    };
    let alone = |minutes: &[Vec<_>]| instance(ChangeKind::Failing, &sides, minutes);
    // A process and its replacement share a minute.
    let (before, after) = (minute(&[("old", false)]), minute(&[("new", true)]));
    let both = minute(&[("old", false), ("new", true)]);
    assert_eq!(
        alone(&[before.clone(), both.clone(), after.clone(), after.clone()]),
        None
    );
    assert!(alone(&[before, both.clone(), both, after]).is_some());
    let beside = minute(&[("third", false), ("new", true)]);
    assert!(alone(&[beside.clone(), beside]).is_some());
}

/// A minute of a process on one CPU, with this scheduling delay in milliseconds.
fn machine(delay: Option<u64>, cpu_millis: u64) -> MachineMinute {
    MachineMinute {
        cpus: 1,
        cpu_millis: Some(cpu_millis),
        delay_micros: delay.map(|millis| 1_000 * millis),
        ..MachineMinute::default()
    }
}

/// The machines that are suspects, with their delays in milliseconds and their share of the CPU.
fn late(
    instances: &[(&str, &[MachineMinute])],
    is_of_one: bool,
) -> Vec<(String, f64, Option<f64>)> {
    let instances = instances.iter();
    let instances: Vec<(Arc<str>, Vec<MachineMinute>)> = instances
        .map(|(name, minutes)| ((*name).into(), minutes.to_vec()))
        .collect();
    let suspects = machines(&instances, is_of_one).into_iter();
    let of = suspects.map(|suspect| match suspect {
        Suspect::Machine {
            instance,
            delay,
            cpu,
            ..
        } => (instance.to_string(), 1e3 * delay, cpu),
        other => panic!("{other:?}"),
    });
    of.collect()
}

#[test]
fn machines_are_suspects_when_half_of_them_are_late() {
    let (slow, slower) = (machine(Some(20), 500), machine(Some(50), 900));
    let fine = machine(Some(1), 100);
    let found = |name: &str, delay, cpu| (name.to_owned(), delay, Some(cpu));
    let half: [(&str, &[_]); 4] = [
        ("a", &[slow, slow]),
        ("b", &[fine, fine]),
        ("c", &[slower, slower]),
        ("d", &[fine]),
    ];
    assert_eq!(
        late(&half, false),
        [found("c", 50.0, 0.9), found("a", 20.0, 0.5)]
    );
    assert_eq!(late(&half[..2], false), [found("a", 20.0, 0.5)]);
    let fewer: [(&str, &[_]); 3] = [("a", &[slow]), ("b", &[fine]), ("d", &[fine])];
    assert_eq!(late(&fewer, false), []);
    assert_eq!(late(&fewer, true), [found("a", 20.0, 0.5)]);
    // An instance without known minutes does not count.
    let unknown: [(&str, &[_]); 3] = [("a", &[slow]), ("b", &[fine]), ("d", &[])];
    assert_eq!(late(&unknown, false), [found("a", 20.0, 0.5)]);
    let many: Vec<_> = (0..5)
        .map(|number| machine(Some(20 + number), 500))
        .collect();
    let many = ["a", "b", "c", "d", "e"].into_iter().zip(many.chunks(1));
    let many: Vec<_> = late(&many.collect::<Vec<_>>(), false);
    let names: Vec<_> = many.iter().map(|(name, ..)| &**name).collect();
    assert_eq!(names, ["e", "d", "c"]);
}

#[test]
fn the_figures_of_a_machine_are_medians() {
    let minutes = [900, 10, 30, 20, 40].map(|delay| machine(Some(delay), delay));
    let found = late(&[("a", &minutes)], true);
    assert_eq!(found, [("a".to_owned(), 30.0, Some(0.03))]);
}

#[test]
fn marks_near_the_start_of_a_change_are_suspects() {
    let marks = [9_399, 9_400, 9_990, 10_005, 10_120, 10_121];
    let marks = marks.map(|at| Mark::of_text(at.to_string(), at, "deploy").expect("it is a mark"));
    let found = deploys(10_000, &marks).into_iter();
    let found = found.map(|suspect| match suspect {
        Suspect::Deploy {
            mark,
            seconds_before,
            ..
        } => (mark.to_string(), seconds_before),
        other => panic!("{other:?}"),
    });
    let found: Vec<_> = found.collect();
    let expected = [("10005", -5), ("9990", 10), ("10120", -120), ("9400", 600)];
    assert_eq!(
        found,
        expected.map(|(mark, before)| (mark.to_owned(), before))
    );
}

#[test]
fn a_version_confirms_a_change_of_which_it_shows_a_part() {
    // ln 1.52 is three tenths of ln 4.
    assert!(is_confirmed(4.0, 1.52) && !is_confirmed(4.0, 1.51));
    assert!(is_confirmed(0.25, 0.65) && !is_confirmed(0.25, 0.67));
    assert!(!is_confirmed(4.0, 0.25) && !is_confirmed(1.0, 4.0));
}

#[test]
fn versions_are_compared_by_what_has_changed() {
    let side = |count, failed| crate::side_by_side::Side::new(&requests(count, failed));
    let compared = |new, old| SideBySide {
        minutes: 5,
        new,
        old,
        ratio: Some(1.5),
    };
    let failing = |new, old| ratio_of(ChangeKind::Failing, &compared(new, old));
    assert_eq!(failing(side(20, 4), side(50, 5)), Some(2.0));
    assert_eq!(failing(side(20, 4), side(50, 0)), Some(20.0));
    assert_eq!(failing(side(19, 4), side(50, 5)), None);
    assert_eq!(failing(side(20, 4), side(19, 5)), None);
    let both = compared(side(20, 4), side(50, 5));
    assert_eq!(ratio_of(ChangeKind::Slower, &both), Some(1.5));
    assert_eq!(ratio_of(ChangeKind::Faster, &both), Some(1.5));
    assert_eq!(ratio_of(ChangeKind::Surging, &both), None);
}

/// A hundred requests of `millis` milliseconds, `covered` of which are within a timer.
fn timed(millis: u64, covered: u64) -> Aggregate {
    let mut sums = Aggregate::default();
    for _ in 0..100 {
        sums.times.record(1_000_000 * millis);
        sums.outcomes.record(Outcome::Success, false);
    }
    let timer = TimerSums {
        covered: 100_000_000 * covered,
        ..TimerSums::default()
    };
    sums.timers.add(database(), &timer);
    sums.timers.covered = timer.covered;
    sums
}

fn database() -> RecordId {
    RecordId::new(Kind::Timer, "db")
}

/// The suspects of a page. `then` and `now` are the milliseconds of a request, and those within a timer. Each suspect
/// has its name, its milliseconds before and since, and its part of the change in percent.
fn in_code(then: (u64, u64), now: (u64, u64)) -> Vec<(String, f64, f64, f64)> {
    let sides = Sides {
        then: timed(then.0, then.1),
        now: timed(now.0, now.1),
    };
    let name = |id| (id == database()).then(|| "db".into());
    let suspects = timers_and_code(&sides, name).into_iter();
    let suspects = suspects.map(|suspect| {
        let (name, then, now, share) = match suspect {
            Suspect::Timer {
                timer,
                then,
                now,
                share,
            } => (timer.to_string(), then, now, share),
            Suspect::Code { then, now, share } => ("code".to_owned(), then, now, share),
            other => panic!("{other:?}"),
        };
        let millis = |seconds: f64| (1e3 * seconds).round();
        (name, millis(then), millis(now), (100.0 * share).round())
    });
    suspects.collect()
}

#[test]
fn what_covers_the_difference_is_suspected() {
    let suspect = |name: &str, then, now, share| (name.to_owned(), then, now, share);
    assert_eq!(
        in_code((100, 50), (200, 140)),
        [suspect("db", 50.0, 140.0, 90.0)]
    );
    assert_eq!(
        in_code((100, 50), (200, 50)),
        [suspect("code", 50.0, 150.0, 100.0)]
    );
    let both = [
        suspect("code", 50.0, 110.0, 60.0),
        suspect("db", 50.0, 90.0, 40.0),
    ];
    assert_eq!(in_code((100, 50), (200, 90)), both);
    // The timer became faster, so the code took more extra time than the whole slowdown; its share is limited to 100 %.
    assert_eq!(
        in_code((100, 50), (200, 20)),
        [suspect("code", 50.0, 180.0, 100.0)]
    );
    // A page that became faster is explained by a timer that became faster.
    assert_eq!(
        in_code((200, 140), (100, 50)),
        [suspect("db", 140.0, 50.0, 90.0)]
    );
    assert_eq!(in_code((100, 50), (100, 90)), []);
}
