//! The functions of *Redis in Action*, chapters 5.2.1 to 5.2.3, as any other client would run them.
//!
//! They are the reference for the book's keys: the crate must read what they write, and they must read what
//! the crate writes. Each follows the printed code, command by command; where the print is wrong, the
//! documentation of the function says what it does instead. `prefix` comes before every key and is `""` in
//! the book.
//!
//! Some of them use WATCH, which belongs to a connection: give each caller a connection of its own, not a
//! clone of a shared one.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use redis::aio::MultiplexedConnection;
use redis::pipe;

use super::server::{issue, run};

/// The book's precisions, in seconds.
pub const PRECISIONS: [i64; 7] = [1, 5, 60, 300, 3600, 18_000, 86_400];

/// The number of samples to retain, from the book's text.
pub const SAMPLE_COUNT: i64 = 120;

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
        transaction
            .cmd("ZADD")
            .arg(format!("{prefix}known:"))
            .arg(0)
            .arg(&hash);
        transaction
            .cmd("HINCRBY")
            .arg(format!("{prefix}count:{hash}"))
            .arg(slice)
            .arg(n);
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

/// The result of one pass of [`clean_counters_pass`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CleanReport {
    /// Counters whose slices were read.
    pub examined: u64,
    /// Slices removed.
    pub slices: u64,
    /// Counters removed from `known:`.
    pub counters: u64,
}

/// One pass of `clean_counters`, the `passes`-th from 0, at Unix second `now`.
pub async fn clean_counters_pass(
    conn: &mut MultiplexedConnection,
    prefix: &str,
    passes: i64,
    sample_count: i64,
    now: i64,
) -> CleanReport {
    let known_key = format!("{prefix}known:");
    let mut cleaned = CleanReport::default();
    let mut index: i64 = 0;
    while index < issue(conn, "ZCARD", &known_key).await {
        let member: Vec<String> = issue(conn, "ZRANGE", (&known_key, index, index)).await;
        index += 1;
        let Some(hash) = member.first() else { break };
        let precision: i64 = hash
            .split(':')
            .next()
            .and_then(|digits| digits.parse().ok())
            .unwrap_or_else(|| panic!("the book's cleaner dies of {hash:?} in `known:`"));
        if passes % (precision / 60).max(1) != 0 {
            continue;
        }
        cleaned.examined += 1;

        let key = format!("{prefix}count:{hash}");
        let cutoff = now - sample_count * precision;
        let mut samples: Vec<i64> = issue(conn, "HKEYS", &key).await;
        samples.sort_unstable();
        let remove = samples.partition_point(|slice| *slice <= cutoff);
        if remove == 0 {
            continue;
        }
        cleaned.slices += issue::<u64>(conn, "HDEL", (&key, &samples[..remove])).await;
        if remove == samples.len() && forget_if_empty(conn, &known_key, hash, &key).await {
            cleaned.counters += 1;
            index -= 1;
        }
    }
    cleaned
}

/// Removes an empty counter from `known:`, unless another client adds to it meanwhile. Returns whether it was removed.
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

/// `update_stats`: adds a value to the statistics of a context and type in the hour `hour_iso`
/// (`2012-05-07T07:00:00`). Returns count, sum and sum of squares.
///
/// The print never writes `:start` the first time; this function does, as the book's later code does. For the print as
/// it is, see [`update_stats_as_printed`].
pub async fn update_stats(
    conn: &mut MultiplexedConnection,
    prefix: &str,
    context: &str,
    kind: &str,
    value: f64,
    hour_iso: &str,
) -> (f64, f64, f64) {
    add_to_stats(conn, prefix, context, kind, value, hour_iso, true).await
}

/// [`update_stats`] letter by letter as printed: a set without `:start` never gets one.
pub async fn update_stats_as_printed(
    conn: &mut MultiplexedConnection,
    prefix: &str,
    context: &str,
    kind: &str,
    value: f64,
    hour_iso: &str,
) -> (f64, f64, f64) {
    add_to_stats(conn, prefix, context, kind, value, hour_iso, false).await
}

async fn add_to_stats(
    conn: &mut MultiplexedConnection,
    prefix: &str,
    context: &str,
    kind: &str,
    value: f64,
    hour_iso: &str,
    write_first_start: bool,
) -> (f64, f64, f64) {
    let stats = format!("{prefix}stats:{context}:{kind}");
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
            None if write_first_start => {
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
        if let Some(totals) = t.query_async(conn).await.unwrap() {
            return totals;
        }
        // Another client turned the hour between WATCH and EXEC: try again.
    }
    panic!("update_stats: five seconds of lost races");
}

/// Statistics as [`get_stats`] returns them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stats {
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
    /// Number of values.
    pub count: f64,
    /// The sum of the values.
    pub sum: f64,
    /// The sum of the squares of the values.
    pub sumsq: f64,
    /// `sum / count`.
    pub average: f64,
    /// The sample standard deviation.
    pub stddev: f64,
}

/// `get_stats`: the values of a statistics key, with average and standard deviation.
///
/// Read another hour by naming it in `kind`, such as `AccessTime:last`. Where the print fails, on a
/// missing set or member, this panics; a radicand that rounding made negative counts as 0.
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
    let (count, sum, sumsq) = (member("count"), member("sum"), member("sumsq"));
    let radicand = (sumsq - sum * sum / count) / (count - 1.0).max(1.0);
    Stats {
        min: member("min"),
        max: member("max"),
        count,
        sum,
        sumsq,
        average: sum / count,
        stddev: radicand.max(0.0).sqrt(),
    }
}

/// `access_time` after the timed code has run for `seconds`, in the current hour of this machine.
pub async fn access_time(
    conn: &mut MultiplexedConnection,
    prefix: &str,
    context: &str,
    seconds: f64,
) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let hour = hour_iso(now.as_secs() as i64);
    access_time_at(conn, prefix, context, seconds, &hour).await
}

/// [`access_time`] in a given hour.
pub async fn access_time_at(
    conn: &mut MultiplexedConnection,
    prefix: &str,
    context: &str,
    seconds: f64,
    hour_iso: &str,
) {
    let (count, sum, _) =
        update_stats(conn, prefix, context, "AccessTime", seconds, hour_iso).await;
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

/// The UTC hour that a Unix second belongs to, as the book writes it: `2012-05-07T07:00:00`.
pub fn hour_iso(unix_seconds: i64) -> String {
    let (days, second) = (
        unix_seconds.div_euclid(86_400),
        unix_seconds.rem_euclid(86_400),
    );
    // Howard Hinnant's civil_from_days: years begin in March, eras have 400 years.
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:00:00", second / 3_600)
}

/// The name of a temporary set, where the book takes a random UUID.
fn temporary(prefix: &str) -> String {
    format!("{prefix}{:032x}", fastrand::u128(..))
}
