//! The simulated past: `DEMO_HISTORY`.
//!
//! Each instance in the past has its own clock, which the requests to the instance move by their durations. The
//! requests go through the routes, the layer and the timers of the live shop, but an hour of requests takes seconds. Of
//! the background tasks, only the fold runs, because a drain between two moves of the clock would count requests in a
//! wrong second.

use std::error::Error;
use std::time::{Duration, Instant};

use fastrand::Rng;
use futures_util::future::{join_all, try_join_all};
use tokio::task::JoinHandle;
use tower_pulse::{BuildError, Clock, ManualClock, Pulse, StoreError};
use tracing::subscriber::NoSubscriber;

use crate::catalogue::draw_visits;
use crate::fleet::{Backend, INSTANCES, log_changes, name, now};
use crate::incident::{self, Incident};
use crate::pace::{Pace, SimulatedTime};
use crate::settings::Settings;
use crate::shop;
use crate::traffic::Destination;

const MINUTE: i64 = 60;
/// Seconds between heartbeats. An instance counts as alive for a minute after each.
const HEARTBEAT: i64 = 30;
/// The incident begins this many whole minutes before now.
const INCIDENT_BEFORE: i64 = 8;
/// The time for which a failed flush is repeated.
const PATIENCE: Duration = Duration::from_secs(15);
const RETRY: Duration = Duration::from_millis(200);
/// The interval at which an instance checks whether all of its requests are in the journal.
const LOOK: Duration = Duration::from_millis(1);

/// Records the past up to now. Fails if the store has requests already.
pub(crate) async fn record(
    settings: &Settings,
    backend: &Backend,
    length: Duration,
) -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let begin = first_second(length);
    let incident_at = (now().div_euclid(MINUTE) - INCIDENT_BEFORE) * MINUTE;
    let mut past = Past::begin(settings, backend, begin)?;
    if past.has_requests().await? {
        past.shut_down().await?;
        let message = "the store has requests already, to which simulated ones must not be added: set another \
                       PULSE_PREFIX";
        return Err(message.into());
    }
    tracing::info!("recording {length:?} of simulated traffic");
    // The past catches up with the real time, which goes on meanwhile.
    while past.second < now() {
        if let Some(incident) = settings.incident.filter(|_| past.second == incident_at) {
            past.begin_incident(incident).await?;
        }
        past.heartbeat().await?;
        let beat_end = (past.second.div_euclid(HEARTBEAT) + 1) * HEARTBEAT;
        past.serve_until(beat_end.min(now())).await?;
        if past.second % MINUTE == 0 {
            past.report_machines();
        }
        if past.second % MINUTE == 0 || past.second == now() {
            past.flush_and_judge().await?;
        }
    }
    let (until, requests) = (past.second, past.requests());
    past.shut_down().await?;
    tracing::info!(
        "recorded {requests} requests of simulated traffic in {:.1} s: everything before Unix second {until} is \
         simulated",
        start.elapsed().as_secs_f64()
    );
    if let Some(incident) = settings.incident {
        tracing::info!(
            "the incident began at Unix second {incident_at}, {} minutes ago, and goes on: {}",
            (until - incident_at) / MINUTE,
            incident.description()
        );
    }
    Ok(())
}

/// The second at which a past of this length begins: the start of a minute.
pub(crate) fn first_second(length: Duration) -> i64 {
    let length = i64::try_from(length.as_secs()).unwrap_or(i64::MAX);
    now().saturating_sub(length).div_euclid(MINUTE) * MINUTE
}

struct Past<'a> {
    settings: &'a Settings,
    backend: &'a Backend,
    instances: Vec<PastInstance>,
    /// Everything before this second is recorded.
    second: i64,
}

struct PastInstance {
    pulse: Pulse,
    time: ManualClock,
    destination: Destination,
    incident: Option<Incident>,
    visitors: Rng,
    machine_load: Rng,
    requests: u64,
    has_flushed: bool,
    folding: Vec<JoinHandle<()>>,
}

impl<'a> Past<'a> {
    fn begin(
        settings: &'a Settings,
        backend: &'a Backend,
        second: i64,
    ) -> Result<Self, Box<dyn Error>> {
        let mut past = Self {
            settings,
            backend,
            instances: Vec::new(),
            second,
        };
        for number in 0..INSTANCES {
            past.instances.push(past.instance(number, None)?);
        }
        Ok(past)
    }

    fn instance(
        &self,
        number: usize,
        incident: Option<Incident>,
    ) -> Result<PastInstance, Box<dyn Error>> {
        let (clock, time) = Clock::manual(self.second);
        let version = incident::version(incident);
        let builder = self.backend.builder(self.settings, number, version);
        let builder = builder.clock(clock).shutdown_timeout(PATIENCE);
        // These instances log nothing while they are built, because the live instances log the same lines.
        let (pulse, tasks) =
            tracing::subscriber::with_default(NoSubscriber::new(), || builder.build_with_tasks())?;
        log_changes(&pulse);
        let folding = tasks.into_iter().filter(|task| task.name() == "fold");
        let folding = folding.map(tokio::spawn).collect();
        // With these fixed seeds, each run has the same past, shifted in time.
        let mut visitors = Rng::with_seed(number as u64);
        Ok(PastInstance {
            destination: destination(&pulse, &time, incident, visitors.fork())?,
            pulse,
            time,
            incident,
            visitors,
            machine_load: Rng::with_seed(number as u64),
            requests: 0,
            has_flushed: false,
            folding,
        })
    }

    /// Whether the store has requests. A simulated past must not be added to the data of a service.
    async fn has_requests(&self) -> Result<bool, StoreError> {
        const DAY: u32 = 86_400;
        let hits = self.instances[0].pulse.store().counter("hits", DAY).await?;
        Ok(!hits.is_empty())
    }

    async fn begin_incident(&mut self, incident: Incident) -> Result<(), Box<dyn Error>> {
        for number in (0..INSTANCES).filter(|number| incident.affects(*number)) {
            if incident == Incident::BadDeploy {
                let new = self.instance(number, Some(incident))?;
                let old = std::mem::replace(&mut self.instances[number], new);
                self.instances[number].requests = old.requests;
                old.shut_down().await?;
                let version = incident::version(Some(incident));
                tracing::info!("simulated: {} gets version {version}", name(number));
            } else {
                let instance = &mut self.instances[number];
                let rng = instance.visitors.fork();
                instance.destination =
                    destination(&instance.pulse, &instance.time, Some(incident), rng)?;
                instance.incident = Some(incident);
            }
        }
        Ok(())
    }

    /// Sends the heartbeats by which the instances know of each other.
    async fn heartbeat(&self) -> Result<(), StoreError> {
        for instance in &self.instances {
            instance.pulse.simulation().heartbeat().await?;
        }
        Ok(())
    }

    async fn serve_until(&mut self, second: i64) -> Result<(), tokio::task::JoinError> {
        let (from, instances) = (self.second, std::mem::take(&mut self.instances));
        let busy = instances
            .into_iter()
            .map(|instance| tokio::spawn(instance.serve(from, second)));
        self.instances = try_join_all(busy).await?;
        self.second = second;
        if let Backend::Shared(_, time) = self.backend {
            time.set_wall(second);
        }
        Ok(())
    }

    fn report_machines(&mut self) {
        for instance in &mut self.instances {
            let (cpu, millis) = match instance.incident {
                Some(Incident::BusyHost) => (0.95 + 0.04 * instance.machine_load.f64(), 40.0),
                _ => (0.2 + 0.15 * instance.machine_load.f64(), 1.1),
            };
            let delay =
                Duration::from_secs_f64(millis * (0.9 + 0.2 * instance.machine_load.f64()) / 1e3);
            let simulation = instance.pulse.simulation();
            simulation.machine(self.second - MINUTE, cpu, delay);
        }
    }

    /// Flushes all instances, and judges the minutes that have ended. The folder comes last, so that it folds the calls
    /// of all other instances.
    async fn flush_and_judge(&mut self) -> Result<(), StoreError> {
        let is_folder = |instance: &PastInstance| {
            let journal = instance.pulse.health().fold.journal;
            journal.is_some_and(|journal| journal.is_folder)
        };
        let folder = self.instances.iter().position(is_folder).unwrap_or(0);
        let others = self.instances.iter().enumerate();
        let others = others.filter(|(number, _)| *number != folder);
        let appending = others.map(|(_, instance)| instance.append());
        try_join_all(appending).await?;
        self.instances[folder].flush().await?;
        self.instances[folder].pulse.simulation().judge().await?;
        for instance in &mut self.instances {
            instance.has_flushed = true;
        }
        Ok(())
    }

    fn requests(&self) -> u64 {
        self.instances
            .iter()
            .map(|instance| instance.requests)
            .sum()
    }

    async fn shut_down(self) -> Result<(), Box<dyn Error>> {
        for ended in join_all(self.instances.into_iter().map(PastInstance::shut_down)).await {
            ended?;
        }
        Ok(())
    }
}

impl PastInstance {
    async fn serve(mut self, from: i64, until: i64) -> Self {
        for second in from..until {
            for (wait, visit) in draw_visits(&mut self.visitors, self.incident, INSTANCES) {
                // The previous request has moved the clock.
                self.time.set_wall(second);
                self.time.advance(wait);
                let arrival = second * 1_000_000 + i64::try_from(wait.as_micros()).unwrap_or(0);
                self.destination.visit(visit, arrival).await;
                self.requests += 1;
            }
            // The first drain in a new second counts its samples in the previous second.
            self.time.set_wall(second + 1);
            self.pulse.simulation().drain();
        }
        self
    }

    /// Appends all samples to the journal. Only the first call waits until the samples are folded.
    async fn append(&self) -> Result<(), StoreError> {
        if !self.has_flushed {
            return self.flush().await;
        }
        let appended = async {
            while self.pulse.health().recording.pending_series > 0 {
                tokio::time::sleep(LOOK).await;
            }
        };
        tokio::select! {
            biased;
            flushed = self.flush() => flushed,
            () = appended => Ok(()),
        }
    }

    async fn flush(&self) -> Result<(), StoreError> {
        let start = Instant::now();
        while let Err(error) = self.pulse.flush().await {
            if start.elapsed() > PATIENCE {
                return Err(error);
            }
            tokio::time::sleep(RETRY).await;
        }
        Ok(())
    }

    async fn shut_down(self) -> Result<(), Box<dyn Error>> {
        self.pulse.shutdown().await?;
        for task in self.folding {
            task.await?;
        }
        Ok(())
    }
}

fn destination(
    pulse: &Pulse,
    time: &ManualClock,
    incident: Option<Incident>,
    rng: Rng,
) -> Result<Destination, BuildError> {
    let pace = Pace::Simulated(SimulatedTime::new(time.clone()));
    let app = shop::routes(pulse, pace.clone(), incident, None, None, rng)?;
    Ok(Destination::InProcess(app.layer(pulse.layer()), pace))
}
