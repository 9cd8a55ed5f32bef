//! Conditions under the faults of a soak: how long until each is told by an instance, and until all are quiet again.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures_util::future::{join_all, select_all};

use crate::denials::{SERVER_FAULTS, ServerFault};
use crate::fault::Site;
use crate::fleet::Instance;

/// Within which a condition must be told, and quiet again. A look takes a moment.
const LIMIT: Duration = Duration::from_millis(10_500);
/// For how long a condition is waited for.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(250);

/// A fault that has a condition.
#[derive(Clone, Copy)]
pub enum ToldFault {
    Server(&'static ServerFault),
    FrozenServer,
    FrozenInstance,
    ReplacedKey,
}

impl ToldFault {
    pub fn all() -> Vec<Self> {
        let server = SERVER_FAULTS.iter().map(Self::Server);
        let others = [Self::FrozenServer, Self::FrozenInstance, Self::ReplacedKey];
        server.chain(others).collect()
    }

    fn condition(self) -> &'static str {
        match self {
            Self::Server(fault) => fault.0,
            Self::FrozenServer => "unreachable",
            Self::FrozenInstance => "silent_instance",
            Self::ReplacedKey => "replaced_key",
        }
    }

    async fn begin(self, site: &Site) {
        match self {
            Self::Server(fault) => run(site, &fault.begin()).await,
            Self::FrozenServer => site.server.freeze(),
            Self::FrozenInstance => site.fleet[2].process.freeze(),
            Self::ReplacedKey => run(site, "SET pulse:pulse:instances x").await,
        }
    }

    async fn end(self, site: &Site) {
        match self {
            Self::Server(fault) => run(site, &fault.end()).await,
            Self::FrozenServer => site.server.thaw(),
            Self::FrozenInstance => site.fleet[2].process.thaw(),
            Self::ReplacedKey => {}
        }
    }
}

async fn run(site: &Site, command: &str) {
    site.server.run(command).await
}

/// The seconds until each condition was told, and until it was quiet, one pair for each time.
#[derive(Debug, Default)]
pub struct Told(BTreeMap<&'static str, Vec<(f64, f64)>>);

impl Told {
    /// Lets a fault happen until its condition is told, and waits until it is quiet. Returns what was too late.
    pub async fn inflict(&mut self, fault: ToldFault, site: &mut Site) -> Option<String> {
        let condition = fault.condition();
        fault.begin(site).await;
        let told = until(site, condition, true).await;
        fault.end(site).await;
        let quiet = until(site, condition, false).await;
        let times = (told.as_secs_f64(), quiet.as_secs_f64());
        self.0.entry(condition).or_default().push(times);
        (told > LIMIT || quiet > LIMIT).then(|| {
            let (told, quiet) = times;
            format!("{condition} was told after {told:.1} s, and quiet after {quiet:.1} s")
        })
    }

    pub fn print(&self) {
        println!("\n| Condition | Times | Seconds until told, most | Seconds until quiet, most |");
        println!("|---|---|---|---|");
        for (condition, times) in &self.0 {
            let most = |of: fn(&(f64, f64)) -> f64| times.iter().map(of).fold(0.0, f64::max);
            println!(
                "| `{condition}` | {} | {:.1} | {:.1} |",
                times.len(),
                most(|times| times.0),
                most(|times| times.1)
            );
        }
    }
}

/// Looks until any instance tells a condition, or none does. An instance that is frozen does not hold up the others.
async fn until(site: &mut Site, condition: &str, is_told: bool) -> Duration {
    let start = Instant::now();
    let instances = site.fleet.iter_mut().map(|instance| {
        Box::pin(async move {
            while tells(instance, condition).await.unwrap_or(false) != is_told {
                tokio::time::sleep(LOOK).await;
            }
        })
    });
    let looks = async {
        if is_told {
            select_all(instances).await;
        } else {
            join_all(instances).await;
        }
    };
    let _ = tokio::time::timeout(PATIENCE, looks).await;
    start.elapsed()
}

/// Whether an instance tells a condition; `None` if it does not answer.
async fn tells(instance: &mut Instance, condition: &str) -> Option<bool> {
    // Some conditions are noticed by reading, which takes longer while the store is silent.
    let read = instance.get("/admin/pulse/api/paths?window=5m");
    let _ = tokio::time::timeout(2 * LOOK, read).await;
    let health = instance.health().await?;
    let conditions = health["conditions"].as_array()?;
    Some(conditions.iter().any(|other| other == condition))
}
