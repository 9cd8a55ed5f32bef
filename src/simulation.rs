//! Driving an instance by hand.

use std::time::Duration;

use tower_pulse_core::error::StoreError;
use tower_pulse_core::handle::Handle;
use tower_pulse_model::machine::MachineMinute;

/// What the background tasks of an instance do, done by whoever drives its clock: from one second of a log to the next, or
/// through an hour of a test. [`Pulse::simulation`](crate::Pulse::simulation) returns it.
///
/// A service has no use for it: the tasks that [`build`](crate::Builder::build) spawns do the same in time.
#[derive(Clone, Copy, Debug)]
pub struct Simulation<'a> {
    handle: &'a Handle,
}

impl<'a> Simulation<'a> {
    pub(crate) fn new(handle: &'a Handle) -> Self {
        Self { handle }
    }

    /// Counts everything recorded so far in the clock's current second, in this process: what
    /// [`Pulse::flush`](crate::Pulse::flush) does before it goes to the store, and a background task at each turn of a second.
    /// For those who drive the clock themselves, from one second of a log to the next:
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use http::StatusCode;
    /// use tower_pulse::{Clock, Pulse};
    ///
    /// let (clock, time) = Clock::manual(1_700_000_000); // Unix seconds
    /// let (pulse, _tasks) = Pulse::builder().clock(clock).build_with_tasks()?; // nobody else drains
    /// let simulation = pulse.simulation();
    /// for (second, n) in [(1_700_000_000, 3), (1_700_000_007, 2)] {
    ///     time.set_wall(second);
    ///     simulation.drain(); // the clock's second is this one from now on
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
    /// The first drain after the turn of a second counts in the second that has just ended: a task that comes a
    /// moment late would else count everything a second late.
    pub fn drain(self) {
        self.handle.recorder().drain();
    }

    /// Judges the minutes that have ended, now: which pages have changed. A background task does it 15 s after each
    /// minute. For those who drive the clock themselves, after a [`flush`](crate::Pulse::flush). Returns how many minutes
    /// this instance has judged; another one may have judged some. What is found is written between two rounds of folding:
    /// another instance that folds is interrupted for a moment, and goes on.
    ///
    /// # Errors
    /// The store failed. The next call judges what this one has not.
    ///
    /// # Panics
    /// Without a tokio runtime that has its timers enabled.
    ///
    /// # Cancel safety
    /// The next call goes on where this one was.
    pub async fn judge(self) -> Result<usize, StoreError> {
        self.handle.judge().await
    }

    /// Tells the store that this instance is alive, and which version of the application it runs; learns how many
    /// instances and which versions the fleet has. A background task does it once per flush interval. For those who drive the
    /// clock themselves, and play several instances: at least once in the clock's minute.
    ///
    /// A version that is new gets its [mark](crate::Pulse::mark) with the next [`flush`](crate::Pulse::flush), and is told by the
    /// heartbeats after that.
    ///
    /// # Errors
    /// The store failed.
    ///
    /// # Cancel safety
    /// The store may have been told.
    pub async fn heartbeat(self) -> Result<(), StoreError> {
        self.handle.heartbeat().await
    }

    /// Reports what the machine of this instance did in the minute that begins then, in Unix seconds: the share of its CPUs
    /// that the process took, and the median delay of a task that is ready. A background task measures it. For those who
    /// drive the clock themselves; it goes to the store with the next [`flush`](crate::Pulse::flush).
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
            // Negative shares, and what is no number, become 0.
            cpu_millis: Some((1e3 * cpu).round() as u64),
            workers: 1,
            delay_micros: Some(micros),
            worst_delay_micros: Some(micros),
            ..MachineMinute::default()
        };
        self.handle.recorder().drain.add_machine(minute, machine);
    }
}
