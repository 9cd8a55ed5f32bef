//! The functions of *Redis in Action*, chapters 5.2.1 to 5.2.3, as another program would call them.
//!
//! These functions are the reference for the book's keys: tower-pulse must read the keys that these functions write,
//! and these functions the keys of tower-pulse. Each function follows the printed code, command by command. If the
//! printed code is wrong, the function's documentation describes the difference. `prefix` precedes every key; the book
//! has no prefix.
//!
//! Some functions use WATCH, which belongs to a connection. Therefore, give each caller its own connection, not a clone
//! of a shared connection.

use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::pipe;

use super::server::{issue, run};

/// The book's precisions, in seconds.
pub const PRECISIONS: [i64; 7] = [1, 5, 60, 300, 3600, 18_000, 86_400];

/// `update_counter`: adds `n` to a counter at Unix second `now`, in each of the precisions.
pub async fn update_counter(
    conn: &mut MultiplexedConnection,
    prefix: &str,
    name: &str,
    n: i64,
    now: i64,
    precisions: &[i64],
) {
    let mut transaction = pipe();
    transaction.atomic();
    for precision in precisions {
        let slice = now.div_euclid(*precision) * precision;
        let hash = format!("{precision}:{name}");
        let known = (format!("{prefix}known:"), 0, &hash);
        transaction.cmd("ZADD").arg(known);
        let count = (format!("{prefix}count:{hash}"), slice, n);
        transaction.cmd("HINCRBY").arg(count);
    }
    transaction.exec_async(conn).await.unwrap();
}

/// `get_counter`: the slices of a counter, as start and value, oldest first.
pub async fn get_counter(
    conn: &mut MultiplexedConnection,
    prefix: &str,
    name: &str,
    precision: i64,
) -> Vec<(i64, i64)> {
    let key = format!("{prefix}count:{precision}:{name}");
    let mut slices: Vec<(i64, i64)> = issue(conn, "HGETALL", key).await;
    slices.sort_unstable();
    slices
}

/// One pass of `clean_counters` at Unix second `now`, after `passes` earlier passes. Returns the number of counters
/// that the pass has removed from `known:`.
pub async fn clean_counters_pass(
    conn: &mut MultiplexedConnection,
    prefix: &str,
    passes: i64,
    sample_count: i64,
    now: i64,
) -> u64 {
    let known_key = format!("{prefix}known:");
    let mut cleaned = 0;
    let mut index: i64 = 0;
    while index < issue(conn, "ZCARD", &known_key).await {
        let member: Vec<String> = issue(conn, "ZRANGE", (&known_key, index, index)).await;
        index += 1;
        let Some(hash) = member.first() else { break };
        let digits = hash.split(':').next().unwrap_or_default();
        let Ok(precision) = digits.parse::<i64>() else {
            panic!("the book's cleaner fails on {hash:?} in `known:`");
        };
        if passes % (precision / 60).max(1) != 0 {
            continue;
        }
        let key = format!("{prefix}count:{hash}");
        let cutoff = now - sample_count * precision;
        let mut samples: Vec<i64> = issue(conn, "HKEYS", &key).await;
        samples.sort_unstable();
        let remove = samples.partition_point(|slice| *slice <= cutoff);
        if remove == 0 {
            continue;
        }
        let () = issue(conn, "HDEL", (&key, &samples[..remove])).await;
        if remove == samples.len() && forget_if_empty(conn, &known_key, hash, &key).await {
            cleaned += 1;
            index -= 1;
        }
    }
    cleaned
}

/// Removes an empty counter from `known:`, unless another client adds to the counter meanwhile. Returns whether the
/// counter was removed.
async fn forget_if_empty(
    conn: &mut MultiplexedConnection,
    known_key: &str,
    hash: &str,
    key: &str,
) -> bool {
    let () = issue(conn, "WATCH", key).await;
    if issue::<u64>(conn, "HLEN", key).await > 0 {
        let () = run(conn, "UNWATCH").await;
        return false;
    }
    let mut transaction = pipe();
    transaction.atomic().cmd("ZREM").arg(known_key).arg(hash);
    let done: Option<(i64,)> = transaction.query_async(conn).await.unwrap();
    done.is_some()
}

/// `update_stats`: adds an access time to the statistics of a context in the hour `hour_iso` (`2012-05-07T07:00:00`).
/// Returns count and sum.
///
/// The printed code never creates `:start`. The book's later code does, and so does this function.
async fn update_stats(
    conn: &mut MultiplexedConnection,
    prefix: &str,
    context: &str,
    value: f64,
    hour_iso: &str,
) -> (f64, f64) {
    let stats = format!("{prefix}stats:{context}:AccessTime");
    let start = format!("{stats}:start");
    let end = Instant::now() + Duration::from_secs(5);
    while Instant::now() < end {
        let () = issue(conn, "WATCH", &start).await;
        let existing: Option<String> = issue(conn, "GET", &start).await;

        let mut t = pipe();
        t.atomic();
        match existing {
            Some(hour) if hour.as_str() < hour_iso => {
                t.rename(&stats, format!("{stats}:last")).ignore();
                t.rename(&start, format!("{stats}:pstart")).ignore();
                t.set(&start, hour_iso).ignore();
            }
            None => {
                t.set(&start, hour_iso).ignore();
            }
            _ => {}
        }
        let (low, high) = (temporary(prefix), temporary(prefix));
        t.cmd("ZADD").arg(&low).arg(value).arg("min").ignore();
        t.cmd("ZADD").arg(&high).arg(value).arg("max").ignore();
        for (temporary, merge) in [(&low, "MIN"), (&high, "MAX")] {
            t.cmd("ZUNIONSTORE").arg(&stats).arg(2);
            t.arg(&stats).arg(temporary).arg("AGGREGATE").arg(merge);
            t.ignore();
        }
        t.cmd("DEL").arg(&low).arg(&high).ignore();
        for (member, by) in [("count", 1.0), ("sum", value), ("sumsq", value * value)] {
            t.cmd("ZINCRBY").arg(&stats).arg(by).arg(member);
        }
        let totals: Option<(f64, f64, f64)> = t.query_async(conn).await.unwrap();
        if let Some((count, sum, _)) = totals {
            return (count, sum);
        }
        // Tries again, because another client began a new hour between WATCH and EXEC.
    }
    panic!("update_stats: no transaction has succeeded within five seconds");
}

/// Statistics as [`get_stats`] returns them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stats {
    pub min: f64,
    pub max: f64,
    pub count: f64,
    pub sum: f64,
    /// `sum / count`.
    pub average: f64,
}

/// `get_stats`: the members of a statistics key, and the average.
///
/// `kind` also selects the hour: `AccessTime:last` is the previous hour. Panics if the set or a member is missing. The
/// printed code fails too in this case.
pub async fn get_stats(
    conn: &mut MultiplexedConnection,
    prefix: &str,
    context: &str,
    kind: &str,
) -> Stats {
    let key = format!("{prefix}stats:{context}:{kind}");
    let members: std::collections::HashMap<String, f64> =
        issue(conn, "ZRANGE", (&key, 0, -1, "WITHSCORES")).await;
    let member = |name: &str| {
        *members
            .get(name)
            .unwrap_or_else(|| panic!("{key} has no member {name}: {members:?}"))
    };
    let (count, sum) = (member("count"), member("sum"));
    Stats {
        min: member("min"),
        max: member("max"),
        count,
        sum,
        average: sum / count,
    }
}

/// The part of `access_time` that follows the timed code: records a duration of `seconds` in the hour `hour_iso`.
pub async fn access_time(
    conn: &mut MultiplexedConnection,
    prefix: &str,
    context: &str,
    seconds: f64,
    hour_iso: &str,
) {
    let (count, sum) = update_stats(conn, prefix, context, seconds, hour_iso).await;
    let slowest = format!("{prefix}slowest:AccessTime");
    let mut t = pipe();
    t.atomic();
    t.cmd("ZADD").arg(&slowest).arg(sum / count).arg(context);
    t.cmd("ZREMRANGEBYRANK").arg(&slowest).arg(&[0, -101]);
    t.exec_async(conn).await.unwrap();
}

/// The contexts of `slowest:AccessTime` with their average seconds, slowest first.
pub async fn slowest(conn: &mut MultiplexedConnection, prefix: &str) -> Vec<(String, f64)> {
    let key = format!("{prefix}slowest:AccessTime");
    issue(conn, "ZREVRANGE", (key, 0, -1, "WITHSCORES")).await
}

/// A random name for a temporary set. The book uses a UUID.
fn temporary(prefix: &str) -> String {
    format!("{prefix}{:032x}", fastrand::u128(..))
}
