//! Conditions under the faults of a soak: how long until an instance reports each, and until no instance does.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures_util::future::{join_all, select_all};

use crate::fault::Site;
use crate::faults::denials::SERVER_FAULTS;
use crate::fleet::Instance;

/// The time within which a condition must be reported, and must end. A look takes a moment.
const LIMIT: Duration = Duration::from_millis(10_500);
/// How long to wait for a condition.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(250);

/// The conditions whose faults are not those of [`SERVER_FAULTS`].
const OTHERS: [&str; 3] = ["unreachable", "silent_instance", "replaced_key"];

/// All conditions that the soak waits for.
pub fn conditions() -> Vec<&'static str> {
    let server = SERVER_FAULTS.iter().map(|fault| fault.0);
    server.chain(OTHERS).collect()
}

/// Begins or ends the fault of a condition.
async fn set(condition: &str, begins: bool, site: &Site) {
    let frozen = &site.fleet[2].process;
    let command = match (condition, begins) {
        ("unreachable", true) => return site.server.freeze(),
        ("unreachable", false) => return site.server.thaw(),
        ("silent_instance", true) => return frozen.freeze(),
        ("silent_instance", false) => return frozen.thaw(),
        ("replaced_key", true) => "SET pulse:pulse:instances x".to_owned(),
        ("replaced_key", false) => return,
        _ => {
            let mut faults = SERVER_FAULTS.iter();
            let fault = faults.find(|fault| fault.0 == condition).unwrap();
            if begins { fault.begin() } else { fault.end() }
        }
    };
    site.server.run(&command).await
}

/// For each condition, the seconds until it was reported and the seconds until it ended: a pair for each fault.
#[derive(Debug, Default)]
pub struct Told(BTreeMap<&'static str, Vec<(f64, f64)>>);

impl Told {
    /// Causes the fault of a condition until an instance reports the condition, and then waits until none does. Returns
    /// a text if either took too long.
    pub async fn inflict(&mut self, condition: &'static str, site: &mut Site) -> Option<String> {
        set(condition, true, site).await;
        let told = until(site, condition, true).await;
        set(condition, false, site).await;
        let quiet = until(site, condition, false).await;
        let times = (told.as_secs_f64(), quiet.as_secs_f64());
        self.0.entry(condition).or_default().push(times);
        (told > LIMIT || quiet > LIMIT).then(|| {
            let (told, quiet) = times;
            format!("{condition} was told after {told:.1} s, and quiet after {quiet:.1} s")
        })
    }

    pub fn print(&self) {
        println!("\n| Condition | Seconds until told | Seconds until quiet |\n|---|---|---|");
        for (condition, times) in &self.0 {
            for (told, quiet) in times {
                println!("| `{condition}` | {told:.1} | {quiet:.1} |");
            }
        }
    }
}

/// Looks until any instance reports a condition, or none does. A frozen instance does not delay the others.
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

/// Whether an instance reports a condition; `None` if it does not answer.
async fn tells(instance: &mut Instance, condition: &str) -> Option<bool> {
    // Some conditions are noticed by reading, which takes longer while the store is silent.
    let read = instance.get("/admin/pulse/api/paths?window=5m");
    let _ = tokio::time::timeout(2 * LOOK, read).await;
    let health = instance.health().await?;
    let conditions = health["conditions"].as_array()?;
    Some(conditions.iter().any(|other| other == condition))
}
