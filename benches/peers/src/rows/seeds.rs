//! The book's own scheme: time-series counters and access times in every request, awaited before the
//! response is sent. 32 commands in 5 round trips: counters of 7 precisions (16), statistics (12), the
//! ranking of the slowest (4).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use redis::aio::MultiplexedConnection;
use redis::{Client, Pipeline, RedisResult, cmd, pipe};

use super::App;
use crate::driver::Ground;
use crate::redis_server::RedisServer;

const PRECISIONS: [u64; 7] = [1, 5, 60, 300, 3_600, 18_000, 86_400];

/// A connection for each concurrent request, as WATCH belongs to a connection.
#[derive(Clone)]
struct Pool {
    client: Client,
    idle: Arc<Mutex<Vec<MultiplexedConnection>>>,
}

/// The book's functions in a `from_fn`, with their own server.
pub(super) fn seeds(routes: Router, _: &Ground) -> Result<App, String> {
    let server = RedisServer::start()?;
    let pool = Pool {
        client: Client::open(server.url()).map_err(|error| error.to_string())?,
        idle: Arc::default(),
    };
    let router = routes.layer(from_fn_with_state(pool, track));
    Ok(App::keeping(router, server))
}

async fn track(State(pool): State<Pool>, request: Request, next: Next) -> Response {
    let start = Instant::now();
    let path = request.extensions().get::<MatchedPath>();
    let context = path.map_or(String::new(), |path| path.as_str().to_owned());
    let response = next.run(request).await;
    record(&pool, &context, start.elapsed().as_secs_f64())
        .await
        .expect("the server of this row is there");
    response
}

async fn record(pool: &Pool, context: &str, seconds: f64) -> RedisResult<()> {
    let idle = || pool.idle.lock().unwrap_or_else(PoisonError::into_inner);
    let idle_connection = idle().pop();
    let mut connection = match idle_connection {
        Some(connection) => connection,
        None => pool.client.get_multiplexed_async_connection().await?,
    };
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = since.map_or(0, |since| since.as_secs());
    update_counter(&mut connection, context, now).await?;
    let mean = update_stats(&mut connection, context, now, seconds).await?;
    let mut transaction = pipe();
    transaction.atomic();
    transaction
        .zadd("slowest:AccessTime", context, mean)
        .ignore();
    let trim = transaction.cmd("ZREMRANGEBYRANK");
    trim.arg("slowest:AccessTime").arg(0).arg(-101).ignore();
    () = transaction.query_async(&mut connection).await?;
    idle().push(connection);
    Ok(())
}

/// The recipe *time-series counters*: 2 commands for each precision, MULTI and EXEC; 1 round trip.
async fn update_counter(
    connection: &mut MultiplexedConnection,
    context: &str,
    now: u64,
) -> RedisResult<()> {
    let mut transaction = pipe();
    transaction.atomic();
    for precision in PRECISIONS {
        let slice = now / precision * precision;
        let hash = format!("{precision}:hits:{context}");
        transaction.zadd("known:", &hash, 0).ignore();
        transaction
            .hincr(format!("count:{hash}"), slice, 1)
            .ignore();
    }
    transaction.query_async(connection).await
}

/// The recipe *statistics*: WATCH, GET, and 8 commands between MULTI and EXEC; 3 round trips. Returns the
/// mean.
async fn update_stats(
    connection: &mut MultiplexedConnection,
    context: &str,
    now: u64,
    value: f64,
) -> RedisResult<f64> {
    let destination = format!("stats:{context}:AccessTime");
    let start_key = format!("{destination}:start");
    loop {
        () = cmd("WATCH").arg(&start_key).query_async(connection).await?;
        let hour = now / 3_600 * 3_600;
        let start: Option<u64> = cmd("GET").arg(&start_key).query_async(connection).await?;
        let mut transaction = pipe();
        transaction.atomic();
        match start {
            Some(start) if start >= hour => {}
            Some(_) => {
                let last = format!("{destination}:last");
                transaction.rename(&destination, last).ignore();
                let before = format!("{destination}:pstart");
                transaction.rename(&start_key, before).ignore();
                transaction.set(&start_key, hour).ignore();
            }
            None => {
                transaction.set(&start_key, hour).ignore();
            }
        }
        let random: u128 = (u128::from(fastrand::u64(..)) << 64) | u128::from(fastrand::u64(..));
        let (least, most) = (format!("{random:032x}min"), format!("{random:032x}max"));
        transaction.zadd(&least, "min", value).ignore();
        transaction.zadd(&most, "max", value).ignore();
        union(&mut transaction, &destination, &least, "MIN");
        union(&mut transaction, &destination, &most, "MAX");
        transaction.del(&[&least, &most]).ignore();
        transaction.zincr(&destination, "count", 1);
        transaction.zincr(&destination, "sum", value);
        transaction.zincr(&destination, "sumsq", value * value);
        let sums: Option<(f64, f64, f64)> = transaction.query_async(connection).await?;
        // No answer: another request has begun the hour in between.
        if let Some((count, sum, _)) = sums {
            return Ok(sum / count);
        }
    }
}

fn union(transaction: &mut Pipeline, destination: &str, other: &str, aggregate: &str) {
    let union = transaction.cmd("ZUNIONSTORE");
    union.arg(destination).arg(2).arg(destination).arg(other);
    union.arg("AGGREGATE").arg(aggregate).ignore();
}
