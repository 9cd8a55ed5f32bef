//! sqlx 0.8 and 0.9 on Postgres and on SQLite: which statements each page runs, how often, and for how long.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use pulse_rig::http::Client;
use pulse_rig::process::TempDir;
use pulse_rig::wait::{PATIENCE, look_until};
use pulse_spans::postgres::Postgres;
use pulse_spans::shop::STATEMENTS;
use pulse_spans::{Counted, names, page, serve, shop, start, timer, timers};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tower_pulse::Pulse;

shop!(postgres_9, sqlx, Postgres, SLOW_ON_POSTGRES);
shop!(postgres_8, sqlx_08, Postgres, SLOW_ON_POSTGRES);
shop!(sqlite_9, sqlx, Sqlite, SLOW_ON_SQLITE);
shop!(sqlite_8, sqlx_08, Sqlite, SLOW_ON_SQLITE);

/// The clients that send requests at the same time, and the requests of each client to each page.
const CLIENTS: u64 = 4;
const REQUESTS: u64 = 5;

/// Sends requests to a shop from several clients, and compares the figures of its pages with the counted statements.
/// Then cancels a request.
async fn assert_shop(
    pulse: &Pulse,
    counted: &Counted,
    name: &str,
    (routes, slow): (Router, Arc<Notify>),
    slow_timer: &str,
) {
    let app = Router::new().nest(&format!("/{name}"), routes);
    let address = serve(app.layer(pulse.layer())).await;
    counted.clear();
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let name = name.to_owned();
        clients.spawn(async move {
            let mut client = Client::connect(address).await;
            for _ in 0..REQUESTS {
                for path in ["/user", "/orders", "/visit", "/stream", "/join", "/spawn"] {
                    let answer = client.get(&format!("/{name}{path}")).await;
                    assert_eq!(answer.status, 200, "{name}{path}: {}", answer.text());
                }
            }
        });
    }
    while let Some(client) = clients.join_next().await {
        client.unwrap();
    }
    let requests = CLIENTS * REQUESTS;
    for row in STATEMENTS {
        let [path, runs, name_of_timer, statement] = row.split(" | ").collect::<Vec<_>>()[..]
        else {
            panic!("{row}");
        };
        let runs = requests * runs.parse::<u64>().unwrap();
        let context = format!("GET /{name}{path}");
        // A query reads the store at most once a second, so the newest requests may be missing at first.
        let page = look_until(PATIENCE, async || {
            let page = page(pulse, &context).await;
            match page["count"] == requests {
                true => Ok(page),
                false => Err(format!("{page:#}")),
            }
        })
        .await;
        let (count, seconds) = counted.runs(statement);
        assert_eq!(count, runs, "{context}: {statement}");
        let timer = timer(&page, name_of_timer);
        assert_eq!(timer["count"], runs, "{context}: {timer}");
        assert_eq!(timer["requests"], requests, "{context}: {timer}");
        let [total, overlap] = ["total", "overlap"].map(|name| number(timer, name));
        let is_near = (total - seconds).abs() <= 0.01 * seconds;
        assert!(is_near, "{context}: {timer}, {seconds} s");
        let is_sequence = ["/orders", "/visit"].contains(&path);
        let is_disjoint = overlap <= 0.01 * total;
        assert!(!is_sequence || is_disjoint, "{context}: {timer}");
        let is_repeated = runs > 20 * requests;
        assert_eq!(timer["repeated"], is_repeated, "{context}: {timer}");
        assert!(number(&page, "timed_share") > 0.0, "{context}: {page:#}");
        assert_shares(&context, &page);
    }
    let orders = page(pulse, &format!("GET /{name}/orders")).await;
    assert_eq!(names(&orders), ["sql SELECT orders", "sql SELECT products"]);
    assert_cancelled(pulse, address, &format!("/{name}/slow"), &slow, slow_timer).await;
}

fn number(of: &Value, name: &str) -> f64 {
    of[name].as_f64().unwrap()
}

/// Checks that the shares add up to 1, and that no timer exceeds the timed share.
fn assert_shares(context: &str, page: &Value) {
    let timed = number(page, "timed_share");
    let all = timed + number(page, "untimed_share");
    assert!((all - 1.0).abs() < 1e-9, "{context}: {page:#}");
    for timer in timers(page) {
        assert!(number(timer, "share") <= timed + 1e-9, "{context}: {timer}");
    }
}

/// Cancels a request during a statement, and checks that the request has the statement.
async fn assert_cancelled(
    pulse: &Pulse,
    address: SocketAddr,
    path: &str,
    slow: &Notify,
    slow_timer: &str,
) {
    let asked = path.to_owned();
    let client = tokio::spawn(async move { Client::connect(address).await.get(&asked).await });
    slow.notified().await;
    client.abort();
    let context = format!("GET {path}");
    let page = look_until(PATIENCE, async || {
        let page = page(pulse, &context).await;
        // SQLite ends the statement, and may even begin the statement, after the request has ended.
        let mut timers = page["timers"].as_array().into_iter().flatten();
        let has_ended = timers.any(|one| one["timer"] == slow_timer && one["count"] == 1);
        match page["outcomes"]["cancelled"] == 1 && has_ended {
            true => Ok(page),
            false => Err(format!("{page:#}")),
        }
    })
    .await;
    assert_shares(&context, &page);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_page_shows_its_statements() {
    let (pulse, counted) = start();
    let servers = [Postgres::start(), Postgres::start()];
    let [first, second] = servers.each_ref().map(Postgres::url);
    let dir = TempDir::new("sqlite");
    let file = |name: &str| format!("sqlite://{}/{name}?mode=rwc", dir.path().display());
    let (users, c) = ("sql SELECT users", "sql SELECT c");
    for (name, routes, slow_timer) in [
        ("postgres_9", postgres_9::routes(&first, 6).await, users),
        ("postgres_8", postgres_8::routes(&second, 6).await, users),
        ("sqlite_9", sqlite_9::routes(&file("9"), 1).await, c),
        ("sqlite_8", sqlite_8::routes(&file("8"), 1).await, c),
    ] {
        assert_shop(&pulse, &counted, name, routes, slow_timer).await;
    }
    pulse.shutdown().await.unwrap();
}
