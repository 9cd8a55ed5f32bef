use super::*;
use crate::tests::sums_of;
use tower_pulse_model::context::Kind;
use tower_pulse_model::timer_sums::TimerSums;

/// The sums of requests, some of which failed.
fn requests(count: u64, failed: u64) -> Aggregate {
    sums_of((0..count).map(|number| (1_000_000, number < failed)))
}

/// A page of which one in a hundred requests failed before.
fn sides<'a>(now: impl IntoIterator<Item = &'a Aggregate>) -> Sides {
    let mut sides = Sides {
        then: requests(300, 3),
        ..Sides::default()
    };
    now.into_iter().for_each(|sums| sides.now.merge(sums));
    sides
}

/// The suspected instance as text. Now, `failed` of 100 requests fail on each of three instances.
fn suspected(failed: [u64; 3]) -> Option<String> {
    let names = ["web-1", "web-2", "web-3"].map(Arc::<str>::from);
    let sums = failed.map(|failed| requests(100, failed));
    let minute: Vec<_> = names.iter().zip(&sums).collect();
    let minutes = [minute.clone(), minute];
    let suspect = instance(ChangeKind::Failing, &sides(&sums), &minutes)?;
    Some(format!("{suspect:.2?}"))
}

#[test]
fn an_instance_is_suspected_of_what_only_it_has() {
    let third = r#"Instance { instance: "web-3", ratio: 31.00, share: 1.00 }"#;
    assert_eq!(suspected([1, 1, 31]).as_deref(), Some(third));
    let second = r#"Instance { instance: "web-2", ratio: 6.14, share: 0.67 }"#;
    assert_eq!(suspected([7, 43, 7]).as_deref(), Some(second));
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
    let (old, new, third) = ((&old, &well), (&new, &failing), (&third, &well));
    let sides = sides([&well, &failing]);
    let is_suspected = |minutes: &[&[_]]| {
        let minutes: Vec<_> = minutes.iter().map(|of| of.to_vec()).collect();
        instance(ChangeKind::Failing, &sides, &minutes).is_some()
    };
    // A process and its replacement share one minute, which is too few.
    assert!(!is_suspected(&[&[old], &[old, new], &[new], &[new]]));
    assert!(is_suspected(&[&[old], &[old, new], &[old, new], &[new]]));
    assert!(is_suspected(&[&[third, new], &[third, new]]));
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

/// The machines that are suspects.
fn late(instances: &[(&str, &[MachineMinute])], is_of_one: bool) -> Vec<Suspect> {
    let instances = instances.iter();
    let instances = instances.map(|(name, minutes)| (Arc::from(*name), minutes.to_vec()));
    machines(&instances.collect::<Vec<_>>(), is_of_one)
}

/// A suspected machine, with its delay in seconds and its share of the CPU.
fn suspect(name: &str, delay: f64, cpu: f64) -> Suspect {
    let (percent, millis) = (100.0 * cpu, 1e3 * delay);
    Suspect::Machine {
        instance: name.into(),
        delay,
        cpu: Some(cpu),
        text: format!("{name}: CPU {percent:.0} %, scheduling delay {millis:.0} ms: the machine")
            .into(),
    }
}

#[test]
fn machines_are_suspects_when_half_of_them_are_late() {
    let (slow, slower) = (machine(Some(20), 500), machine(Some(50), 900));
    let fine = machine(Some(1), 100);
    let (a, c) = (suspect("a", 0.02, 0.5), suspect("c", 0.05, 0.9));
    let half: [(&str, &[_]); 4] = [
        ("a", &[slow, slow]),
        ("b", &[fine, fine]),
        ("c", &[slower, slower]),
        ("d", &[fine]),
    ];
    assert_eq!(late(&half, false), [c, a.clone()]);
    assert_eq!(late(&half[..2], false), std::slice::from_ref(&a));
    let fewer: [(&str, &[_]); 3] = [("a", &[slow]), ("b", &[fine]), ("d", &[fine])];
    assert_eq!(late(&fewer, false), []);
    assert_eq!(late(&fewer, true), std::slice::from_ref(&a));
    // An instance without known minutes does not count.
    let unknown: [(&str, &[_]); 3] = [("a", &[slow]), ("b", &[fine]), ("d", &[])];
    assert_eq!(late(&unknown, false), [a]);
    let many = [20, 21, 22, 23, 24].map(|delay| machine(Some(delay), 500));
    let many = ["a", "b", "c", "d", "e"].into_iter().zip(many.chunks(1));
    let expected = [("e", 0.024), ("d", 0.023), ("c", 0.022)];
    let expected = expected.map(|(name, delay)| suspect(name, delay, 0.5));
    assert_eq!(late(&many.collect::<Vec<_>>(), false), expected);
}

#[test]
fn the_figures_of_a_machine_are_medians() {
    let minutes = [900, 10, 30, 20, 40].map(|delay| machine(Some(delay), delay));
    let found = late(&[("a", &minutes)], true);
    assert_eq!(found, [suspect("a", 0.03, 0.03)]);
}

#[test]
fn marks_near_the_start_of_a_change_are_suspects() {
    let marks = [9_399, 9_400, 9_990, 10_005, 10_120, 10_121];
    let marks = marks.map(|at| Mark::of_text(at.to_string(), at, "deploy").expect("it is a mark"));
    let expected = [("10005", -5), ("9990", 10), ("10120", -120), ("9400", 600)];
    let expected = expected.map(|(mark, seconds_before)| Suspect::Deploy {
        mark: mark.into(),
        text: "deploy".into(),
        version: None,
        seconds_before,
        side_by_side: None,
    });
    assert_eq!(deploys(10_000, &marks), expected);
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
    let mut sums = sums_of([(1_000_000 * millis, false); 100]);
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

/// The suspects of a page as text. `then` and `now` are the milliseconds of a request, and those within a timer.
fn in_code(then: (u64, u64), now: (u64, u64)) -> Vec<String> {
    let [then, now] = [then, now].map(|(millis, covered)| timed(millis, covered));
    let name = |id| (id == database()).then(|| "db".into());
    let suspects = timers_and_code(&Sides { then, now }, name).into_iter();
    suspects.map(|suspect| format!("{suspect:.3?}")).collect()
}

#[test]
fn what_covers_the_difference_is_suspected() {
    let figures =
        |[then, now, share]: [f64; 3]| format!("then: {then:.3}, now: {now:.3}, share: {share:.3}");
    let db = |of| format!("Timer {{ timer: \"db\", {} }}", figures(of));
    let code = |of| format!("Code {{ {} }}", figures(of));
    assert_eq!(in_code((100, 50), (200, 140)), [db([0.05, 0.14, 0.9])]);
    assert_eq!(in_code((100, 50), (200, 50)), [code([0.05, 0.15, 1.0])]);
    let both = [code([0.05, 0.11, 0.6]), db([0.05, 0.09, 0.4])];
    assert_eq!(in_code((100, 50), (200, 90)), both);
    // The timer became faster, so the code took more extra time than the whole slowdown; its share is limited to 100 %.
    assert_eq!(in_code((100, 50), (200, 20)), [code([0.05, 0.18, 1.0])]);
    // A page that became faster is explained by a timer that became faster.
    assert_eq!(in_code((200, 140), (100, 50)), [db([0.14, 0.05, 0.9])]);
    assert!(in_code((100, 50), (100, 90)).is_empty());
}
