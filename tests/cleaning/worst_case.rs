//! The worst case that the builder calculates is close to the real memory when everything is filled to its maximum, in
//! Redis and in this process.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use crate::rig::reads::StoreReads;
use redis::pipe;
use tower::{Layer, Service};
use tower_pulse::store::memory::MemoryStore;
use tower_pulse::store::{CounterQuery, CounterSeries, RankedContext, SlowestQuery};
use tower_pulse::{Builder, Clock, Pulse, StoreError, StoreErrorKind};
use tower_pulse_core::store::table_reads::TableReader;
use tower_pulse_core::store::{Append, Query, Store, Upkeep};
use tower_pulse_core::store::{
    Appended, AppendedCall, CleanReport, FencedBatch, Fleet, Generation, Heartbeat, Pass,
    PassRecord, Readable, StoreStatus,
};
use tower_pulse_core::task::BoxFuture;
use tower_pulse_core::testing::TestFolder;
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::batch::Batch;
use tower_pulse_model::context::{ALL, ContextId, Kind, MAX_NAME, OVERFLOW, RecordId, UNMATCHED};
use tower_pulse_model::fleet::MAX_VERSION_BYTES;
use tower_pulse_model::histogram::{BUCKETS, Histogram, SCALE, lower_bound};
use tower_pulse_model::machine::MachineMinute;
use tower_pulse_model::minute_report::stored_bytes;
use tower_pulse_model::minute_report::{MAX_REPORTED, MinuteReport, REPORTED_MINUTES};
use tower_pulse_model::outcome::Outcome;
use tower_pulse_model::slice::{HOUR, Precision, Precisions};
use tower_pulse_model::slices::Slices;
use tower_pulse_model::snapshot::FleetSnapshot;
use tower_pulse_model::tier::{DAY, TIERS};
use tower_pulse_model::timer_sums::{MAX_TIMERS, OTHER, TimerSums, Timers};

use crate::fixture::{ApplyOutcome, THIS_HOUR, Writer, aggregate_of, call, redis_store};
use crate::raw_redis::{PREFIX, keys};
use crate::rig::server::RedisServer;

const CONTEXTS: usize = 20;
const COUNTERS: usize = 5;
const NOW: i64 = THIS_HOUR + 3_599;
/// The history of the store: more than the other tiers have.
const DAYS: u32 = 20;

/// The tiers of a store with that history.
fn tiers() -> impl Iterator<Item = Precision> {
    TIERS.into_iter().chain([Precision::new(DAY, DAYS)])
}

/// A name of the maximum length.
fn name(start: &str, n: usize) -> Arc<str> {
    let mut name = format!("{start}-{n}-");
    name.extend(std::iter::repeat_n('x', MAX_NAME - name.len()));
    name.into()
}

fn builder() -> Builder {
    Pulse::builder()
        .max_contexts(CONTEXTS)
        .max_counters(COUNTERS)
        .replay_bytes(0)
}

/// A second in each retained slice of all precisions, oldest first.
fn seconds(precisions: &Precisions) -> Vec<i64> {
    let all = precisions.counters.iter().copied().chain(tiers());
    let mut seconds: Vec<i64> = all
        .flat_map(|p| (0..i64::from(p.retained)).map(move |n| NOW - n * i64::from(p.seconds)))
        .collect();
    seconds.sort_unstable();
    seconds.dedup();
    seconds
}

/// Whether a retained record contains this second.
fn has_record(second: i64) -> bool {
    tiers().any(|p| {
        let p_seconds = i64::from(p.seconds);
        (NOW - second) % p_seconds == 0 && NOW - second < p.span()
    })
}

/// A duration in the middle of each bucket, in nanoseconds.
fn durations() -> Vec<u64> {
    let middle = |index| lower_bound(index, SCALE).midpoint(lower_bound(index + 1, SCALE));
    (0..BUCKETS as u16)
        .map(|index| (middle(index) * 1e9) as u64)
        .collect()
}

/// Multiplies the counts of an aggregate, as no test could record so many samples.
fn multiply(aggregate: &mut Aggregate, by: u64) {
    for histogram in [
        &mut aggregate.histogram,
        &mut aggregate.failures,
        &mut aggregate.cut_off,
    ] {
        let more = histogram.buckets().iter();
        let more: Vec<_> = more.map(|(index, n)| (*index, n * by)).collect();
        *histogram = Histogram::new(histogram.scale(), more);
    }
    aggregate.outcomes.counts = [by; tower_pulse_model::outcome::OUTCOMES];
    aggregate.outcomes.errors = by;
}

/// The names of as many timers as a context tells apart, and of the others.
fn timers() -> Vec<Arc<str>> {
    let timers = (0..MAX_TIMERS).map(|n| name("db:", n));
    timers.chain([OTHER.into()]).collect()
}

/// Sums of timers within a million requests per second.
fn many_timers() -> Timers {
    let mut many = Timers::default();
    many.covered = 50_000_000_000_000;
    for timer in timers() {
        let sums = TimerSums {
            count: 60_000_000,
            requests: 59_000_000,
            sum: 60_000_000_000_000,
            covered: 59_990_000_000_000,
        };
        many.add(RecordId::new(Kind::Timer, &timer), &sums);
    }
    many
}

/// Sends all slices of a context or counter, so that all its keys are full afterwards.
async fn send_all_slices(
    writer: &Writer,
    seq: &mut u64,
    precisions: &Precisions,
    name: &Arc<str>,
    kind: Option<Kind>,
) {
    let mut send = async |mut batch: Batch| {
        // Retained slices only, as no cleaner runs.
        let contexts = batch.contexts.values_mut();
        for slices in contexts.flat_map(|delta| delta.counters.iter_mut().zip(&precisions.counters))
        {
            slices.0.trim(slices.1.cut_off(NOW));
        }
        for slices in batch
            .counters
            .values_mut()
            .flat_map(|delta| delta.iter_mut().zip(&precisions.counters))
        {
            slices.0.trim(slices.1.cut_off(NOW));
        }
        while !batch.is_empty() {
            *seq += 1;
            let call = call("filler", *seq, batch.split(1_000));
            let applied = writer.apply(&call).await.unwrap();
            assert!(matches!(applied, ApplyOutcome::Merged(_)), "{applied:?}");
        }
    };
    let seconds = seconds(precisions);
    let Some(kind) = kind else {
        let mut batch = Batch::new(precisions.clone());
        for second in seconds {
            batch.count(name, second, 1_000_000_000_000);
        }
        return send(batch).await;
    };
    let context = ContextId::new(kind, name.clone());
    // The sums of a context with a million requests per second.
    let aggregate = |nanos: &[u64]| {
        let mut aggregate = aggregate_of(nanos, Outcome::ServerError);
        aggregate.cut_off = aggregate.failures.clone();
        aggregate.times.count = 1_000_000;
        aggregate.times.sum = 1_000_000_000_000_000;
        aggregate.outcomes.errors = 1_000_000;
        aggregate
    };
    let (with, without): (Vec<i64>, Vec<i64>) =
        seconds.into_iter().partition(|second| has_record(*second));
    let full = aggregate(&durations());
    // Two more calls for the current slices, whose records are written more than once.
    for second in with.into_iter().chain([NOW, NOW]) {
        let mut batch = Batch::new(precisions.clone());
        batch.add(name, kind, second, &full);
        let delta = batch.contexts.get_mut(&context).unwrap();
        for slices in &mut delta.records {
            let starts: Vec<i64> = slices.iter().map(|(start, _)| start).collect();
            for start in starts {
                let record = slices.get_mut(start).unwrap();
                multiply(record, 1_000_000);
                record.timers = many_timers();
            }
        }
        send(batch).await;
    }
    let (mut batch, one) = (Batch::new(precisions.clone()), aggregate(&durations()[..1]));
    for second in without {
        batch.add(name, kind, second, &one);
    }
    let delta = batch.contexts.get_mut(&context).unwrap();
    delta.records.fill_with(Slices::default);
    send(batch).await;
}

/// Instances, and versions, that a fleet is assumed to have.
const INSTANCES: u64 = 16;
const VERSIONS: u64 = 2;

/// Sends full reports of each minute, of one instance and its version.
async fn send_reports(writer: &Writer, seq: &mut u64, precisions: &Precisions) {
    let mut full = aggregate_of(&durations(), Outcome::ServerError);
    full.cut_off = full.failures.clone();
    multiply(&mut full, 1_000_000);
    let contexts: Vec<_> = (0..CONTEXTS + 3)
        .map(|n| (RecordId::new(Kind::Http, &name("GET /", n)), full.clone()))
        .collect();
    let minutes = REPORTED_MINUTES.key_ttl() / i64::from(REPORTED_MINUTES.seconds);
    let newest = NOW - NOW % 60 + 9 * 60;
    for minute in 0..minutes {
        let mut batch = Batch::new(precisions.clone());
        batch.add_report(MinuteReport {
            minute: newest - 60 * minute,
            instance: "a".repeat(32).into(),
            version: Some("v".repeat(MAX_VERSION_BYTES).into()),
            max_contexts: MAX_REPORTED,
            is_side_by_side: true,
            contexts: contexts.clone(),
            machine: Some(MachineMinute {
                cpu_millis: Some(u64::MAX),
                resident_bytes: Some(u64::MAX),
                ..MachineMinute::default()
            }),
        });
        *seq += 1;
        let applied = writer.apply(&call("filler", *seq, batch)).await.unwrap();
        assert!(matches!(applied, ApplyOutcome::Merged(_)), "{applied:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_calculated_worst_case_is_close_to_that_of_redis() {
    let server = RedisServer::start().await;
    let before = server.used_memory().await;
    let (clock, _manual_clock) = Clock::manual(NOW);
    let store = redis_store(&server.url(), PREFIX).with_clock(clock.clone());
    let store: Arc<dyn Store> = Arc::new(store);
    let folder = TestFolder::with_history(store.clone(), clock, "folder", 10_000, Some(DAYS));
    let writer = Writer {
        store: store.clone(),
        folder,
    };
    let (precisions, mut seq) = (Precisions::default(), 0);
    let contexts = (0..CONTEXTS).map(|n| (name("GET /", n), Some(Kind::Http)));
    let synthetic = [
        (UNMATCHED.into(), Some(Kind::Http)),
        (OVERFLOW.into(), Some(Kind::Http)),
        (ALL.into(), Some(Kind::All)),
    ];
    let counters = (0..COUNTERS).map(|n| (name("sold", n), None));
    let overflow = [(Arc::from(OVERFLOW), None)];
    let names = contexts.chain(synthetic).chain(counters).chain(overflow);
    for (name, kind) in names {
        send_all_slices(&writer, &mut seq, &precisions, &name, kind).await;
    }
    send_reports(&writer, &mut seq, &precisions).await;
    let conn = &mut server.connection().await;
    let keys = keys(conn, "*").await;
    let (mut sum, mut reports) = (0, 0);
    let mut kinds = std::collections::BTreeMap::<String, (u64, u64)>::new();
    for key in &keys {
        let mut pipeline = pipe();
        pipeline
            .cmd("MEMORY")
            .arg("USAGE")
            .arg(key)
            .arg("SAMPLES")
            .arg(0);
        let (size,): (u64,) = pipeline.query_async(conn).await.unwrap();
        let kind: String = String::from_utf8_lossy(key).chars().take(22).collect();
        match kind.contains("pulse:by_") {
            true if kind.contains("by_i") => reports += INSTANCES * size,
            true => reports += VERSIONS * size,
            false => sum += size,
        }
        let totals = kinds.entry(kind).or_default();
        *totals = (totals.0 + 1, totals.1 + size);
    }
    let used = server.used_memory().await - before;
    let journal = 1 << 20;
    let builder = builder().redis(server.url()).journal_bytes(journal);
    let builder = builder.app_version("1");
    let history = Duration::from_secs(u64::from(DAYS) * u64::from(DAY));
    let builder = builder.history(history);
    let calculated = stored_bytes(CONTEXTS as u64 + 3, true);
    let ratio = calculated as f64 / reports as f64;
    println!("reports {reports}, calculated {calculated}");
    assert!(
        (0.8..1.2).contains(&ratio),
        "reports: {ratio:.2} of the real"
    );
    // The journal is empty, as everything is folded.
    let worst = builder.worst_case().store_bytes - journal - calculated;
    println!(
        "keys {sum} ({} keys), used memory {used}, calculated {worst}",
        keys.len()
    );
    for (kind, (n, bytes)) in kinds {
        println!("{kind:?}: {n} keys of {} bytes", bytes / n);
    }
    // The keys are full: every counter has every slice.
    for (counter, precision) in [(name("sold", 0), 1), (name("sold", 4), 86_400)] {
        assert_eq!(store.counter(&counter, precision).await.unwrap().len(), 120);
    }
    let hours = store
        .records_of(&name("GET /", 3), HOUR as u32, NOW)
        .await
        .unwrap();
    assert_eq!(hours.len(), 49);
    let contexts = [ContextId::new(Kind::Http, name("GET /", 3))];
    let days = (DAY, Precision::new(DAY, DAYS));
    let days = store.records_of_tier(&contexts, days, NOW).await.unwrap();
    assert_eq!(days.len(), DAYS as usize);
    assert_eq!(hours[48].1.histogram.buckets().len(), BUCKETS);
    let ratio = worst as f64 / sum as f64;
    assert!(
        (0.8..1.2).contains(&ratio),
        "calculated {ratio:.2} of the real"
    );
}

/// A store that is never reachable.
struct Away(MemoryStore);

fn away<T>() -> BoxFuture<'static, Result<T, StoreError>> {
    Box::pin(async { Err(StoreError::new(StoreErrorKind::Unreachable, "away")) })
}

impl Store for Away {
    fn precisions(&self) -> &Precisions {
        self.0.precisions()
    }
    #[cfg(feature = "row-cache")]
    fn rows(&self) -> &dyn tower_pulse_core::store::rows::Rows {
        self.0.rows()
    }

    fn describe(&self) -> String {
        "away".into()
    }
}

impl Append for Away {
    fn hello(&self) -> BoxFuture<'_, Result<Generation, StoreError>> {
        away()
    }
    fn append<'a>(&'a self, _: &'a FencedBatch) -> BoxFuture<'a, Result<Appended, StoreError>> {
        away()
    }
    fn readable<'a>(&'a self, _: &'a AppendedCall) -> BoxFuture<'a, Result<Readable, StoreError>> {
        away()
    }
}

impl Upkeep for Away {
    fn status(&self, _: i64) -> BoxFuture<'_, Result<StoreStatus, StoreError>> {
        away()
    }
    fn heartbeat<'a>(
        &'a self,
        _: &'a Heartbeat,
    ) -> BoxFuture<'a, Result<(Fleet, StoreStatus), StoreError>> {
        away()
    }
    fn deregister<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        away()
    }
    fn clean<'a>(&'a self, _: &'a Pass) -> BoxFuture<'a, Result<Option<CleanReport>, StoreError>> {
        away()
    }
    fn last_pass(&self) -> BoxFuture<'_, Result<Option<PassRecord>, StoreError>> {
        self.0.last_pass()
    }
}

impl Query for Away {
    fn tables(&self) -> &dyn TableReader {
        self.0.tables()
    }
    fn fleet(&self, now: i64) -> BoxFuture<'_, Result<FleetSnapshot, StoreError>> {
        self.0.fleet(now)
    }
    fn counters<'a>(
        &'a self,
        query: &'a CounterQuery,
    ) -> BoxFuture<'a, Result<Vec<CounterSeries>, StoreError>> {
        self.0.counters(query)
    }
    fn counter_names<'a>(
        &'a self,
        precisions: &'a [u32],
    ) -> BoxFuture<'a, Result<Vec<String>, StoreError>> {
        self.0.counter_names(precisions)
    }
    fn slowest<'a>(
        &'a self,
        query: &'a SlowestQuery,
    ) -> BoxFuture<'a, Result<Vec<RankedContext>, StoreError>> {
        self.0.slowest(query)
    }
}

/// Answers when the test has moved the manual clock. Runs all timers within a request with a query.
#[derive(Clone)]
struct Slow(Pulse);

impl Service<http::Request<()>> for Slow {
    type Response = http::Response<()>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<http::Response<()>, Infallible>>;
    fn poll_ready(
        &mut self,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), Infallible>> {
        std::task::Poll::Ready(Ok(()))
    }
    fn call(&mut self, request: http::Request<()>) -> Self::Future {
        if request.uri().query().is_some() {
            timers().iter().for_each(|timer| self.0.timer(timer).stop());
        }
        let mut response = http::Response::new(());
        *response.status_mut() = http::StatusCode::INTERNAL_SERVER_ERROR;
        std::future::ready(Ok(response))
    }
}

/// Times something that fails and something that is cancelled, both after `wait`.
fn end_badly(pulse: &Pulse, timer: &str, wait: impl Fn()) {
    let mut failed = pulse.timer(timer);
    wait();
    failed.failed();
    failed.stop();
    let mut cancelled = Box::pin(pulse.time(timer, std::future::pending::<()>()));
    assert!(futures_util::FutureExt::now_or_never(&mut cancelled).is_none());
    wait();
    drop(cancelled);
}

/// Fills a `Pulse` during an endless outage. Returns the calculated worst case.
fn fill_during_outage() -> u64 {
    let (clock, manual_clock) = Clock::manual(NOW - 200 * 86_400);
    let precisions = Precisions::default();
    let store = Arc::new(Away(MemoryStore::new(precisions.clone(), clock.clone())));
    let timers = timers();
    let builder = builder().max_contexts(CONTEXTS + timers.len());
    let builder = builder.app_version("1");
    let builder = builder.clock(clock).store(store);
    // Nobody looks at the page.
    let unasked = builder.clone().query_bytes(1 << 20);
    let worst = unasked.worst_case().process_bytes - (17 << 20);
    let (pulse, _tasks) = builder.build_with_tasks().unwrap();
    let shards = std::thread::available_parallelism().map_or(1, usize::from);
    let shards = shards.next_power_of_two().min(8);
    let mut names: Vec<String> = (0..CONTEXTS)
        .map(|n| name("GET /", n).to_string())
        .collect();
    names.push("one too many".into());
    names.push(UNMATCHED.into());
    let (names, request) = (Arc::new(names), |n: usize| {
        http::Request::get(format!("/{n}")).body(()).unwrap()
    });
    let layer = pulse.layer_with({
        let names = names.clone();
        move |head| {
            let n: usize = head.uri.path()[1..].parse().ok()?;
            Some(names[n].clone().into())
        }
    });
    // Creates a cell of each context in each shard, as each new thread gets the next shard.
    let record_everywhere = || {
        std::thread::scope(|scope| {
            for _ in 0..shards {
                scope.spawn(|| {
                    for timer in &timers {
                        pulse.record_duration(timer, Duration::ZERO);
                        end_badly(&pulse, timer, || ());
                    }
                    let mut service = layer.layer(Slow(pulse.clone()));
                    for n in 0..names.len() {
                        futures_util::FutureExt::now_or_never(service.call(request(n)))
                            .unwrap()
                            .unwrap();
                        drop(service.call(request(n)));
                    }
                });
            }
        });
    };
    manual_clock.set_wall(NOW);
    record_everywhere();
    let flush = || {
        let failed = futures_util::FutureExt::now_or_never(pulse.flush()).unwrap();
        assert!(failed.is_err());
    };
    let all = durations();
    let mut service = layer.layer(Slow(pulse.clone()));
    for second in seconds(&precisions) {
        manual_clock.set_wall(second);
        // For slices older than the two newest, every fourth bucket is enough.
        let is_fine = NOW - second < 120 || NOW - second == HOUR;
        let step = if is_fine { 1 } else { 4 };
        let durations = match has_record(second) {
            true => all.iter().step_by(step),
            false => all[..1].iter().step_by(1),
        };
        let durations: Vec<u64> = durations.copied().collect();
        for (timer, nanos) in timers
            .iter()
            .flat_map(|timer| durations.iter().map(move |n| (timer, n)))
        {
            pulse.record_duration(timer, Duration::from_nanos(*nanos));
            end_badly(&pulse, timer, || {
                manual_clock.advance(Duration::from_nanos(*nanos));
            });
        }
        for n in 0..names.len() {
            let timed = http::Request::get(format!("/{n}?timers")).body(()).unwrap();
            futures_util::FutureExt::now_or_never(service.call(timed))
                .unwrap()
                .unwrap();
            for nanos in &durations {
                let response = service.call(request(n));
                manual_clock.advance(Duration::from_nanos(*nanos));
                futures_util::FutureExt::now_or_never(response)
                    .unwrap()
                    .unwrap();
                let response = service.call(request(n));
                manual_clock.advance(Duration::from_nanos(*nanos));
                drop(response);
            }
        }
        for n in 0..=COUNTERS {
            pulse.counter(&name("sold", n)).add(1);
        }
        manual_clock.set_wall(second);
        flush();
    }
    assert_eq!(pulse.health().recording.dropped, 0);
    worst
}

#[test]
fn the_calculated_worst_case_is_close_to_that_of_this_process() {
    // Allocations that a process makes only once are not counted.
    drop(Pulse::builder().build_with_tasks());
    // A flush has a deadline.
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().build().unwrap();
    let _entered = runtime.enter();
    let mut worst = 0;
    let measured = allocation_counter::measure(|| worst = fill_during_outage());
    let real = measured.bytes_max;
    println!("allocated at most {real}, calculated {worst}");
    let ratio = worst as f64 / real as f64;
    assert!(
        (0.8..1.2).contains(&ratio),
        "calculated {ratio:.2} of the real"
    );
}
