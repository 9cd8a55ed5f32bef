//! sqlx 0.8 and 0.9 on Postgres and on SQLite: which statements each page runs, how often, and for how long.

use std::sync::Arc;

use axum::Router;
use pulse_rig::http::Client;
use pulse_rig::process::TempDir;
use pulse_rig::wait::{PATIENCE, look_until};
use pulse_spans::postgres::Postgres;
use pulse_spans::shop::{ITEMS, STATEMENTS};
use pulse_spans::{Counted, names, page, serve, shop, start, timer};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tower_pulse::Pulse;

shop!(
    postgres_9,
    sqlx,
    Postgres,
    "SELECT pg_sleep(600) FROM users"
);
shop!(
    postgres_8,
    sqlx_08,
    Postgres,
    "SELECT pg_sleep(600) FROM users"
);
shop!(
    sqlite_9,
    sqlx,
    Sqlite,
    "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 900000) SELECT max(x) FROM c"
);
shop!(
    sqlite_8,
    sqlx_08,
    Sqlite,
    "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 900000) SELECT max(x) FROM c"
);

/// The clients that send requests at the same time, and the requests of each to each page.
const CLIENTS: u64 = 4;
const REQUESTS: u64 = 5;

/// Sends requests to all pages of a shop at the same time, and compares what the pages show with the count of
/// statements. Then cancels a request.
async fn assert_shop(
    pulse: &Pulse,
    counted: &Counted,
    name: &str,
    (routes, slow): (Router, Arc<Notify>),
    slow_timer: &str,
) {
    // The routes are in the contexts of this shop.
    let app = Router::new().nest(&format!("/{name}"), routes);
    let address = serve(app.layer(pulse.layer())).await;
    let before = counted.so_far();
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
    let (after, requests) = (counted.so_far(), CLIENTS * REQUESTS);
    for (path, timer_name, statement, per_request) in STATEMENTS {
        let context = format!("GET /{name}{path}");
        // A reader asks the store at most once a second.
        let page = look_until(PATIENCE, async || {
            let page = page(pulse, &context).await;
            match page["count"] == requests {
                true => Ok(page),
                false => Err(format!("{page:#}")),
            }
        })
        .await;
        let runs =
            |counts: &pulse_spans::Counts| counts.get(statement).copied().unwrap_or_default();
        let ((before, seconds_before), (after, seconds)) = (runs(&before), runs(&after));
        assert_eq!(
            after - before,
            requests * per_request,
            "{context}: {statement}"
        );
        let timer = timer(&page, timer_name);
        assert_eq!(timer["count"], after - before, "{context}: {timer}");
        assert_eq!(timer["requests"], requests, "{context}: {timer}");
        let seconds = seconds - seconds_before;
        let total = timer["total"].as_f64().unwrap();
        assert!(
            (total - seconds).abs() <= 0.01 * seconds,
            "{context}: {timer}, {seconds} s"
        );
        assert_shares(&context, &page);
        assert!(page["timed_share"].as_f64().unwrap() > 0.0, "{context}");
        assert_eq!(
            timer["repeated"],
            per_request == ITEMS as u64,
            "{context}: {timer}"
        );
    }
    // Statements of a page run one after another, so they cover their sum.
    for path in ["/orders", "/visit"] {
        let context = format!("GET /{name}{path}");
        let page = page(pulse, &context).await;
        let timers = page["timers"].as_array().unwrap();
        let overlap = |timer: &Value| timer["overlap"].as_f64().unwrap();
        let total = |timer: &Value| timer["total"].as_f64().unwrap();
        for timer in timers {
            assert!(overlap(timer) <= 0.01 * total(timer), "{context}: {timer}");
        }
    }
    let expected = ["sql SELECT orders", "sql SELECT products"];
    assert_eq!(
        names(&page(pulse, &format!("GET /{name}/orders")).await),
        expected
    );
    let paths = pulse
        .query()
        .json("paths?window=1h&limit=1000")
        .await
        .unwrap();
    let paths: Value = serde_json::from_str(&paths).unwrap();
    let mut paths = paths["paths"].as_array().unwrap().iter();
    let orders = paths.find(|row| row["context"] == format!("GET /{name}/orders"));
    let repeated = &orders.unwrap()["repeated"];
    assert_eq!(repeated["timer"], "sql SELECT products");
    assert!(repeated["saved_per_request"].as_f64().unwrap() > 0.0);
    assert_cancelled(pulse, address, &format!("/{name}/slow"), &slow, slow_timer).await;
}

/// No timer and no sum of timers covers more than the requests' time.
fn assert_shares(context: &str, page: &Value) {
    let share = |value: &Value| value.as_f64().unwrap();
    let (timed, untimed) = (share(&page["timed_share"]), share(&page["untimed_share"]));
    assert!((timed + untimed - 1.0).abs() < 1e-9, "{context}: {page:#}");
    for timer in page["timers"].as_array().unwrap() {
        let covered = share(&timer["share"]);
        assert!(covered <= timed + 1e-9, "{context}: {timer}");
    }
}

/// A request that is cancelled in the middle of a statement has the statement.
async fn assert_cancelled(
    pulse: &Pulse,
    address: std::net::SocketAddr,
    path: &str,
    slow: &Notify,
    slow_timer: &str,
) {
    let asked = path.to_owned();
    let client = tokio::spawn(async move { Client::connect(address).await.get(&asked).await });
    slow.notified().await;
    client.abort();
    let context = format!("GET {path}");
    look_until(PATIENCE, async || {
        let page = page(pulse, &context).await;
        // SQLite may begin the statement, and ends it, after the request has ended.
        let timers = page["timers"].as_array();
        let has_timer = timers.is_some_and(|timers| !timers.is_empty());
        let is_cancelled = page["outcomes"]["cancelled"] == 1;
        let is_there = has_timer && is_cancelled && timer(&page, slow_timer)["count"] == 1;
        is_there.then_some(()).ok_or_else(|| format!("{page:#}"))
    })
    .await;
    assert_shares(&context, &page(pulse, &context).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_page_shows_its_statements() {
    let (pulse, counted) = start();
    let server = Postgres::start();
    let url = &server.url();
    // A cancelled request has begun its statement when it waits.
    let pool = || {
        let pool = sqlx::postgres::PgPoolOptions::new().max_connections(6);
        pool.test_before_acquire(false)
    };
    let first = look_until(PATIENCE, async || {
        pool().connect(url).await.map_err(|error| error.to_string())
    })
    .await;
    sqlx::query("CREATE SCHEMA other")
        .execute(&first)
        .await
        .unwrap();
    let select = "sql SELECT users";
    let routes = postgres_9::routes(first).await;
    assert_shop(&pulse, &counted, "postgres_9", routes, select).await;
    let options = url.parse::<sqlx_08::postgres::PgConnectOptions>().unwrap();
    let options = options.options([("search_path", "other")]);
    let pool = sqlx_08::postgres::PgPoolOptions::new().max_connections(6);
    let pool = pool.test_before_acquire(false);
    let routes = postgres_8::routes(pool.connect_with(options).await.unwrap()).await;
    assert_shop(&pulse, &counted, "postgres_8", routes, select).await;

    // A database in memory lives as long as its only connection.
    let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1);
    let pool = pool.test_before_acquire(false);
    let pool = pool.connect("sqlite::memory:").await.unwrap();
    let routes = sqlite_9::routes(pool).await;
    assert_shop(&pulse, &counted, "sqlite_9", routes, "sql SELECT c").await;
    // Both versions give their first database in memory the same name.
    let dir = TempDir::new("sqlite");
    let url = format!("sqlite://{}/shop?mode=rwc", dir.path().display());
    let pool = sqlx_08::sqlite::SqlitePoolOptions::new().max_connections(1);
    let pool = pool.test_before_acquire(false);
    let pool = pool.connect(&url).await.unwrap();
    let routes = sqlite_8::routes(pool).await;
    assert_shop(&pulse, &counted, "sqlite_8", routes, "sql SELECT c").await;
    pulse.shutdown().await.unwrap();
}
