//! The work of the server at commit 2e55505, for comparison: each instance merges each context into every
//! key by this script. The arguments are made as that commit made them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Script, Value, cmd};
use tower_pulse_model::access_time::AccessTimeStats;
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::batch::Batch;
use tower_pulse_model::context::Metric;
use tower_pulse_model::slice::{HOUR, Precision, Precisions, iso_hour};
use tower_pulse_model::slowest;

use crate::meter::process_cpu;
use crate::rig::server::RedisServer;
use crate::rows::PARTS;

const MERGE: &str = include_str!("merge_2e55505.lua");
pub(crate) const PREFIX: &str = "before:";
/// Seconds until a fence expired.
const FENCE_FOR: i64 = 86_400;

/// An instance of that commit.
pub(crate) struct Before {
    connection: MultiplexedConnection,
    hash: String,
    instance: String,
    seq: u64,
    precisions: Precisions,
}

/// Additions by key, which is the position of a precision and the slice.
type Groups<V> = BTreeMap<(usize, i64), Vec<(String, V)>>;

#[derive(Default)]
struct Arguments {
    keys: Vec<String>,
    args: Vec<Vec<u8>>,
}

impl Arguments {
    fn arg(&mut self, arg: impl ToString) {
        self.args.push(arg.to_string().into_bytes());
    }
}

impl Before {
    pub(crate) async fn new(server: &RedisServer, number: usize) -> Self {
        let mut connection = server.connection().await;
        let script = Script::new(MERGE);
        let hash = script.prepare_invoke().load_async(&mut connection).await;
        Self {
            connection,
            hash: hash.unwrap(),
            instance: format!("{number:032}"),
            seq: 0,
            precisions: Precisions::default(),
        }
    }

    /// Merges a batch, in calls of about as many contexts as the server merges in a millisecond, as that
    /// commit's flusher did.
    pub(crate) async fn flush(&mut self, mut batch: Batch) {
        const CONTEXTS_OF_A_CALL: usize = 16;
        while !batch.is_empty() {
            let mut part = Batch::new(self.precisions.clone());
            for _ in 0..CONTEXTS_OF_A_CALL {
                let Some((name, delta)) = batch.contexts.pop_first() else {
                    break;
                };
                part.contexts.insert(name, delta);
            }
            self.seq += 1;
            let reply: Value = self
                .merge(&part)
                .query_async(&mut self.connection)
                .await
                .unwrap();
            let merged = matches!(&reply, Value::Array(words) if words.first() == Some(&Value::BulkString(b"MERGED".to_vec())) && words.len() == 3);
            assert!(merged, "{reply:?}");
        }
    }

    fn merge(&self, batch: &Batch) -> Cmd {
        let (counters, histograms) = (self.counters(batch), self.histograms(batch));
        let mut call = Arguments::default();
        call.keys
            .push(format!("{PREFIX}pulse:fence:{}", self.instance));
        for key in [
            "known:",
            "slowest:AccessTime",
            "pulse:contexts",
            "pulse:timers",
        ] {
            call.keys.push(format!("{PREFIX}{key}"));
        }
        call.arg(self.seq);
        call.arg(self.seq - 1);
        call.arg(FENCE_FOR);
        call.arg("");
        call.arg(format!("{PREFIX}count:").len());
        call.arg(slowest::RANKING_LEN);
        call.arg(counters.len());
        call.arg(batch.contexts.len());
        call.arg(histograms.len());
        for ((at, slice), group) in counters {
            let precision = self.precisions.counters[at];
            call.arg(slice);
            call.arg(precision.span());
            call.arg(precision.key_ttl());
            call.arg(group.len());
            for (key, n) in group {
                call.keys.push(key);
                call.arg(n);
            }
        }
        for (context, delta) in &batch.contexts {
            let name = &context.name;
            for end in ["", ":start", ":last", ":pstart"] {
                call.keys
                    .push(format!("{PREFIX}stats:{name}:AccessTime{end}"));
            }
            call.arg(context.kind.as_str());
            call.arg(name);
            call.arg(delta.last_seen);
            call.arg(delta.hours.len());
            for (hour, times) in delta.hours.iter() {
                let times = AccessTimeStats::from(times);
                call.arg(hour);
                call.arg(iso_hour(hour));
                for value in [times.count, times.sum, times.sumsq, times.min, times.max] {
                    call.arg(format!("{value:?}"));
                }
            }
        }
        for ((at, slice), group) in histograms {
            let precision = HISTOGRAMS[at];
            call.arg(slice);
            call.arg(precision.span());
            call.arg(precision.retained);
            call.arg(precision.key_ttl());
            call.arg(if is_hour(precision) { "1" } else { "" });
            call.arg(group.len());
            for (key, packed) in group {
                call.keys.push(key);
                call.args.push(packed);
            }
        }
        let mut command = cmd("EVALSHA");
        command.arg(&self.hash).arg(call.keys.len());
        command.arg(call.keys).arg(call.args);
        command
    }

    fn counters(&self, batch: &Batch) -> Groups<u64> {
        let mut groups = Groups::<_>::new();
        for (context, delta) in &batch.contexts {
            let names = Metric::ALL.map(|metric| metric.counter(&context.name));
            for (at, slices) in delta.counters.iter().enumerate() {
                let seconds = self.precisions.counters[at].seconds;
                for (slice, counts) in slices.iter() {
                    let group = groups.entry((at, slice)).or_default();
                    let all = names
                        .iter()
                        .zip([counts.hits, counts.errors, counts.micros]);
                    for (name, n) in all.filter(|(_, n)| *n > 0) {
                        group.push((format!("{PREFIX}count:{seconds}:{name}"), n));
                    }
                }
            }
        }
        groups
    }

    fn histograms(&self, batch: &Batch) -> Groups<Vec<u8>> {
        let mut groups = Groups::<_>::new();
        for (context, delta) in &batch.contexts {
            for (at, precision) in HISTOGRAMS.into_iter().enumerate() {
                let key = format!("{PREFIX}pulse:hist:{}:{}", precision.seconds, context.name);
                for (minute, aggregate) in delta.records[0].iter() {
                    let packed = packed(aggregate, is_hour(precision));
                    groups
                        .entry((at, precision.slice(minute)))
                        .or_default()
                        .push((key.clone(), packed));
                }
            }
        }
        groups
    }
}

/// The precisions of the histograms of that commit.
const HISTOGRAMS: [Precision; 2] = [Precision::new(60, 60), Precision::new(3_600, 48)];

fn is_hour(precision: Precision) -> bool {
    i64::from(precision.seconds) == HOUR
}

/// The scale, a map of the buckets and, for hours, an array of outcomes and errors, in MessagePack.
fn packed(aggregate: &Aggregate, with_tally: bool) -> Vec<u8> {
    let buckets = aggregate.histogram.buckets();
    let mut out = Vec::with_capacity(8 + 6 * buckets.len());
    uint(&mut out, u64::from(aggregate.histogram.scale()));
    match buckets.len() {
        n @ 0..=15 => out.push(0x80 | n as u8),
        n => {
            out.push(0xde);
            out.extend((n as u16).to_be_bytes());
        }
    }
    for (index, n) in buckets {
        uint(&mut out, u64::from(*index));
        uint(&mut out, *n);
    }
    if with_tally {
        out.push(0x90 | (aggregate.outcomes.counts.len() + 1) as u8);
        aggregate
            .outcomes
            .counts
            .iter()
            .for_each(|n| uint(&mut out, *n));
        uint(&mut out, aggregate.outcomes.errors);
    }
    out
}

fn uint(out: &mut Vec<u8>, n: u64) {
    match n {
        0..=0x7f => out.push(n as u8),
        0x80..=0xff => out.extend([0xcc, n as u8]),
        0x100..=0xffff => {
            out.push(0xcd);
            out.extend((n as u16).to_be_bytes());
        }
        _ => {
            out.push(0xce);
            out.extend(u32::try_from(n).unwrap().to_be_bytes());
        }
    }
}

/// The share of a core that the server needs for `instances` instances of that commit, each with `contexts`
/// contexts and `<all>`, which flush once a second. It is the smallest share of [`PARTS`] parts of the
/// time, as for a fleet of the current commit.
pub(crate) async fn share(
    server: &RedisServer,
    instances: usize,
    contexts: usize,
    seconds: f64,
) -> f64 {
    crate::fill(server, PREFIX).await;
    let mut fleet = Vec::new();
    for number in 0..instances {
        fleet.push(Before::new(server, number).await);
    }
    let part = (seconds / f64::from(PARTS)).ceil() as u64;
    let mut turns = tokio::time::interval(Duration::from_secs(1));
    let (mut least, mut start) = (f64::MAX, None);
    // The first flushes find no keys, and are not measured.
    for turn in 0..=2 + u64::from(PARTS) * part {
        turns.tick().await;
        if turn >= 2 && (turn - 2).is_multiple_of(part) {
            let now = (process_cpu(server.pid()), Instant::now());
            if let Some((cpu, at)) = start.replace(now) {
                let used: Duration = now.0 - cpu;
                least = least.min(used.as_secs_f64() / (now.1 - at).as_secs_f64());
            }
        }
        let batch = crate::traffic::batch(contexts, crate::now(), 1);
        let flushing = fleet
            .iter_mut()
            .map(|instance| instance.flush(batch.clone()));
        futures_util::future::join_all(flushing).await;
    }
    least
}
