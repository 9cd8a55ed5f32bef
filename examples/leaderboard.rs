//! Ranks posts by their likes in the past 24 hours: `cargo run --example leaderboard`, then
//! `curl -X POST 127.0.0.1:3000/posts/7/like` and `curl 127.0.0.1:3000/top`.
//!
//! | Request | Answer |
//! |---|---|
//! | `POST /posts/{id}/like?n=1` | 204 when every instance can read the likes; 202 when they are recorded, but the store has not confirmed them yet; 400 if `n` is wrong; 503 after any other error |
//! | `GET /top?offset=0&limit=10` | `[{"id": "7", "score": 1}]`, highest first |
//! | `GET /admin/pulse` | the dashboard; the ranking is at `/admin/pulse/api/rankings?name=posts` |
//!
//! | Variable | Meaning | Default |
//! |---|---|---|
//! | `LISTEN` | loopback address and port | `127.0.0.1:3000` |
//! | `REDIS_URL` | the Redis that keeps everything | absent: in memory |
//! | `PULSE_PREFIX` | the prefix of every key; may be empty, as in the book *Redis in Action* | `pulse:` |
#![allow(clippy::print_stdout)] // An example prints to its terminal.

use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use http::StatusCode;
use pulse_examples::signal::shutdown_signal;
use serde_json::json;
use tower_pulse::admin::Access;
use tower_pulse::{Pulse, Ranking, RankingError};

const MAX_LIKES: i64 = 1_000_000_000;
const MAX_POSTS: usize = 1_000;

type Parameters = Query<Vec<(String, String)>>;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    let listen = std::env::var("LISTEN").unwrap_or_else(|_| "127.0.0.1:3000".into());
    let listen: SocketAddr = listen
        .parse()
        .map_err(|_| format!("LISTEN={listen:?}: must be an IP address and a port"))?;
    if !listen.ip().is_loopback() {
        return Err(
            format!("LISTEN={listen}: the dashboard is open, so use a loopback address").into(),
        );
    }
    let mut builder = Pulse::builder();
    if let Some(url) = std::env::var("REDIS_URL")
        .ok()
        .filter(|url| !url.is_empty())
    {
        builder = builder.redis(url);
    }
    if let Ok(prefix) = std::env::var("PULSE_PREFIX") {
        builder = builder.prefix(prefix);
    }
    let pulse = builder.build()?;
    let hour = Duration::from_secs(3_600);
    let posts = pulse.ranking("posts").period(24 * hour).interval(hour);
    let app = Router::new()
        .route("/posts/{id}/like", post(like))
        .route("/top", get(top))
        .with_state(posts.build()?)
        .layer(pulse.layer())
        .merge(pulse.mount("/admin/pulse", Access::open()));

    let listener = tokio::net::TcpListener::bind(listen).await?;
    println!("http://{}/top", listener.local_addr()?);
    axum::serve(listener, app)
        .with_graceful_shutdown(shutdown_signal())
        .await?;
    // An unreachable store is not an error of the example: the crate has logged it.
    let _ = pulse.shutdown().await;
    Ok(())
}

async fn like(
    State(posts): State<Ranking>,
    Path(id): Path<String>,
    Query(parameters): Parameters,
) -> Response {
    let likes = number(&parameters, "n", 1).filter(|n| (-MAX_LIKES..=MAX_LIKES).contains(n));
    let Some(likes) = likes else {
        let message = format!("n must be a whole number from -{MAX_LIKES} to {MAX_LIKES}\n");
        return (StatusCode::BAD_REQUEST, message).into_response();
    };
    match posts.add_now(&id, likes).await {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        // The likes are recorded, and the crate sends them again: the client must not repeat the request.
        Err(error @ RankingError::Unconfirmed(..)) => {
            (StatusCode::ACCEPTED, format!("{error}\n")).into_response()
        }
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")).into_response(),
    }
}

async fn top(State(posts): State<Ranking>, Query(parameters): Parameters) -> Response {
    let (Some(offset), Some(limit)) = (
        number::<usize>(&parameters, "offset", 0),
        number::<usize>(&parameters, "limit", 10),
    ) else {
        let message = "offset and limit must be whole numbers from 0\n";
        return (StatusCode::BAD_REQUEST, message).into_response();
    };
    match posts.top(offset, limit.min(MAX_POSTS)).await {
        Ok(top) => {
            let top = top
                .iter()
                .map(|post| json!({"id": post.id, "score": post.score}));
            Json(top.collect::<Vec<_>>()).into_response()
        }
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")).into_response(),
    }
}

/// A parameter, or its default; `None` if the parameter is not a number.
fn number<T: std::str::FromStr>(
    parameters: &[(String, String)],
    name: &str,
    default: T,
) -> Option<T> {
    match parameters.iter().find(|(given, _)| given == name) {
        Some((_, value)) => value.parse().ok(),
        None => Some(default),
    }
}
