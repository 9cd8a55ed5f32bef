//! The settings in the environment. The demo checks them before it starts.

use std::error::Error;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use tower_pulse::admin::Access;
use tower_pulse::{Builder, Pulse};

use crate::incident::Incident;
use crate::server::Server;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
/// The duration in which every page except the checkout should answer. The daily report misses this target.
const TARGET: Duration = Duration::from_millis(100);

/// The target of checkouts, and the share of checkouts that should meet the target: some payments fail.
const CHECKOUT_TARGET: Duration = Duration::from_millis(400);
const CHECKOUT_SHARE: f64 = 0.94;

/// The header in which a proxy gives the time at which the proxy received a request. In the demo, the visitors send the
/// header.
pub(crate) const QUEUE_HEADER: &str = "x-request-start";

#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) listen: SocketAddr,
    pub(crate) access: Access,
    pub(crate) redis: Option<Server>,
    pub(crate) file: Option<PathBuf>,
    pub(crate) has_traffic: bool,
    pub(crate) has_layer: bool,
    /// Whether pages query SQLite instead of waiting.
    pub(crate) has_database: bool,
    pub(crate) history: Option<Duration>,
    pub(crate) incident: Option<Incident>,
    /// The configuration of each instance, without its store.
    builder: Builder,
}

impl Settings {
    pub(crate) fn from_env() -> Result<Self, Box<dyn Error>> {
        let listen = "an IP address and a port, such as 127.0.0.1:3000";
        let listen = parsed("LISTEN", listen)?.unwrap_or(SocketAddr::from(([127, 0, 0, 1], 3000)));
        let token = variable("PULSE_TOKEN")?.filter(|token| !token.is_empty());
        if token.is_none() && !listen.ip().is_loopback() {
            return Err(format!(
                "LISTEN={listen} is open to others: set PULSE_TOKEN, or listen on a loopback address"
            )
            .into());
        }
        let history = "a number of minutes or hours from 30m to 24h, such as 3h";
        let history = parsed("DEMO_HISTORY", history)?.map(|History(length)| length);
        let incident = parsed("DEMO_INCIDENT", Incident::ALLOWED)?;
        let has_layer = is_on("DEMO_LAYER")?;
        if !has_layer && (history.is_some() || incident.is_some()) {
            return Err(
                "DEMO_LAYER=off records nothing: leave out DEMO_HISTORY and DEMO_INCIDENT".into(),
            );
        }
        let has_database = variable("DEMO_SQLITE")?.is_some_and(|value| value == "on");
        if has_database && (history.is_some() || incident.is_some()) {
            return Err("DEMO_SQLITE=on: leave out DEMO_HISTORY and DEMO_INCIDENT".into());
        }
        let redis = Server::from_env()?;
        let file = variable("PULSE_FILE")?.filter(|path| !path.is_empty());
        let file = file.map(PathBuf::from);
        if let Some(path) = &file {
            check_file(path, redis.is_some(), history.is_some())?;
        }
        let is_cluster = redis.as_ref().is_some_and(Server::is_cluster);
        Ok(Self {
            listen,
            access: token.map_or_else(Access::open, Access::token),
            redis,
            file,
            has_traffic: is_on("DEMO_TRAFFIC")?,
            has_layer,
            has_database,
            history,
            incident,
            builder: builder(is_cluster)?,
        })
    }

    pub(crate) fn builder(&self) -> Builder {
        self.builder.clone()
    }

    pub(crate) fn is_fleet(&self) -> bool {
        self.history.is_some() || self.incident.is_some()
    }
}

fn check_file(path: &Path, has_redis: bool, has_history: bool) -> Result<(), String> {
    if has_redis {
        return Err("PULSE_FILE and a Redis are both set: set only one of them".into());
    }
    if has_history && path.metadata().is_ok_and(|file| file.len() > 0) {
        return Err(format!(
            "{} has a past already: leave out DEMO_HISTORY",
            path.display()
        ));
    }
    Ok(())
}

fn builder(is_cluster: bool) -> Result<Builder, Box<dyn Error>> {
    // The braces put all keys into one slot.
    let prefix = if is_cluster { "{pulse}:" } else { "pulse:" };
    // With the grace period of a second before the shutdown, the process ends within two seconds.
    let mut builder = Pulse::builder()
        .shutdown_timeout(Duration::from_millis(700))
        .service("shop")
        // Without this call, the prefix would contain the name of the service.
        .prefix(variable("PULSE_PREFIX")?.unwrap_or_else(|| prefix.to_owned()))
        .target(TARGET)
        .target_for("POST /checkout", CHECKOUT_TARGET, CHECKOUT_SHARE)
        .queue_time_header(QUEUE_HEADER)
        .keep_trace_ids(true)
        .keep_request_paths(true);
    if let Some(millis) = parsed("PULSE_FLUSH_MS", "milliseconds, 10 to 60000")? {
        builder = builder.flush_interval(Duration::from_millis(millis));
    }
    if let Some(seconds) = parsed("PULSE_CLEAN_SECS", "seconds, 1 to 3600")? {
        builder = builder.clean_interval(Duration::from_secs(seconds));
    }
    if let Some(days) = parsed::<u64>("PULSE_HISTORY_DAYS", "a number of days, 15 to 400")? {
        builder = builder.history(Duration::from_secs(86_400 * days));
    }
    if let Some(contexts) = parsed("PULSE_FOLD_STEP", "a number of contexts")? {
        builder = builder.fold_step_contexts(contexts);
    }
    Ok(builder)
}

/// The length of the simulated past: a whole number of minutes or hours, from half an hour to a day.
struct History(Duration);

impl FromStr for History {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (number, unit) = match text.strip_suffix('h') {
            Some(hours) => (hours, HOUR),
            None => (text.strip_suffix('m').ok_or(())?, MINUTE),
        };
        let number: u64 = number.parse().map_err(|_| ())?;
        let seconds = number.checked_mul(unit).ok_or(())?;
        match (30 * MINUTE..=24 * HOUR).contains(&seconds) {
            true => Ok(Self(Duration::from_secs(seconds))),
            false => Err(()),
        }
    }
}

pub(crate) fn variable(name: &str) -> Result<Option<String>, String> {
    match std::env::var(name) {
        Ok(value) => Ok(Some(value)),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(error) => Err(format!("{name}: {error}")),
    }
}

/// By default, switches are on.
fn is_on(name: &str) -> Result<bool, String> {
    match variable(name)?.as_deref() {
        None | Some("" | "on") => Ok(true),
        Some("off") => Ok(false),
        Some(value) => Err(format!("{name}={value:?}: must be on or off")),
    }
}

/// The builder refuses values out of range.
fn parsed<T: FromStr>(name: &str, allowed: &str) -> Result<Option<T>, String> {
    let value = variable(name)?.filter(|value| !value.is_empty());
    let parsed = value.map(|value| {
        let parsed = value.trim().parse();
        parsed.map_err(|_| format!("{name}={value:?}: must be {allowed}"))
    });
    parsed.transpose()
}
