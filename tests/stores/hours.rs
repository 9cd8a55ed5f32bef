//! The hours of the page: what other programs have added to them, and what looking at them costs.

use http::StatusCode;
use serde_json::Value;
use tower_pulse_model::slice::HOUR;

use crate::fixture::{Fixture, NOW, THIS_HOUR};
use crate::rig::book;
use crate::windows::{Page, Served, name, near};

#[tokio::test]
async fn an_hour_has_the_contexts_of_other_programs_too() {
    let fixture = Fixture::redis().await;
    let mut connection = fixture.server().connection().await;
    let conn = &mut connection;
    let mut page = Page::new(&fixture);
    let mut fixture = fixture;
    let one = Served::new(NOW, 0, 1_000_000);
    page.serve(&mut fixture, &[one; 4]).await;
    let hour = book::hour_iso(THIS_HOUR);
    for seconds in [0.25, 0.75] {
        book::access_time_at(conn, "pulse:", "/profile", seconds, &hour).await;
    }
    // Another program times a context that this one records too.
    book::access_time_at(conn, "pulse:", &name(0), 2.0, &hour).await;
    let contexts = |answer: &Value| -> Vec<(String, u64)> {
        let rows = answer["paths"].as_array().unwrap().iter();
        let row = |row: &Value| {
            (
                row["context"].as_str().unwrap().to_owned(),
                row["count"].as_u64().unwrap(),
            )
        };
        rows.map(row).collect()
    };
    let both = [(name(0), 5), ("/profile".to_owned(), 2)];
    let answer = page.get("/api/paths").await;
    assert_eq!(contexts(&answer), both);
    let row = &answer["paths"][1];
    assert_eq!((&row["mean"], &row["max"]), (&0.5.into(), &0.75.into()));
    assert_eq!((&row["p95"], &row["kind"]), (&Value::Null, &"http".into()));
    let shared = &answer["paths"][0];
    near(&shared["total"], 2.004, 1e-9);
    assert_eq!(shared["max"], 2.0);
    assert_eq!(shared["outcomes"]["2xx"], 4);
    let path = page.get("/api/path?context=GET+/0&window=hour").await;
    assert_eq!(path["window"]["count"], 5);
    near(&path["window"]["total"], 2.004, 1e-9);
    assert_eq!(page.get("/api/overview").await["contexts"], 2);
    let own = [(name(0), 4)];
    assert_eq!(contexts(&page.get("/api/paths?window=1h").await), own);
    // Nobody has flushed or read in the meantime.
    fixture.advance(HOUR);
    assert_eq!(
        contexts(&page.get("/api/paths?window=last_hour").await),
        both
    );
    assert_eq!(contexts(&page.get("/api/paths?window=hour").await), []);
}

/// How many commands the server has run, but for INFO.
async fn commands(fixture: &Fixture) -> u64 {
    calls(fixture, |command| command != "cmdstat_info").await
}

/// How many records, and slices of records, were read.
async fn reads(fixture: &Fixture) -> u64 {
    let is_read = |command: &str| ["cmdstat_hget", "cmdstat_hgetall"].contains(&command);
    calls(fixture, is_read).await
}

/// How often the server has run some commands.
async fn calls(fixture: &Fixture, is_counted: impl Fn(&str) -> bool) -> u64 {
    let stats = fixture.server().info("commandstats").await;
    let stats = stats.iter().filter(|(command, _)| is_counted(command));
    let calls = stats.map(|(_, stats)| {
        let calls = stats.split(',').next().unwrap();
        calls
            .strip_prefix("calls=")
            .unwrap()
            .parse::<u64>()
            .unwrap()
    });
    calls.sum()
}

/// The page polls the overview, the hours and health each second.
#[tokio::test]
async fn a_page_costs_few_commands_however_many_contexts() {
    let mut fixture = Fixture::redis().await;
    let mut page = Page::new(&fixture);
    let served = |context: usize| Served::new(NOW, context, 1_000_000);
    let requests: Vec<Served> = (0..1_000).map(served).collect();
    page.serve(&mut fixture, &requests).await;
    let look = async || {
        for uri in [
            "/api/overview",
            "/api/paths",
            "/api/paths?window=last_hour",
            "/api/health",
        ] {
            let (status, _) = page.text(uri).await;
            assert_eq!(status, StatusCode::OK, "{uri}");
        }
    };
    // At first the contexts are looked through that other programs may have added to.
    for _ in 0..60 {
        look().await;
        fixture.advance(1);
    }
    let before = commands(&fixture).await;
    const SECONDS: u64 = 30;
    for _ in 0..SECONDS {
        fixture.advance(1);
        look().await;
    }
    let per_second = (commands(&fixture).await - before) as f64 / SECONDS as f64;
    assert!(per_second <= 20.0, "{per_second} commands per second");
}

/// Charts of percentiles, and a window whose bounds move on by a second each second.
#[tokio::test]
async fn a_series_and_a_moving_window_cost_few_commands() {
    let mut fixture = Fixture::redis().await;
    let mut page = Page::new(&fixture);
    let minutes_ago = |n: i64| Served::new(NOW - 60 * n, 0, 1_000_000);
    for n in (0..60).rev() {
        page.serve(&mut fixture, &[minutes_ago(n)]).await;
    }
    let look = async |second: i64| {
        let (from, to) = (NOW + second - 3_600, NOW + second);
        for uri in [
            "/api/series?metric=p95&window=1h".to_owned(),
            "/api/series?metric=outcomes&window=24h&context=GET+/0".to_owned(),
            format!("/api/paths?from={from}&to={to}"),
        ] {
            let (status, _) = page.text(&uri).await;
            assert_eq!(status, StatusCode::OK, "{uri}");
        }
    };
    look(0).await;
    let before = reads(&fixture).await;
    const SECONDS: u64 = 30;
    for second in 1..=SECONDS {
        fixture.advance(1);
        look(second as i64).await;
    }
    let per_second = (reads(&fixture).await - before) as f64 / SECONDS as f64;
    assert!(
        per_second <= 12.0,
        "{per_second} records and slices per second"
    );
    // What has changed is read.
    let last = async || {
        let answer = page.get("/api/series?metric=outcomes&precision=60").await;
        let points = answer["points"].as_array().unwrap();
        points.last().unwrap()[1]["2xx"].as_u64().unwrap()
    };
    let counted = last().await;
    fixture.advance(2);
    let late = Served {
        second: NOW,
        ..minutes_ago(0)
    };
    let mut other = Page::new(&fixture);
    other.serve(&mut fixture, &[late; 3]).await;
    fixture.advance(2);
    assert_eq!(last().await, counted + 3);
}

/// Both mounts of a service have one reader.
#[tokio::test]
async fn two_mounts_cost_what_one_costs() {
    let mut fixture = Fixture::redis().await;
    let pages = [0; 3].map(|_| Page::new(&fixture));
    let [mut warm, one, first] = pages;
    let second = Page::of(first.pulse());
    let questions = [
        "/api/overview?window=1h",
        "/api/paths?window=1h&series=hits",
        "/api/path?context=GET+/7&window=1h",
        "/api/fix_first",
        "/api/instances",
        "/api/series?context=GET+/7&precision=60",
        "/api/slowest_requests",
        "/api/counters",
        "/api/changes",
        "/api/health",
    ];
    let mut commands = Vec::new();
    for look in 0..3 {
        fixture.advance(61);
        let served = |context| Served::new(NOW + 61 * (look + 1), context, 1_000_000);
        let requests: Vec<Served> = (0..20).map(served).collect();
        warm.serve(&mut fixture, &requests).await;
        // What the store itself holds, it holds for all pages.
        for mounts in [&[&warm][..], &[&one], &[&first, &second]] {
            let before = calls(&fixture, is_of_page).await;
            for uri in questions {
                for mount in mounts {
                    mount.get(uri).await;
                }
            }
            commands.push(calls(&fixture, is_of_page).await - before);
        }
    }
    for look in commands.chunks(3) {
        assert!(look[1] > 0, "{commands:?}");
        assert_eq!(look[1], look[2], "by one mount and by two: {commands:?}");
    }
}

/// Whether a command is none that the test sends itself.
fn is_of_page(command: &str) -> bool {
    let others = ["cmdstat_info", "cmdstat_client", "cmdstat_ping"];
    !others.iter().any(|other| command.starts_with(other))
}
