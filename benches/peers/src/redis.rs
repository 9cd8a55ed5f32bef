//! The work of Redis: its CPU time for each context that a call merges, and the number of calls per
//! request.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tower_pulse::store::redis::{RedisOptions, RedisStore};
use tower_pulse::{Clock, ManualClock, Pulse};
use tower_pulse_core::store::Store;
use tower_pulse_core::store::{Appended, FencedBatch};
use tower_pulse_core::testing::TestFolder;
use tower_pulse_model::access_time::DurationSums;
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::batch::Batch;
use tower_pulse_model::context::Kind;
use tower_pulse_model::context_delta::ContextDelta;
use tower_pulse_model::histogram::{Histogram, SCALE, bucket_of};
use tower_pulse_model::outcome::{Outcome, OutcomeCounts};
use tower_pulse_model::slice::{Precisions, hour_of};
use tower_pulse_model::slices::Slices;

use crate::Failure;
use crate::cost::Cost;
use crate::driver::{Ground, ROUTES, send, uris};
use crate::options::Options;
use crate::redis_server::RedisServer;
use crate::rows;
use crate::stats::Median;

const CONTEXTS: usize = 20;
/// Approximate number of contexts that the flusher sends at once.
const CONTEXTS_A_CALL: usize = 20;
/// Seconds of traffic in a round.
const SECONDS: i64 = 30;
const REQUESTS_A_SECOND: u64 = 10;
const PACE: usize = 10_000;

/// A part of the traffic of a second that is merged.
#[derive(Clone, Copy)]
enum TrafficPart {
    /// One of the user's counters: the cost of `hits` alone.
    Counter,
    /// Contexts, after this function has removed other parts.
    Contexts(fn(&mut ContextDelta)),
}

const PARTS: [(&str, TrafficPart); 4] = [
    ("one counter (as hits alone)", TrafficPart::Counter),
    (
        "hits, micros",
        TrafficPart::Contexts(|delta| {
            delta.hours = Slices::default();
            delta.records.fill(Slices::default());
        }),
    ),
    (
        "hits, micros, statistics, slowest",
        TrafficPart::Contexts(|delta| delta.records.fill(Slices::default())),
    ),
    ("all: with both records", TrafficPart::Contexts(|_| {})),
];

/// A store to which one part is merged.
struct Merging {
    parts: TrafficPart,
    store: Arc<dyn Store>,
    folder: TestFolder,
    hand: ManualClock,
    instance: String,
    seq: u64,
    now: i64,
    precisions: Precisions,
    contexts: Vec<Arc<str>>,
}

impl Merging {
    fn new(url: &str, number: usize, parts: TrafficPart) -> Result<Self, Failure> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH)?;
        // Without a turn of the hour, which is not a steady state.
        let now = hour_of(i64::try_from(since.as_secs())?) + 600;
        let (clock, hand) = Clock::manual(now);
        let options = RedisOptions::new(url)?
            .prefix(format!("cost{number}:"))?
            .response_timeout(Duration::from_secs(30));
        let store: Arc<dyn Store> = Arc::new(RedisStore::open(options)?.with_clock(clock.clone()));
        Ok(Self {
            parts,
            folder: TestFolder::new(store.clone(), clock, "folder", 1_000),
            store,
            hand,
            instance: format!("cost{number}"),
            seq: 0,
            now,
            precisions: Precisions::default(),
            contexts: (0..CONTEXTS)
                .map(|n| format!("GET /route{n}/{{id}}").into())
                .collect(),
        })
    }

    /// Fills every hash with the most fields that it may have.
    async fn fill(&mut self) -> Result<(), Failure> {
        let now = self.now;
        let mut seconds: Vec<i64> = self
            .precisions
            .counters
            .iter()
            .flat_map(|p| (1..=p.retained).map(move |n| now - i64::from(n * p.seconds)))
            .collect();
        seconds.sort_unstable();
        for context in self.contexts.clone() {
            let mut batch = Batch::new(self.precisions.clone());
            for second in &seconds {
                self.add(&mut batch, &context, *second);
            }
            self.apply(batch).await?;
        }
        Ok(())
    }

    /// Merges one second of all contexts.
    async fn second(&mut self) -> Result<(), Failure> {
        self.now += 1;
        self.hand.set_wall(self.now);
        for contexts in self.contexts.clone().chunks(CONTEXTS_A_CALL) {
            let mut batch = Batch::new(self.precisions.clone());
            for context in contexts {
                self.add(&mut batch, context, self.now);
            }
            self.apply(batch).await?;
        }
        Ok(())
    }

    fn add(&self, batch: &mut Batch, context: &Arc<str>, second: i64) {
        match self.parts {
            TrafficPart::Counter => batch.count(context, second, 10),
            TrafficPart::Contexts(_) => {
                batch.add(context, Kind::Http, second, &collected());
            }
        }
    }

    async fn apply(&mut self, mut batch: Batch) -> Result<(), Failure> {
        if let TrafficPart::Contexts(reduce) = self.parts {
            batch.contexts.values_mut().for_each(reduce);
        }
        self.seq += 1;
        let call = FencedBatch {
            generation: self.store.hello().await?.id,
            instance: self.instance.clone(),
            seq: self.seq,
            previous: self.seq - 1,
            batch,
        };
        match self.store.append(&call).await? {
            Appended::Done(_) if self.folder.fold().await? => Ok(()),
            other => Err(format!("a call was not folded: {other:?}").into()),
        }
    }
}

/// A second of a context: 10 requests between 1 ms and 100 ms.
fn collected() -> Aggregate {
    let (mut times, mut outcomes, mut buckets) = (
        DurationSums::default(),
        OutcomeCounts::default(),
        Vec::new(),
    );
    for _ in 0..REQUESTS_A_SECOND {
        let nanos = (1e6 * 100f64.powf(fastrand::f64())) as u64;
        times.record(nanos);
        outcomes.record(Outcome::Success, false);
        buckets.push((bucket_of(nanos) as u16, 1));
    }
    Aggregate {
        times,
        outcomes,
        histogram: Histogram::new(SCALE, buckets),
        ..Aggregate::default()
    }
}

/// The CPU time of Redis per merged context, part by part, interleaved.
pub(crate) fn costs(ground: &Ground, options: &Options) -> Result<Vec<Cost>, Failure> {
    let server = RedisServer::start()?;
    let mut merging = Vec::new();
    for (number, (_, parts)) in PARTS.iter().enumerate() {
        let mut one = Merging::new(&server.url(), number, *parts)?;
        ground.front(one.fill())?;
        merging.push((one, Vec::new(), Vec::new()));
    }
    let merged = (SECONDS as usize * CONTEXTS) as f64;
    for _ in 0..options.long_rounds {
        for (one, cpu, script) in &mut merging {
            let before = Usage::of(&server)?;
            for _ in 0..SECONDS {
                ground.front(one.second())?;
            }
            let after = Usage::of(&server)?;
            cpu.push((after.cpu - before.cpu) / merged);
            script.push((after.script - before.script) / merged);
        }
    }
    let names = PARTS.iter().map(|(parts, _)| *parts);
    let costs = names.zip(merging).map(|(parts, (_, cpu, script))| Cost {
        parts,
        cpu: Median::of(cpu),
        script: Median::of(script),
    });
    Ok(costs.collect())
}

/// The server's CPU time, in microseconds.
struct Usage {
    cpu: f64,
    script: f64,
}

impl Usage {
    fn of(server: &RedisServer) -> Result<Self, Failure> {
        let mut connection = ::redis::Client::open(server.url())?.get_connection()?;
        let info: String = ::redis::cmd("INFO")
            .arg("everything")
            .query(&mut connection)?;
        let value = |name: &str| info.lines().find_map(|line| line.strip_prefix(name));
        let seconds = |name: &str| value(name).and_then(|text| text.trim().parse::<f64>().ok());
        let (user, system) = seconds("used_cpu_user:")
            .zip(seconds("used_cpu_sys:"))
            .ok_or("INFO tells no CPU time")?;
        let script = value("cmdstat_evalsha:")
            .and_then(|stats| stats.split(',').find_map(|stat| stat.strip_prefix("usec=")))
            .map_or(Ok(0.0), str::parse)?;
        Ok(Self {
            cpu: (user + system) * 1e6,
            script,
        })
    }
}

/// Redis calls per request at 10,000 requests/s over all routes: all commands that arrive at the server, by
/// MONITOR.
pub(crate) fn calls_per_request(ground: &Ground, options: &Options) -> Result<f64, Failure> {
    let server = RedisServer::start()?;
    let pulse = {
        let _inside = ground.back().enter();
        Pulse::builder().redis(server.url()).build()?
    };
    let mut app = rows::routes().layer(pulse.layer()).with_state(());
    let uris = uris(ROUTES);
    // Waits until the first connection and its commands are done.
    ground.front(paced(&mut app, &uris, Duration::from_millis(1_500)));
    let duration = Duration::from_secs(options.http_rounds as u64);
    let monitor = Monitor::start(&server)?;
    let requests = ground.front(paced(&mut app, &uris, duration));
    let calls = monitor.count(duration)?;
    ground.back().block_on(pulse.shutdown())?;
    Ok(calls as f64 / requests as f64)
}

/// Sends requests at a steady rate; returns their number.
async fn paced(app: &mut axum::Router, uris: &[http::Uri], duration: Duration) -> usize {
    const STEP: Duration = Duration::from_millis(2);
    let mut ticks = tokio::time::interval(STEP);
    let start = Instant::now();
    let mut sent = 0;
    while start.elapsed() < duration {
        ticks.tick().await;
        let due = (start.elapsed().as_secs_f64() * PACE as f64) as usize;
        send(app, uris, due - sent).await;
        sent = due;
    }
    sent
}

/// The commands that clients send to a server from now on.
struct Monitor {
    start: Instant,
    lines: std::sync::mpsc::Receiver<Instant>,
}

impl Monitor {
    fn start(server: &RedisServer) -> Result<Self, Failure> {
        let address = server.url();
        let address = address.trim_start_matches("redis://").trim_end_matches('/');
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(b"MONITOR\r\n")?;
        let mut reader = BufReader::new(stream);
        reader.read_line(&mut String::new())?;
        let (sender, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let lines = reader.lines().map_while(Result::ok);
            // Commands of a script are not counted: the script is.
            for _ in lines.filter(|line| !line.contains(" lua] ")) {
                if sender.send(Instant::now()).is_err() {
                    return;
                }
            }
        });
        Ok(Self {
            start: Instant::now(),
            lines,
        })
    }

    /// The number of commands within `duration`.
    fn count(&self, duration: Duration) -> Result<usize, Failure> {
        let until = self.start + duration;
        Ok(self.lines.try_iter().filter(|at| *at <= until).count())
    }
}
