use super::*;
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::context::Kind;

const START: i64 = 1_800_000_000;
const DAY: i64 = 86_400;

fn page(name: &str) -> RecordId {
    RecordId::new(Kind::Http, name)
}

/// Judges a minute with ten requests on each of two pages. An error is a page, a kind and a number.
fn judge(
    known: &mut KnownErrors,
    start: i64,
    errors: &[(&str, &str, u64)],
    has_history: bool,
) -> Vec<Verdict> {
    let pages = ["GET /a", "GET /b"].map(|name| {
        let mut sums = Aggregate::default();
        sums.times.count = 10;
        // Errors whose kinds had no room in the tally are never new.
        sums.kinds.add_other(4);
        for (_, kind, count) in errors.iter().filter(|(page, ..)| *page == name) {
            sums.kinds.add((*kind).into(), *count);
        }
        (page(name), sums)
    });
    let minute = Minute {
        start,
        contexts: pages.iter().map(|(id, sums)| (*id, sums)).collect(),
        instances: Vec::new(),
    };
    known.judge(&minute, has_history)
}

fn reported(known: &mut KnownErrors, start: i64, kinds: &[&str]) -> Vec<String> {
    let errors: Vec<_> = kinds.iter().map(|kind| ("GET /a", *kind, 1)).collect();
    let verdicts = judge(known, start, &errors, true).into_iter();
    let kinds = verdicts.filter_map(|verdict| verdict.error);
    kinds.map(|kind| kind.to_string()).collect()
}

fn seen(known: &KnownErrors, kind: &str) -> Option<(i64, i64)> {
    let mut kinds = known.kinds.iter();
    let (_, seen) = kinds.find(|(name, _)| **name == *kind)?;
    Some((seen.first, seen.last))
}

#[test]
fn a_new_kind_is_reported_on_the_page_with_most_of_it() {
    let mut known = KnownErrors::default();
    let errors = [("GET /a", "db_timeout", 2), ("GET /b", "db_timeout", 3)];
    let verdicts = judge(&mut known, START, &errors, true);
    let verdict = crate::tests::only(&verdicts);
    assert_eq!(verdict.kind, ChangeKind::NewError);
    assert_eq!(verdict.error.as_deref(), Some("db_timeout"));
    assert_eq!(verdict.context, page("GET /b"));
    assert_eq!((verdict.since, verdict.detected), (START, START + 60));
    assert_eq!((verdict.requests, verdict.minutes), (3, 1));
    // The next minute adds to the figures. Errors of the same kind on another page change nothing.
    let errors = [("GET /a", "db_timeout", 9), ("GET /b", "db_timeout", 1)];
    let verdicts = judge(&mut known, START + 60, &errors, true);
    let verdict = crate::tests::only(&verdicts);
    assert_eq!(verdict.context, page("GET /b"));
    assert_eq!((verdict.requests, verdict.minutes), (4, 2));
    assert_eq!(
        (verdict.since, verdict.then, verdict.now),
        (START, 0.0, 4.0)
    );
}

#[test]
fn a_kind_is_reported_once_for_an_hour_or_until_it_is_gone() {
    let mut known = KnownErrors::default();
    for minute in 0..120 {
        let kinds: &[&str] = if minute < 20 { &["a", "b"] } else { &["a"] };
        let expected: &[&str] = match minute {
            // The last error of kind `b` was in minute 19.
            0..34 => &["a", "b"],
            34..60 => &["a"],
            _ => &[],
        };
        let found = reported(&mut known, START + 60 * minute, kinds);
        assert_eq!(found, expected, "minute {minute}");
    }
    assert_eq!(seen(&known, "b"), Some((START, START + 60 * 19)));
    // A week after its last error `b` is new again, but `a` is not: `a` was seen until minute 119.
    let week = START + 60 * 19 + 7 * DAY;
    assert_eq!(reported(&mut known, week - 60, &["c"]), ["c"]);
    assert_eq!(reported(&mut known, week, &["a", "b"]), ["b", "c"]);
    assert_eq!(seen(&known, "b"), Some((START, week)));
}

#[test]
fn without_history_no_kind_is_new() {
    let mut known = KnownErrors::default();
    let errors = [("GET /a", "a", 1)];
    assert_eq!(judge(&mut known, START, &errors, false), []);
    assert_eq!(seen(&known, "a"), Some((START, START)));
    assert_eq!(judge(&mut known, START + DAY, &errors, true), []);
}

#[test]
fn kinds_are_forgotten_after_sixty_days() {
    let mut known = KnownErrors::default();
    reported(&mut known, START, &["a"]);
    reported(&mut known, START + 60 * DAY - 60, &[]);
    assert_eq!(seen(&known, "a"), Some((START, START)));
    reported(&mut known, START + 60 * DAY, &[]);
    assert_eq!(known, KnownErrors::default());
}

#[test]
fn the_number_of_kinds_and_of_changes_is_bounded() {
    let names: Vec<String> = (0..600).map(|number| format!("{number:03}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut known = KnownErrors::default();
    // At most ten kinds are reported. The others count as known.
    assert_eq!(reported(&mut known, START, &names[..20]), names[..10]);
    let all = reported(&mut known, START + 60, &names);
    assert_eq!((all.len(), known.kinds.len()), (10, MAX_KINDS));
    // All remembered kinds were seen this week, so a further kind may be a forgotten kind.
    let later = START + 2 * LASTS;
    assert_eq!(reported(&mut known, later, &["further"]), [""; 0]);
    assert_eq!(seen(&known, "further"), Some((later, later)));
    // After a week the kind that was not seen for longest makes room.
    let week = later + NEW_AFTER;
    assert_eq!(reported(&mut known, week, &["new"]), ["new"]);
    assert_eq!(known.kinds.len(), MAX_KINDS);
    assert!(known.kinds.is_sorted_by(|(a, _), (b, _)| a < b));
}

#[test]
fn stored_kinds_equal_the_original_and_go_on_alike() {
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut first = KnownErrors::default();
    let mut second = KnownErrors::default();
    for number in 0..300 {
        let parts = first.parts();
        let parts = parts.iter().rev().map(|(kind, seen)| (&**kind, &**seen));
        second = match number % 7 {
            0 => KnownErrors::from_parts(parts),
            _ => second,
        };
        let start = START + number * random.i64(60..7_200);
        let errors: Vec<_> = (0..random.usize(0..4))
            .map(|_| {
                let page = random.choice(["GET /a", "GET /b"]).expect("there are two");
                let kind = random.choice(["a", "b", "c", "d", "e"]);
                (page, kind.expect("there are five"), random.u64(1..4))
            })
            .collect();
        let has_history = random.u8(..) > 20;
        let found = judge(&mut first, start, &errors, has_history);
        assert_eq!(
            judge(&mut second, start, &errors, has_history),
            found,
            "seed {seed}"
        );
        assert_eq!(second, first, "seed {seed}");
    }
}

#[test]
fn parts_that_cannot_be_read_are_left_out() {
    let mut known = KnownErrors::default();
    let extreme = |at| SeenError {
        first: at,
        last: at,
        page: Some(page("GET /a")),
        since: at,
        count: u64::MAX,
    };
    let parts: Vec<_> = (0..300)
        .map(|number: i64| (number.to_string(), pack(&extreme(number))))
        .collect();
    let parts = parts.iter().map(|(kind, seen)| (kind.as_bytes(), &**seen));
    let garbage: [(&[u8], &[u8]); 2] = [(b"\xff", &[0; 40]), (b"a", b"\x80")];
    let read = KnownErrors::from_parts(parts.chain(garbage));
    assert_eq!(read.kinds.len(), MAX_KINDS);
    assert!(seen(&read, "44").is_some() && seen(&read, "43").is_none());
    for at in [i64::MIN, i64::MAX] {
        known.kinds = vec![("a".into(), extreme(at))];
        for start in [i64::MIN, START, i64::MAX] {
            reported(&mut known, start, &["a", "b"]);
        }
    }
}
