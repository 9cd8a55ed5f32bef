//! The list of the user's counters, in each store and over HTTP.

use std::collections::BTreeMap;

use http::StatusCode;
use serde_json::{Value, json};
use tower_pulse_model::batch::Batch;
use tower_pulse_model::context::Kind;

use crate::fixture::{Fixture, MS, NOW};
use crate::rig::book;
use crate::rig::seed::seed;
use crate::rig::server::issue;
use crate::windows::{Page, near};

const DAY: u32 = 86_400;

/// Adds to counters in one second.
async fn count(fixture: &mut Fixture, second: i64, counts: &[(&str, i64)]) {
    let mut batch = Batch::new(fixture.precisions.clone());
    for (name, n) in counts {
        batch.count(&(*name).into(), second, *n);
    }
    fixture.merge_clean(batch).await;
}

async fn names(fixture: &Fixture, precisions: &[u32]) -> Vec<String> {
    fixture
        .store
        .query()
        .counter_names(precisions)
        .await
        .unwrap()
}

async fn only_the_users_counters_are_listed(mut fixture: Fixture) {
    assert_eq!(names(&fixture, &[DAY]).await, [""; 0]);
    for context in ["GET /", "zz", "<overflow>", "!"] {
        let batch = fixture.batch(&[(context, Kind::Http, NOW, &[MS])]);
        fixture.merge_clean(batch).await;
    }
    let own = [
        "<overflow>",
        "\\hits",
        "error",
        "errors!",
        "hits!",
        "hits;",
        "hitsx",
        "micro",
        "sales",
        "é",
    ];
    count(&mut fixture, NOW, &own.map(|name| (name, -1))).await;
    let mut expected = own.to_vec();
    expected.sort_unstable();
    assert_eq!(names(&fixture, &[DAY]).await, expected);
    assert_eq!(names(&fixture, &[1, 60, DAY]).await, expected);
    assert_eq!(names(&fixture, &[7]).await, [""; 0]);
    // More than one command lists.
    let many: Vec<_> = (0..2_500)
        .map(|number| format!("job {number:04}"))
        .collect();
    for part in many.chunks(500) {
        let counts: Vec<_> = part.iter().map(|name| (&**name, 1)).collect();
        count(&mut fixture, NOW, &counts).await;
    }
    let listed = names(&fixture, &[DAY]).await;
    assert_eq!(listed.len(), own.len() + many.len());
    assert!(listed.is_sorted() && many.iter().all(|name| listed.contains(name)));
}

#[tokio::test]
async fn counters_of_other_programs_are_listed_and_garbage_is_not() {
    let fixture = Fixture::redis().await;
    let mut connection = fixture.server().connection().await;
    let conn = &mut connection;
    let known = "pulse:known:";
    for (name, precisions) in [("visits", &book::PRECISIONS[..]), ("minutes", &[60])] {
        book::update_counter(conn, "pulse:", name, 1, NOW, precisions).await;
    }
    for member in [&b"86400:\xff"[..], b"86400:", b"86400", b"", b"x"] {
        let add = redis::cmd("ZADD").arg(known).arg(0).arg(member).clone();
        let _: i64 = add.query_async(conn).await.unwrap();
    }
    assert_eq!(names(&fixture, &[DAY]).await, ["visits"]);
    assert_eq!(names(&fixture, &[60, DAY]).await, ["minutes", "visits"]);
    let page = Page::new(&fixture);
    // Only minutes are counted.
    for precision in [1, 60] {
        let uri = format!("/api/counters?name=minutes&precision={precision}");
        assert!(page.get(&uri).await["samples"].is_array());
    }
    let _: i64 = issue(conn, "DEL", known).await;
    let () = issue(conn, "SET", (known, "x")).await;
    assert_eq!(names(&fixture, &[DAY]).await, [""; 0]);
}

/// Counts at random while days pass, and compares each answer with a plain list.
async fn the_list_shows_what_was_counted(mut fixture: Fixture, steps: usize) {
    let mut rng = fastrand::Rng::with_seed(seed());
    let page = Page::new(&fixture);
    let mut counted: Vec<(i64, &str, i64)> = Vec::new();
    for _ in 0..steps {
        let wait = match rng.u32(..10) {
            0 => rng.i64(3_600..100_000),
            1..4 => rng.i64(60..2_400),
            _ => rng.i64(1..90),
        };
        fixture.advance(wait);
        let now = fixture.clock.now_seconds();
        for _ in 0..rng.usize(..4) {
            let name = ["sales", "refunds", "\\hits:a"][rng.usize(..3)];
            let (second, n) = (now - rng.i64(0..30), rng.i64(-9..99));
            counted.push((second, name, n));
            count(&mut fixture, second, &[(name, n)]).await;
        }
        let precision = fixture.precisions.counters[rng.usize(..7)];
        let uri = format!("/api/counters?precision={}&series=true", precision.seconds);
        let answer = page.get(&uri).await;
        check_list(&fixture, &answer, &counted, precision).await;
    }
}

async fn check_list(
    fixture: &Fixture,
    answer: &Value,
    counted: &[(i64, &str, i64)],
    precision: tower_pulse_core::store::Precision,
) {
    let now = fixture.clock.now_seconds();
    let (from, to) = (
        answer["from"].as_i64().unwrap(),
        answer["to"].as_i64().unwrap(),
    );
    let width = i64::from(precision.seconds);
    assert!(from <= now - 60.max(width), "{answer}");
    assert!(now - from < 60 + 2 * width, "{answer}");
    assert!(now < to && to <= now + width && from % width == 0 && to % width == 0);
    let mut expected: BTreeMap<&str, BTreeMap<i64, i64>> = BTreeMap::new();
    for (second, name, n) in counted {
        let slices = expected.entry(name).or_default();
        *slices.entry(precision.slice(*second)).or_default() += n;
    }
    let rows = answer["counters"].as_array().unwrap();
    let listed: Vec<_> = rows
        .iter()
        .map(|row| row["name"].as_str().unwrap())
        .collect();
    assert!(expected.keys().eq(&listed), "{answer}");
    let created = fixture.store.upkeep().status(now).await.unwrap().created;
    assert!(created.is_some() || counted.is_empty(), "{answer}");
    // Redis has no generation before the first flush.
    let created = created.unwrap_or(now);
    let seconds = (now - from.max(created)).max(1) as f64;
    for (row, (name, slices)) in rows.iter().zip(&expected) {
        let sum = |from: i64| slices.range(from..).map(|(_, n)| n).sum::<i64>();
        near(&row["rate"], sum(from) as f64 / seconds, 1e-9);
        let kept = slices.range(precision.cutoff(now) + 1..);
        assert_eq!(
            row["sum"],
            kept.clone().map(|(_, n)| n).sum::<i64>(),
            "{name}"
        );
        let (series, width) = (&answer["series"], width as usize);
        let bound = |name: &str| series[name].as_i64().unwrap();
        assert_eq!(bound("to"), to);
        assert_eq!(bound("to") - bound("from"), 60 * width as i64);
        let starts = (bound("from")..bound("to")).step_by(width);
        let values = row["series"].as_array().unwrap();
        assert_eq!(values.len(), 60);
        for (start, value) in starts.zip(values) {
            match slices.get(&start).filter(|_| start > precision.cutoff(now)) {
                Some(n) => assert_eq!(value, *n, "{name} {start}"),
                None => assert!(value.is_null() || value == 0, "{name} {start}: {value}"),
            }
        }
        // The last slice that has ended.
        let start = precision.slice(now - 1) - width as i64;
        let was_recorded = start + width as i64 > created;
        let last = was_recorded.then(|| slices.get(&start).copied().unwrap_or(0));
        assert_eq!(row["last"], json!(last), "{name} {start}");
        assert_eq!(row["last_start"], json!(last.and(Some(start))));
    }
}

async fn an_unknown_counter_is_404(mut fixture: Fixture) {
    let page = Page::new(&fixture);
    page.pulse().counter("declared");
    count(&mut fixture, NOW - 3_000, &[("old", 1)]).await;
    let batch = fixture.batch(&[("GET /", Kind::Http, NOW, &[MS])]);
    fixture.merge_clean(batch).await;
    for (name, status) in [
        ("declared", StatusCode::OK),
        ("old", StatusCode::OK),
        ("hits", StatusCode::OK),
        ("errors:GET%20/", StatusCode::OK),
        ("micros:%3Call%3E", StatusCode::OK),
        ("new", StatusCode::NOT_FOUND),
        ("hits:GET%20/a", StatusCode::NOT_FOUND),
    ] {
        let uri = format!("/api/counters?precision=1&name={name}");
        let (answered, answer) = page.answer(&uri).await;
        assert_eq!(answered, status, "{name}");
        assert_eq!(
            answer["error"].is_string(),
            status == StatusCode::NOT_FOUND,
            "{answer}"
        );
    }
    let listed = page.get("/api/counters").await;
    let names = listed["counters"].as_array().unwrap().iter();
    let names: Vec<_> = names.map(|row| &row["name"]).collect();
    assert_eq!(names, ["declared", "old"]);
}

in_both!(
    only_the_users_counters_are_listed,
    an_unknown_counter_is_404,
    the_list_shows_what_was_counted(300, 100)
);
