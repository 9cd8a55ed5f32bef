//! Runs the background tasks of an instance by hand.

use std::time::Duration;

use tower_pulse_core::error::StoreError;
use tower_pulse_core::handle::Handle;
use tower_pulse_model::machine::MachineMinute;

/// Runs the work of an instance's background tasks, for code that moves the clock itself, such as a test or a replay of
/// a log. Returned by [`Pulse::simulation`](crate::Pulse::simulation).
///
/// A service does not need this type: the tasks that [`build`](crate::Builder::build) spawns do the same work.
#[derive(Clone, Copy, Debug)]
pub struct Simulation<'a> {
    handle: &'a Handle,
}

impl<'a> Simulation<'a> {
    pub(crate) fn new(handle: &'a Handle) -> Self {
        Self { handle }
    }

    /// Drains the cells of this process: everything that was recorded since the last drain counts in the clock's
    /// current second. [`Pulse::flush`](crate::Pulse::flush) drains too, before it sends. A background task drains at
    /// the start of each second. To replay a log from one second to the next:
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use http::StatusCode;
    /// use tower_pulse::{Clock, Pulse};
    ///
    /// let (clock, time) = Clock::manual(1_700_000_000); // Unix seconds
    /// let (pulse, _tasks) = Pulse::builder().clock(clock).build_with_tasks()?; // no background task drains
    /// let simulation = pulse.simulation();
    /// for (second, n) in [(1_700_000_000, 3), (1_700_000_007, 2)] {
    ///     time.set_wall(second);
    ///     simulation.drain(); // later samples count in this second
    ///     for _ in 0..n {
    ///         pulse.record("GET /", Duration::from_millis(4), StatusCode::OK);
    ///     }
    ///     simulation.drain();
    /// }
    /// pulse.flush().await?;
    /// let hits = pulse.store().counter("hits", 1).await?;
    /// assert_eq!(hits, [(1_700_000_000, 3), (1_700_000_007, 2)]);
    /// # Ok(()) }
    /// ```
    ///
    /// The first drain in a new second is an exception: what it drains counts in the second before. Otherwise, if the
    /// task ran a moment late, all samples of the ended second would count in the next second.
    pub fn drain(self) {
        self.handle.recorder().drain();
    }

    /// Judges the minutes that have ended, to find the pages that have changed. Call this function after a
    /// [`flush`](crate::Pulse::flush). A background task judges 15 to 17 s after each minute. Returns the number of
    /// minutes that this instance has judged; another instance may have judged other minutes. The verdicts are written
    /// between two rounds of folding. If another instance folds, the write interrupts that instance for a moment.
    ///
    /// # Errors
    /// The store failed. The next call judges the minutes that this call has not judged.
    ///
    /// # Panics
    /// If there is no tokio runtime with timers enabled.
    ///
    /// # Cancel safety
    /// The next call continues where this one stopped.
    pub async fn judge(self) -> Result<usize, StoreError> {
        self.handle.judge().await
    }

    /// Sends a heartbeat: tells the store that this instance is alive, and which version of the application it runs.
    /// The reply has the number of the fleet's instances, and their versions. A background task sends a heartbeat every
    /// 1 to 20 s. To simulate several instances, send a heartbeat of each at least once per minute of the clock.
    ///
    /// A new version gets its [mark](crate::Pulse::mark) with the next [`flush`](crate::Pulse::flush). Later heartbeats
    /// announce the version.
    ///
    /// # Errors
    /// The store failed.
    ///
    /// # Cancel safety
    /// The heartbeat may have been sent.
    pub async fn heartbeat(self) -> Result<(), StoreError> {
        self.handle.heartbeat().await
    }

    /// Reports the machine of this instance for the minute that begins at `minute`, in Unix seconds. `cpu` is the share
    /// of the allowed CPUs that the process used, from 0 to 1; `delay` is the median wait of a task that is ready to
    /// run. A background task measures both. The report is sent to the store with the next
    /// [`flush`](crate::Pulse::flush).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tower_pulse::BuildError> {
    /// use std::time::Duration;
    /// use tower_pulse::{Clock, Pulse};
    ///
    /// let (clock, _time) = Clock::manual(1_700_000_100);
    /// let (pulse, _tasks) = Pulse::builder().clock(clock).build_with_tasks()?;
    /// pulse.simulation().machine(1_700_000_040, 0.98, Duration::from_millis(40));
    /// # Ok(()) }
    /// ```
    pub fn machine(self, minute: i64, cpu: f64, delay: Duration) {
        let micros = u64::try_from(delay.as_micros()).unwrap_or(u64::MAX);
        let machine = MachineMinute {
            cpus: 1,
            // Negative shares and NaN become 0.
            cpu_thousandths: Some((1e3 * cpu).round() as u64),
            workers: 1,
            delay_micros: Some(micros),
            worst_delay_micros: Some(micros),
            ..MachineMinute::default()
        };
        self.handle.recorder().drain.add_machine(minute, machine);
    }
}
