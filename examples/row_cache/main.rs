//! Serves special offers, whose stock falls, from a SQLite file through the row cache:
//! `cargo run --release -p pulse-row-cache-example`.
//!
//! | Variable | Meaning | Default |
//! |---|---|---|
//! | `LISTEN` | address and port | `127.0.0.1:3000` |
//! | `REDIS_URL` | the Redis of the statistics and the rows | `redis://127.0.0.1/` |
//! | `PULSE_PREFIX` | the prefix of every key; may be empty, as in the book *Redis in Action* | `pulse:` |
//! | `DB` | the database file, which is created if it is missing | `offers.db` in the temporary directory |
//!
//! ```text
//! curl -X PUT 'localhost:3000/offers/7/schedule?every=5'   # refresh offer 7 every five seconds
//! curl localhost:3000/offers/7                             # from the cache
//! curl 'localhost:3000/offers/7?direct=1'                  # from the database
//! curl -X DELETE localhost:3000/offers/7/schedule
//! curl localhost:3000/stats                                # how often this process read the database
//! ```
//!
//! Offer 7 is sold once a second. Ask for offer 7 as often as you like: with this schedule, the database is read once
//! in five seconds.
#![allow(clippy::print_stdout)] // An example prints to its terminal.

mod database;
#[allow(unreachable_pub, reason = "the file is also a part of a library")]
mod signal;

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, put};
use axum::{Json, Router};
use http::StatusCode;
use serde_json::json;
use tokio::net::TcpListener;
use tower_pulse::Pulse;
use tower_pulse::admin::Access;
use tower_pulse::row_cache::{RowCache, RowError};
use tower_pulse::tracing::SpanTimers;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::prelude::*;

use self::database::{Database, Offer};
use self::signal::shutdown_signal;

#[derive(Clone)]
struct App {
    offers: RowCache,
    database: Database,
    /// How often the cache has loaded a row in this process.
    refreshes: Arc<AtomicU64>,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // The statements of sqlx become timers.
    let timers = SpanTimers::new();
    let log = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    tracing_subscriber::registry()
        .with(timers.layer())
        .with(log.with_filter(LevelFilter::INFO))
        .init();
    let listen = std::env::var("LISTEN").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());
    let listen: SocketAddr = listen.parse().map_err(|_| {
        format!("LISTEN={listen:?}: must be an IP address and a port, such as 127.0.0.1:3000")
    })?;
    if !listen.ip().is_loopback() {
        return Err(
            format!("LISTEN={listen}: the admin router is open, so listen on loopback").into(),
        );
    }
    let file = std::env::var_os("DB").map_or_else(
        || std::env::temp_dir().join("offers.db"),
        std::path::PathBuf::from,
    );
    let database = Database::open(&file)
        .await
        .map_err(|error| format!("DB={}: {error}", file.display()))?;

    let redis = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1/".to_owned());
    let mut builder = Pulse::builder()
        .redis(redis)
        .tracing(&timers)
        .shutdown_timeout(Duration::from_secs(2));
    if let Ok(prefix) = std::env::var("PULSE_PREFIX") {
        builder = builder.prefix(prefix);
    }
    let pulse = builder.build()?;

    let refreshes = Arc::<AtomicU64>::default();
    let loader = {
        let (database, refreshes) = (database.clone(), refreshes.clone());
        move |id: String| {
            refreshes.fetch_add(1, Ordering::Relaxed);
            let database = database.clone();
            async move { database.offer(&id).await }
        }
    };
    let app = App {
        offers: RowCache::builder(&pulse).loader(loader).build()?,
        database: database.clone(),
        refreshes,
    };
    let app = Router::new()
        .route("/offers/{id}", get(offer))
        .route("/offers/{id}/schedule", put(schedule).delete(unschedule))
        .route("/stats", get(stats))
        .with_state(app)
        .layer(pulse.layer())
        .merge(pulse.mount("/admin/pulse", Access::open()));

    let listener = TcpListener::bind(listen)
        .await
        .map_err(|error| format!("LISTEN={listen}: {error}"))?;
    let address = listener.local_addr()?;
    println!("the offers     http://{address}/offers/7");
    println!("the dashboard  http://{address}/admin/pulse");
    let selling = tokio::spawn(sell(database));
    axum::serve(listener, app)
        .with_graceful_shutdown(shutdown_signal())
        .await?;
    selling.abort();
    // An unreachable store is not an error of the example: the crate has logged it.
    let _ = pulse.shutdown().await;
    Ok(())
}

/// All that a handler needs to read a cached row.
async fn cached(offers: &RowCache, id: &str) -> Result<Option<Offer>, RowError> {
    let row = offers.get_or_load::<Offer>(id).await?;
    Ok(row.map(|row| row.value))
}

#[derive(serde::Deserialize)]
struct Asked {
    direct: Option<String>,
}

async fn offer(
    State(app): State<App>,
    Path(id): Path<String>,
    Query(asked): Query<Asked>,
) -> Result<Response, ApiError> {
    let offer = match asked.direct.as_deref() {
        None | Some("" | "0") => cached(&app.offers, &id).await?,
        Some(_) => app
            .database
            .offer(&id)
            .await
            .map_err(ApiError::unavailable)?,
    };
    match offer {
        Some(offer) => Ok(Json(offer).into_response()),
        None => Err(ApiError(
            StatusCode::NOT_FOUND,
            format!("there is no offer {id:?}"),
        )),
    }
}

#[derive(serde::Deserialize)]
struct Schedule {
    every: f64,
}

async fn schedule(
    State(app): State<App>,
    Path(id): Path<String>,
    Query(Schedule { every }): Query<Schedule>,
) -> Result<StatusCode, ApiError> {
    let every = Duration::try_from_secs_f64(every)
        .map_err(|error| ApiError(StatusCode::BAD_REQUEST, error.to_string()))?;
    app.offers.schedule(&id, every).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn unschedule(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    app.offers.unschedule(&id).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn stats(State(app): State<App>) -> Json<serde_json::Value> {
    Json(json!({
        "database_reads": app.database.reads(),
        "refreshes": app.refreshes.load(Ordering::Relaxed),
    }))
}

/// Sells offer 7 once a second, and prints how often the database was read.
async fn sell(database: Database) {
    let mut second = tokio::time::interval(Duration::from_secs(1));
    let mut reads = database.reads();
    for seconds in 1u64.. {
        second.tick().await;
        if let Err(error) = database.sell(7).await {
            tracing::warn!(error, "offer 7 was not sold");
        }
        if seconds.is_multiple_of(10) {
            let now = database.reads();
            println!("{} reads of the database in 10 s", now - reads);
            reads = now;
        }
    }
}

struct ApiError(StatusCode, String);

impl ApiError {
    fn unavailable(error: impl std::fmt::Display) -> Self {
        Self(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
    }
}

impl From<RowError> for ApiError {
    fn from(error: RowError) -> Self {
        match error {
            RowError::NotAllowed(_) | RowError::Full(_) => {
                Self(StatusCode::BAD_REQUEST, error.to_string())
            }
            error => Self::unavailable(error),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        (self.0, Json(json!({ "error": self.1 }))).into_response()
    }
}
