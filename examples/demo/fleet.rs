//! The instances of the shop: a fleet of four if a past or an incident is set, otherwise one instance. All instances
//! run in this process, and share one store.

use std::error::Error;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Router;
use fastrand::Rng;
use futures_util::future::join_all;
use tower_pulse::row_cache::RowCache;
use tower_pulse::store::Store;
use tower_pulse::tracing::SpanTimers;
use tower_pulse::{BuildError, Builder, Clock, ManualClock, Pulse};

use crate::database::Database;
use crate::incident::{self, Incident};
use crate::offers;
use crate::pace::Pace;
use crate::server::Server;
use crate::settings::Settings;
use crate::shop;

pub(crate) const INSTANCES: usize = 4;

/// The time between two moves of the clock of a store in memory or in a file.
const TICK: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) pulse: Pulse,
    /// The routes, wrapped by the layer.
    pub(crate) app: Router,
    pub(crate) incident: Option<Incident>,
}

pub(crate) enum Backend {
    /// One store in memory or in a file, which all instances share. Its clock moves from the past to the present.
    Shared(Store, ManualClock),
    /// A Redis, to which each instance has its own connection.
    Redis(Server),
}

impl Backend {
    /// The store of a fleet whose first request is at `start`, in Unix seconds.
    pub(crate) fn new(settings: &Settings, start: i64) -> Result<Self, BuildError> {
        if let Some(server) = &settings.redis {
            return Ok(Self::Redis(server.clone()));
        }
        let (clock, time) = Clock::manual(start);
        let builder = Pulse::builder().clock(clock);
        let builder = match &settings.file {
            Some(path) => builder.file(path),
            None => builder,
        };
        Ok(Self::Shared(builder.open_store()?, time))
    }

    pub(crate) fn builder(
        &self,
        settings: &Settings,
        number: usize,
        version: &'static str,
    ) -> Builder {
        let builder = settings.builder();
        let builder = builder.instance(name(number)).app_version(version);
        match self {
            Self::Shared(store, _) => builder.store(store.clone()),
            Self::Redis(server) => server.configure(builder),
        }
    }
}

pub(crate) fn name(number: usize) -> String {
    format!("web-{}", number + 1)
}

/// The only instance of a demo that has neither a past nor an incident.
pub(crate) async fn single(
    settings: &Settings,
    timers: &SpanTimers,
) -> Result<Instance, Box<dyn Error>> {
    let mut builder = settings.builder();
    let mut database = None;
    if settings.has_database {
        database = Some(Database::open().await?);
        builder = builder.tracing(timers);
    }
    if let Some(server) = &settings.redis {
        builder = server.configure(builder);
    }
    if let Some(path) = &settings.file {
        builder = builder.file(path);
    }
    let pulse = builder.app_version(incident::version(None)).build()?;
    log_changes(&pulse);
    let offers = offers(settings, &pulse)?;
    let mut app = shop::routes(&pulse, Pace::Real, None, offers, database, Rng::new())?;
    if settings.has_layer {
        app = app.layer(pulse.layer());
    }
    Ok(Instance {
        pulse,
        app,
        incident: None,
    })
}

/// The instances of a fleet, which record from now on. The incident, if any, has begun.
pub(crate) fn live(
    settings: &Settings,
    backend: &Backend,
) -> Result<Vec<Instance>, Box<dyn Error>> {
    if let Backend::Shared(_, time) = backend {
        tokio::spawn(run_in_real_time(time.clone()));
    }
    let instances = (0..INSTANCES).map(|number| {
        let incident = settings
            .incident
            .filter(|incident| incident.affects(number));
        let version = incident::version(incident);
        let pulse = backend.builder(settings, number, version).build()?;
        log_changes(&pulse);
        let offers = offers(settings, &pulse)?;
        let app = shop::routes(&pulse, Pace::Real, incident, offers, None, Rng::new())?;
        let app = app.layer(pulse.layer());
        Ok(Instance {
            pulse,
            app,
            incident,
        })
    });
    instances.collect()
}

/// The special offers of an instance. Only a demo with a Redis and with visitors has offers.
fn offers(settings: &Settings, pulse: &Pulse) -> Result<Option<RowCache>, BuildError> {
    if settings.redis.is_none() || !settings.has_traffic {
        return Ok(None);
    }
    let cache = offers::cache(pulse)?;
    let scheduled = cache.clone();
    tokio::spawn(async move {
        if let Err(error) = offers::schedule(&scheduled).await {
            tracing::warn!("the special offers are left out: {error}");
        }
    });
    Ok(Some(cache))
}

pub(crate) fn log_changes(pulse: &Pulse) {
    pulse.on_change(|change| {
        let minutes = (now() - change.since) / 60;
        match change.ended {
            None => tracing::warn!("{change}, for {minutes} minutes"),
            Some(_) => tracing::info!("{change}"),
        }
    });
}

async fn run_in_real_time(time: ManualClock) {
    let mut ticks = tokio::time::interval(TICK);
    loop {
        ticks.tick().await;
        time.set_wall(now());
    }
}

/// Shuts down all instances at once. An instance logs an error of its last flush, but the demo does not fail.
pub(crate) async fn shut_down(instances: &[Instance]) {
    join_all(instances.iter().map(|instance| instance.pulse.shutdown())).await;
}

pub(crate) fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| i64::try_from(now.as_secs()).unwrap_or(i64::MAX))
}
