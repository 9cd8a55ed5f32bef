//! The resources that this process uses, and the scheduling delay of its runtime: measured continuously, and added to
//! the minute reports of this instance.
//!
//! A task sleeps for 100 ms again and again, and measures how late the task wakes. During this delay, the task waits
//! for a worker of the runtime, or the worker waits for a CPU. `delays` keeps the delays of a minute. With the feature
//! `process`, the file `process` asks the operating system for the measurements of this process.

mod delays;
mod process;

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use self::delays::Delays;
use self::process::Process;
use crate::clock::{Clock, Tick};
use crate::recorder::Recorder;
use tower_pulse_model::machine::MachineMinute;
use tower_pulse_model::minute_report::REPORTED_MINUTES;

const SLEEP: Duration = Duration::from_millis(100);

struct Minute {
    start: i64,
    began: Tick,
    /// The CPU time at the beginning of the minute.
    cpu: Option<Duration>,
    /// The busy time of the workers at the beginning of the minute.
    busy: Option<Duration>,
    delays: Delays,
}

/// Measures each minute.
pub async fn measure(recorder: Arc<Recorder>) {
    let clock = recorder.recording.clock().clone();
    let mut minute = Minute::begin(&clock, &Process::ask(&clock).await);
    loop {
        let slept = clock.tick();
        clock.sleep(SLEEP).await;
        minute.delays.add(clock.since(slept).saturating_sub(SLEEP));
        if REPORTED_MINUTES.slice(clock.now_seconds()) != minute.start {
            let process = Process::ask(&clock).await;
            recorder
                .drain
                .add_machine(minute.start, minute.end(&clock, &process));
            minute = Minute::begin(&clock, &process);
        }
    }
}

impl Minute {
    fn begin(clock: &Clock, process: &Process) -> Self {
        Self {
            start: REPORTED_MINUTES.slice(clock.now_seconds()),
            began: clock.tick(),
            cpu: process.cpu,
            busy: busy(clock),
            delays: Delays::default(),
        }
    }

    fn end(&mut self, clock: &Clock, process: &Process) -> MachineMinute {
        let elapsed = clock.since(self.began);
        let metrics = Handle::try_current().ok().map(|handle| handle.metrics());
        let workers = metrics.as_ref().map_or(0, |metrics| metrics.num_workers());
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let delays = self.delays.take();
        MachineMinute {
            cpus: count(std::thread::available_parallelism().map_or(1, usize::from)),
            cpu_thousandths: thousandths(self.cpu, process.cpu, elapsed),
            resident_bytes: process.resident_bytes,
            open_files: process.open_files,
            max_open_files: process.max_open_files,
            threads: process.threads,
            workers: count(workers),
            busy_thousandths: thousandths(
                self.busy,
                busy(clock),
                elapsed.saturating_mul(u32::try_from(workers).unwrap_or(u32::MAX)),
            ),
            queued_tasks: (metrics.as_ref()).map_or(0, |all| count(all.global_queue_depth())),
            alive_tasks: metrics
                .as_ref()
                .map_or(0, |all| count(all.num_alive_tasks())),
            delay_micros: delays.map(|(median, _)| median),
            worst_delay_micros: delays.map(|(_, worst)| worst),
        }
    }
}

/// The total busy time of all workers of this runtime. `None` under a manual clock, because the runtime measures real
/// time.
#[cfg(target_has_atomic = "64")]
fn busy(clock: &Clock) -> Option<Duration> {
    let metrics = Handle::try_current().ok()?.metrics();
    let workers = 0..metrics.num_workers();
    (!clock.is_manual()).then(|| {
        workers
            .map(|worker| metrics.worker_total_busy_duration(worker))
            .sum()
    })
}

/// tokio counts the busy time only on targets with 64-bit atomics.
#[cfg(not(target_has_atomic = "64"))]
fn busy(_: &Clock) -> Option<Duration> {
    None
}

/// The growth of a total time from `before` to `now`, in thousandths of `elapsed`.
fn thousandths(before: Option<Duration>, now: Option<Duration>, elapsed: Duration) -> Option<u64> {
    let grown = now?.saturating_sub(before?);
    let share = grown.as_secs_f64() / elapsed.as_secs_f64();
    // `now` and `elapsed` are not read at the same moment, so the share of less than a second is inaccurate.
    (elapsed >= Duration::from_secs(1)).then_some((share * 1e3).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::tests::{NOW, TestRecorder};
    use crate::task::Stop;

    async fn settle() {
        for _ in 0..8 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn an_instance_without_requests_reports_its_delays_each_minute() {
        let recorder = TestRecorder::new(9);
        recorder.drain.set_instance("a");
        let (stop, stopped) = Stop::new();
        let task = tokio::spawn(stopped.run(Box::pin(measure(recorder.clone()))));
        for wake in 0..500 {
            settle().await;
            let delay = if wake == 70 { 900 } else { 20 };
            recorder.clock.advance(SLEEP + Duration::from_millis(delay));
        }
        settle().await;
        let [report] = &recorder.drained().reports[..] else {
            panic!("not one minute");
        };
        assert_eq!((report.minute, &*report.instance), (NOW, "a"));
        assert!(report.contexts.is_empty());
        let machine = report.machine.expect("a measurement");
        assert_eq!(machine.delay_micros, Some(20_000));
        assert_eq!(machine.worst_delay_micros, Some(900_000));
        assert!(machine.is_delayed() && machine.cpus >= 1);
        assert_eq!((machine.workers, machine.alive_tasks), (1, 1));
        // CPU time and busy time are real time, which a manual clock does not measure.
        assert_eq!(
            (machine.cpu_thousandths, machine.busy_thousandths),
            (None, None)
        );
        // A minute without delays.
        for _ in 0..600 {
            settle().await;
            recorder.clock.advance(SLEEP);
        }
        settle().await;
        let reports = recorder.drained().reports;
        let machine = reports[0].machine.expect("a measurement");
        assert!(!machine.is_delayed(), "{machine:?}");
        drop(stop);
        task.await.expect("it ends with the instance");
    }
}
