use super::*;
use crate::tests::{refuse, sums_of};
use tower_pulse_model::context::Kind;
use tower_pulse_model::outcome::Outcome;
use tower_pulse_model::slow_request::{RequestParts, SlowRequest};

fn requests(count: u64, failed: u64) -> Aggregate {
    sums_of((0..count).map(|number| (1_000_000, number < failed)))
}

/// The suspected instances as text. In each of two minutes, these requests come from `web-1`, `web-2` and so on.
fn suspected(kind: ChangeKind, then: &Aggregate, now: &[Aggregate]) -> Option<String> {
    let names: Vec<Arc<str>> = (1..=now.len()).map(|n| format!("web-{n}").into()).collect();
    let minute: Vec<_> = names.iter().zip(now).collect();
    let mut sides = Sides {
        then: then.clone(),
        ..Sides::default()
    };
    now.iter().for_each(|sums| sides.now.merge(sums));
    let suspect = instances(kind, &sides, &[minute.clone(), minute])?;
    let text = suspect.text();
    let Suspect::Instance { ratio, share, .. } = &suspect else {
        panic!("{suspect:?}");
    };
    Some(format!("{text} ({ratio:.2}, {share:.2})"))
}

/// Now, this many of 100 requests fail on each instance. Before, one of 100 failed.
fn failing(failed: &[u64]) -> Option<String> {
    let now: Vec<_> = failed.iter().map(|failed| requests(100, *failed)).collect();
    suspected(ChangeKind::Failing, &requests(300, 3), &now)
}

/// Now, requests take these milliseconds on each instance. Before, requests took 20 ms.
fn slower(millis: &[u64]) -> Option<String> {
    let requests_of = |millis: u64| sums_of(vec![(1_000_000 * millis, false); 100]);
    let now: Vec<_> = millis.iter().map(|millis| requests_of(*millis)).collect();
    suspected(ChangeKind::Slower, &requests_of(20), &now)
}

#[test]
fn an_instance_is_suspected_if_only_it_has_the_change() {
    let third = "web-3: 31 % fail, 1.0 % on web-1 and web-2 in the same minutes (31.00, 1.00)";
    assert_eq!(failing(&[1, 1, 31]).as_deref(), Some(third));
    let second = "web-2: 43 % fail, 7.0 % on web-1 and web-3 in the same minutes (6.14, 0.67)";
    assert_eq!(failing(&[7, 43, 7]).as_deref(), Some(second));
    // Without the instance, half of the change would remain.
    assert_eq!(failing(&[10, 10, 40]), None);
    assert_eq!(failing(&[11, 11, 11]), None);
    // The instances fail less often than before.
    assert_eq!(failing(&[0, 0, 1]), None);
    assert_eq!(failing(&[30]), None);
}

#[test]
fn all_instances_that_have_the_change_are_named() {
    let are_named = |text: Option<String>, expected: &str| {
        let text = text.expect("some are named");
        assert!(text.starts_with(expected), "{text}");
    };
    let two = "web-1 and web-2: 2.0 times web-3 and web-4 in the same minutes (2.0";
    are_named(slower(&[40, 41, 20, 20]), two);
    let half = "web-1 and web-3: +48 % over web-2 and web-4 in the same minutes";
    are_named(slower(&[30, 20, 30, 20]), half);
    let many = "web-1, web-2, web-3 and 2 more: 3.0 times the other 5 in the same minutes";
    are_named(slower(&[60, 60, 60, 60, 60, 20, 20, 20, 20, 20]), many);
    // All instances are slower, and some are even slower.
    assert_eq!(slower(&[60, 60, 40, 40]), None);
    // The instances do not form two groups.
    assert_eq!(slower(&[50, 45, 38, 33, 28, 24, 20]), None);
    // Only one instance is as before, so the change does not come from some instances.
    assert_eq!(slower(&[40, 40, 40, 40, 40, 40, 40, 20]), None);
    // Instances with few requests do not count.
    let [few, slow, usual] = [(9, 100), (100, 60), (100, 20)]
        .map(|(count, millis)| sums_of(vec![(1_000_000 * millis, false); count]));
    let all = [few, slow, usual.clone(), usual.clone()];
    let one = suspected(ChangeKind::Slower, &usual, &all);
    are_named(one, "web-2: 3.0 times web-3 and web-4");
}

#[test]
fn instances_are_compared_in_the_same_minutes_only() {
    let [old, new, third] = ["old", "new", "third"].map(Arc::<str>::from);
    let (well, failing) = (requests(100, 1), requests(100, 40));
    let (old, new, third) = ((&old, &well), (&new, &failing), (&third, &well));
    let mut sides = Sides {
        then: requests(300, 3),
        ..Sides::default()
    };
    for sums in [&well, &failing] {
        sides.now.merge(sums);
    }
    let is_suspected = |minutes: &[&[_]]| {
        let minutes: Vec<_> = minutes.iter().map(|minute| minute.to_vec()).collect();
        instances(ChangeKind::Failing, &sides, &minutes).is_some()
    };
    // A process and its replacement share one minute, which is too few.
    assert!(!is_suspected(&[&[old], &[old, new], &[new], &[new]]));
    assert!(is_suspected(&[&[old], &[old, new], &[old, new], &[new]]));
    assert!(is_suspected(&[&[third, new], &[third, new]]));
}

/// A minute of a process on one CPU, with this scheduling delay in milliseconds.
fn machine(delay: Option<u64>, cpu_thousandths: u64) -> MachineMinute {
    MachineMinute {
        cpus: 1,
        cpu_thousandths: Some(cpu_thousandths),
        delay_micros: delay.map(|millis| 1_000 * millis),
        ..MachineMinute::default()
    }
}

fn delayed(instances: &[(&str, &[MachineMinute])], is_of_instance: bool) -> Vec<Suspect> {
    let instances = instances.iter();
    let instances = instances.map(|(name, minutes)| (Arc::from(*name), minutes.to_vec()));
    machines(&instances.collect::<Vec<_>>(), is_of_instance)
}

fn suspect(name: &str, delay: f64, cpu: f64) -> Suspect {
    let (percent, millis) = (100.0 * cpu, 1e3 * delay);
    Suspect::Machine {
        instance: name.into(),
        delay,
        cpu: Some(cpu),
        text: format!("the machine of {name}: CPU {percent:.0} %, scheduling delay {millis:.0} ms")
            .into(),
    }
}

#[test]
fn machines_are_suspects_when_half_of_them_are_delayed() {
    let (slow, slower) = (machine(Some(20), 500), machine(Some(50), 900));
    let fine = machine(Some(1), 100);
    let (a, c) = (suspect("a", 0.02, 0.5), suspect("c", 0.05, 0.9));
    let half: [(&str, &[_]); 4] = [
        ("a", &[slow, slow]),
        ("b", &[fine, fine]),
        ("c", &[slower, slower]),
        ("d", &[fine]),
    ];
    assert_eq!(delayed(&half, false), [c, a.clone()]);
    assert_eq!(delayed(&half[..2], false), std::slice::from_ref(&a));
    let fewer: [(&str, &[_]); 3] = [("a", &[slow]), ("b", &[fine]), ("d", &[fine])];
    assert_eq!(delayed(&fewer, false), []);
    assert_eq!(delayed(&fewer, true), std::slice::from_ref(&a));
    // An instance without known minutes does not count.
    let unknown: [(&str, &[_]); 3] = [("a", &[slow]), ("b", &[fine]), ("d", &[])];
    assert_eq!(delayed(&unknown, false), [a]);
    let many = [20, 21, 22, 23, 24].map(|delay| machine(Some(delay), 500));
    let many = ["a", "b", "c", "d", "e"].into_iter().zip(many.chunks(1));
    let expected = [("e", 0.024), ("d", 0.023), ("c", 0.022)];
    let expected = expected.map(|(name, delay)| suspect(name, delay, 0.5));
    assert_eq!(delayed(&many.collect::<Vec<_>>(), false), expected);
}

#[test]
fn the_figures_of_a_machine_are_medians() {
    let minutes = [900, 10, 30, 20, 40].map(|delay| machine(Some(delay), delay));
    let found = delayed(&[("a", &minutes)], true);
    assert_eq!(found, [suspect("a", 0.03, 0.03)]);
}

#[test]
fn the_text_about_a_single_instance_has_the_load_of_its_machine() {
    let mut change = crate::tests::frozen::change();
    let loaded = |change: &Change, minutes: &[(Arc<str>, Vec<MachineMinute>)]| {
        let mut suspects = vec![own_instance(change).expect("it has an instance")];
        add_load(&mut suspects, minutes);
        suspects[0].text().to_owned()
    };
    let minutes = [("web-3".into(), vec![machine(Some(1), 300)])];
    let text = "web-3: 3.0 times the others on the same pages, CPU 30 %, scheduling delay 1 ms";
    assert_eq!(loaded(&change, &minutes), text);
    assert!(loaded(&change, &[]).ends_with("the same pages"));
    change.instance = None;
    assert_eq!(own_instance(&change), None);
}

#[test]
fn marks_near_the_start_of_a_change_are_suspects() {
    let marks = [9_399, 9_400, 9_990, 10_005, 10_120, 10_121];
    let marks = marks.map(|at| Mark::of_text(at.to_string(), at, "deploy").expect("it is a mark"));
    let expected = [
        ("10005", -5, "mark “deploy”, as the change began"),
        ("9990", 10, "mark “deploy”, as the change began"),
        ("10120", -120, "mark “deploy”, 2 min after the change began"),
        ("9400", 600, "mark “deploy”, 10 min before the change"),
    ];
    let expected = expected.map(|(mark, seconds_before, text)| Suspect::Deploy {
        mark: mark.into(),
        text: text.into(),
        version: None,
        seconds_before,
        side_by_side: None,
    });
    let near = marks_near(10_000, &marks).into_iter();
    let near: Vec<_> = near.map(|mark| deploy(mark, 10_000, None)).collect();
    assert_eq!(near, expected);
    let beside = deploy(&marks[2], 10_180, Some(1.4));
    let text = "mark “deploy”, 3 min before the change, +40 % over the old version";
    assert_eq!(beside.text(), text);
}

#[test]
fn a_version_explains_a_change_if_it_shows_a_part_of_the_change() {
    // ln 1.52 is three tenths of ln 4.
    assert!(is_confirmed(4.0, 1.52) && !is_confirmed(4.0, 1.51));
    assert!(is_confirmed(0.25, 0.65) && !is_confirmed(0.25, 0.67));
    assert!(!is_confirmed(4.0, 0.25) && !is_confirmed(1.0, 4.0));
}

#[test]
fn versions_are_compared_by_the_figure_that_has_changed() {
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

/// A hundred requests of `millis` milliseconds each, of which a timer covers `covered`.
fn timed(millis: u64, covered: u64, runs: u64) -> Aggregate {
    let mut sums = sums_of([(1_000_000 * millis, false); 100]);
    let timer = TimerSums {
        count: 100 * runs,
        sum: 100_000_000 * covered,
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

/// The suspects of a page as text. `then` and `now` have the milliseconds of a request, the milliseconds within a
/// timer, and the runs of the timer.
fn by_runs(then: (u64, u64, u64), now: (u64, u64, u64)) -> Vec<String> {
    let [then, now] = [then, now].map(|(millis, covered, runs)| timed(millis, covered, runs));
    let name = |id| (id == database()).then(|| "db".into());
    let suspects = timers_and_code(&Sides { then, now }, name).into_iter();
    suspects.map(|suspect| suspect.text().to_owned()).collect()
}

/// Like [`by_runs`], for a timer that runs once within each request.
fn in_code(then: (u64, u64), now: (u64, u64)) -> Vec<String> {
    by_runs((then.0, then.1, 1), (now.0, now.1, 1))
}

#[test]
fn timers_or_code_that_cover_the_difference_are_suspected() {
    let db = |now, then, share| {
        format!("db, {now} ms a request instead of {then} ms, {share} % of the added time")
    };
    let code = |share| format!("your code outside of timers, {share} % of the added time");
    assert_eq!(in_code((100, 50), (200, 140)), [db(140, 50, 90)]);
    assert_eq!(in_code((100, 50), (200, 50)), [code(100)]);
    let both = [code(60), db(90, 50, 40)];
    assert_eq!(in_code((100, 50), (200, 90)), both);
    // The timer became faster, so the code took more extra time than the whole slowdown. The share of the code is
    // limited to 100 %.
    assert_eq!(in_code((100, 50), (200, 20)), [code(100)]);
    // A page that became faster is explained by a timer that became faster.
    let saved = "db, 50 ms a request instead of 140 ms, 90 % of the saved time";
    assert_eq!(in_code((200, 140), (100, 50)), [saved]);
    assert!(in_code((100, 50), (100, 90)).is_empty());
}

#[test]
fn a_timer_that_runs_more_often_is_not_called_slower() {
    let repeated = "db, 41 times a request instead of 1, 2.0 ms each: more runs, not slower ones, 100 % of the added time";
    assert_eq!(by_runs((10, 2, 1), (90, 82, 41)), [repeated]);
    let new = "db, 41 times a request instead of 0, 2.0 ms each: more runs, not slower ones, 100 % of the added time";
    assert_eq!(by_runs((10, 0, 0), (92, 82, 41)), [new]);
    let both =
        "db, 4 times a request instead of 2, 20 ms each instead of 5.0 ms, 100 % of the added time";
    assert_eq!(by_runs((20, 10, 2), (90, 80, 4)), [both]);
    // One run within each request does not count as more runs.
    let once = "db, 40 ms a request instead of 0 µs, 100 % of the added time";
    assert_eq!(by_runs((10, 0, 0), (50, 40, 1)), [once]);
}

fn failed(ended: i64, outcome: Outcome, status: Option<u16>) -> SlowRequest {
    SlowRequest {
        nanos: 1_000_000,
        ended: 1_000 * ended,
        context: "POST /checkout".into(),
        instance: "web-1".into(),
        outcome,
        is_error: true,
        status,
        trace_id: None,
        path: None,
        parts: RequestParts::default(),
        failure: None,
    }
}

#[test]
fn a_failing_timer_and_the_newest_statuses_are_named() {
    let timer = |name: &str, then, now| {
        let [then, now] = [then, now].map(|failed| requests(100, failed));
        (Arc::from(name), Sides { then, now })
    };
    let (payment, wrapper) = (timer("payment", 4, 25), timer("whole", 3, 21));
    let (well, always) = (timer("db", 1, 2), timer("flaky", 40, 45));
    let text = |timers: &[_], failed: &[SlowRequest]| {
        let sides = Sides::default();
        let found = failures(ChangeKind::Failing, &sides, timers, failed.to_vec());
        found.map(|suspect| (suspect.timer().cloned(), suspect.text().to_owned()))
    };
    let gateway = |ended| failed(ended, Outcome::ServerError, Some(502));
    let requests = [
        gateway(30),
        failed(40, Outcome::Panicked, Some(500)),
        gateway(20),
        failed(50, Outcome::BodyFailed, Some(200)),
        failed(10, Outcome::ServerError, Some(503)),
    ];
    let all = [wrapper, payment, well.clone(), always.clone()];
    let (named, says) = text(&all, &requests).expect("one fails");
    assert_eq!(named.as_deref(), Some("payment"));
    let fails = "payment, which fails in 25 % of its runs instead of 4.0 %";
    let newest = "failures with body_failed, panicked, 502";
    assert_eq!(says, format!("{fails}; {newest}"));
    let (_, says) = text(&all, &[]).expect("one fails");
    assert_eq!(says, fails);
    let alone = text(&[well, always], &[gateway(10), gateway(20)]);
    assert_eq!(alone, Some((None, "failures with 502".to_owned())));
    assert_eq!(text(&[], &[]), None);
}

/// A hundred requests, some of which failed, with these status codes and kinds of errors.
fn answered(failed: u64, codes: &[(u16, u64)], kinds: &[(&str, u64)]) -> Aggregate {
    let mut sums = requests(100, failed);
    codes.iter().for_each(|(code, n)| sums.codes.add(*code, *n));
    kinds
        .iter()
        .for_each(|(kind, n)| sums.kinds.add((*kind).into(), *n));
    sums
}

/// The code and the kind of a page's failures, and the text about them.
fn of_page(kind: ChangeKind, then: Aggregate, now: Aggregate) -> ([Option<Arc<str>>; 2], String) {
    let [well, failing] = [0, 40].map(|failed| requests(100, failed));
    let timer = Sides {
        then: well,
        now: failing,
    };
    let newest = failed(10, Outcome::ServerError, Some(502));
    let timers = [("db".into(), timer)];
    let found = failures(kind, &Sides { then, now }, &timers, vec![newest]);
    let found = found.expect("the timer fails");
    let Suspect::Failures { code, error, .. } = &found else {
        panic!("{found:?}");
    };
    ([code.clone(), error.clone()], found.text().to_owned())
}

#[test]
fn the_code_and_the_kind_of_most_further_failures_are_named() {
    let then = || answered(2, &[(200, 98), (500, 2)], &[("db_timeout", 1)]);
    let timer = "db, which fails in 40 % of its runs instead of 0 %";
    let failing =
        |codes: &[_], kinds: &[_]| of_page(ChangeKind::Failing, then(), answered(32, codes, kinds));
    let kinds = [("db_timeout", 20), ("full", 9)];
    let (named, text) = failing(&[(200, 68), (500, 30), (503, 2)], &kinds);
    assert_eq!(named, [Some("500".into()), Some("db_timeout".into())]);
    let kind = "db_timeout in 20 % of requests instead of 1.0 %";
    let code = "500 rose from 2.0 % to 30 %";
    assert_eq!(text, format!("{kind}; {timer}; {code}"));
    // No kind has half of the errors, and no code has four fifths.
    let kinds = [("db_timeout", 10)];
    let (named, text) = failing(&[(200, 68), (500, 16), (503, 16)], &kinds);
    assert_eq!(named, [None, None]);
    assert_eq!(text, format!("{timer}; failures with 502"));
    // The application counts 429 as an error.
    let ([code, _], _) = failing(&[(200, 68), (429, 30), (500, 2)], &[]);
    assert_eq!(code.as_deref(), Some("429"));
}

#[test]
fn the_code_of_refused_requests_is_named() {
    let mut now = answered(2, &[(200, 66), (429, 30), (404, 2), (500, 2)], &[]);
    refuse(&mut now, 32);
    let then = answered(2, &[(200, 98), (500, 2)], &[]);
    let ([code, _], text) = of_page(ChangeKind::Refusing, then, now);
    assert_eq!(code.as_deref(), Some("429"));
    assert!(text.ends_with("; 429 rose from 0 % to 30 %"), "{text}");
    // An increase of errors is not refusing.
    let then = answered(0, &[(200, 100)], &[]);
    let now = answered(9, &[(200, 91), (500, 9)], &[]);
    let ([code, _], _) = of_page(ChangeKind::Refusing, then, now);
    assert_eq!(code, None);
}

#[test]
fn an_instance_is_suspected_of_refusing() {
    let now = [1, 40].map(|refused| {
        let mut sums = requests(100, 0);
        refuse(&mut sums, refused);
        sums
    });
    let text = suspected(ChangeKind::Refusing, &requests(300, 0), &now).expect("a suspect");
    let second = "web-2: 40 % get 4xx, 1.0 % on web-1";
    assert!(text.starts_with(second), "{text}");
}

/// The text about a surge in one minute. Each instance gets these requests, errors and 4xx.
fn surge(then: (u64, u64, u64), now: &[(u64, u64, u64)], millis: u64) -> String {
    let sums_with = |(count, errors, client_errors): (u64, u64, u64), millis: u64| {
        let mut sums = sums_of((0..count).map(|n| (1_000_000 * millis, n < errors)));
        let moved = &mut sums.outcomes.counts;
        moved[Outcome::Success as usize] -= client_errors;
        moved[Outcome::ClientError as usize] += client_errors;
        sums
    };
    let names: Vec<Arc<str>> = (1..=now.len()).map(|n| format!("web-{n}").into()).collect();
    let all: Vec<_> = now.iter().map(|now| sums_with(*now, millis)).collect();
    let mut sides = Sides {
        then: sums_with(then, 20),
        ..Sides::default()
    };
    all.iter().for_each(|sums| sides.now.merge(sums));
    let suspect = traffic(&sides, &[names.iter().zip(&all).collect()]);
    suspect.text().to_owned()
}

#[test]
fn the_text_of_a_surge_describes_its_requests() {
    let surge = |now: &[_], millis| surge((200, 2, 4), now, millis);
    let even = "even on all 4 instances; outcomes as before; latency as before";
    assert_eq!(surge(&[(200, 2, 4); 4], 20), even);
    let uneven = [(700, 7, 300), (100, 1, 0), (100, 1, 0), (100, 1, 0)];
    let text = surge(&uneven, 50);
    let begins = "70 % on web-1; 30 % 4xx instead of 2.0 %; p95 49 ms";
    let is_right = text.starts_with(begins) && text.ends_with(" instead of 20 ms");
    assert!(is_right, "{text}");
    // A single instance is not named.
    let errors = "33 % errors instead of 1.0 %; latency as before";
    assert_eq!(surge(&[(900, 300, 18)], 20), errors);
}
