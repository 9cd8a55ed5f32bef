//! Answers about this hour and the last hour include the samples of other programs, and cost few commands.

use http::StatusCode;
use serde_json::{Value, json};
use tower_pulse_model::slice::{HOUR, iso_hour};

use crate::rig::book;
use crate::stores::fixture::{Fixture, MS, NOW, THIS_HOUR, calls};
use crate::stores::windows::{Dashboard, Served, name, near};

#[tokio::test]
async fn an_hour_has_the_contexts_of_other_programs_too() {
    let mut fixture = Fixture::redis().await;
    let conn = &mut fixture.server().connection().await;
    let mut dashboard = Dashboard::new(&fixture);
    let request = Served::new(NOW, 0, MS);
    dashboard.serve(&mut fixture, &[request; 4]).await;
    let hour = iso_hour(THIS_HOUR);
    for seconds in [0.25, 0.75] {
        book::access_time(conn, "pulse:", "/profile", seconds, &hour).await;
    }
    // Another program times a context that this crate records too.
    book::access_time(conn, "pulse:", &name(0), 2.0, &hour).await;
    let contexts = |answer: &Value| {
        let rows = answer["paths"].as_array().unwrap().iter();
        Value::from_iter(rows.map(|row| json!([row["context"], row["count"]])))
    };
    let both = json!([[name(0), 5], ["/profile", 2]]);
    let answer = dashboard.get("paths").await;
    assert_eq!(contexts(&answer), both);
    let row = &answer["paths"][1];
    assert_eq!((&row["mean"], &row["max"]), (&0.5.into(), &0.75.into()));
    assert_eq!((&row["p95"], &row["kind"]), (&Value::Null, &"http".into()));
    let shared = &answer["paths"][0];
    near(&shared["total"], 2.004, 1e-9);
    assert_eq!(shared["max"], 2.0);
    assert_eq!(shared["outcomes"]["2xx"], 4);
    let path = dashboard.get("path?context=GET+/0&window=hour").await;
    assert_eq!(path["window"]["count"], 5);
    near(&path["window"]["total"], 2.004, 1e-9);
    assert_eq!(dashboard.get("overview").await["contexts"], 2);
    let window = async |window: &str| {
        let uri = format!("paths?window={window}");
        contexts(&dashboard.get(&uri).await)
    };
    assert_eq!(window("1h").await, json!([[name(0), 4]]));
    // The next hour begins without a flush or a query.
    fixture.advance(HOUR);
    assert_eq!(window("last_hour").await, both);
    assert_eq!(window("hour").await, json!([]));
}

/// The dashboard asks for the overview, the hours and health each second. Its charts ask for series, and for a window
/// that moves on by a second each second.
#[tokio::test]
async fn a_dashboard_costs_few_commands_with_any_number_of_contexts() {
    const SECONDS: u64 = 30;
    let mut fixture = Fixture::redis().await;
    let mut dashboard = Dashboard::new(&fixture);
    let hour: Vec<_> = (0..60).map(|n| Served::new(NOW - 60 * n, 0, MS)).collect();
    dashboard.serve(&mut fixture, &hour).await;
    let many: Vec<_> = (0..1_000).map(|n| Served::new(NOW, n, MS)).collect();
    dashboard.serve(&mut fixture, &many).await;
    let get = async |uris: &[&str]| {
        for uri in uris {
            assert_eq!(dashboard.answer(uri).await.0, StatusCode::OK, "{uri}");
        }
    };
    let polled = ["overview", "paths", "paths?window=last_hour", "health"];
    // At first, the dashboard searches all contexts for samples of other programs.
    for _ in 0..60 {
        get(&polled).await;
        fixture.advance(1);
    }
    let () = fixture.run("CONFIG RESETSTAT").await;
    for _ in 0..SECONDS {
        fixture.advance(1);
        get(&polled).await;
    }
    let mut commands = calls(fixture.server()).await;
    commands.retain(|name, _| name != "info");
    let sum: u64 = commands.values().sum();
    assert!(sum <= 20 * SECONDS, "{sum} commands: {commands:?}");

    let charts = async |now: i64| {
        let moving = format!("paths?from={}&to={now}", now - 3_600);
        let outcomes = "series?metric=outcomes&window=24h&context=GET+/0";
        get(&["series?metric=p95&window=1h", outcomes, &moving]).await;
    };
    charts(fixture.now()).await;
    let () = fixture.run("CONFIG RESETSTAT").await;
    for _ in 0..SECONDS {
        fixture.advance(1);
        charts(fixture.now()).await;
    }
    let commands = calls(fixture.server()).await;
    let read = ["hget", "hgetall"].map(|name| commands.get(name).unwrap_or(&0));
    let sum: u64 = read.into_iter().sum();
    assert!(sum <= 12 * SECONDS, "{sum} records and slices");
    // A slice that has changed is read again.
    let last = async || {
        let answer = dashboard.get("series?metric=outcomes&precision=60").await;
        let points = answer["points"].as_array().unwrap();
        points.last().unwrap()[1]["2xx"].as_u64().unwrap()
    };
    let counted = last().await;
    fixture.advance(2);
    let earlier = Served::new(NOW, 0, MS);
    let mut other = Dashboard::new(&fixture);
    other.serve(&mut fixture, &[earlier; 3]).await;
    fixture.advance(2);
    assert_eq!(last().await, counted + 3);
}
