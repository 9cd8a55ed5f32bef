//! The time until an instance reports a condition, and the time until no instance does.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures_util::future::{join_all, select_all};

use super::fault::Site;
use super::fleet::Instance;
use crate::faults::denials::SERVER_FAULTS;

/// A condition must be reported within 10 s of its fault's start, and must end within 10 s of the fault's end. Reading
/// the health may take 0.5 s more.
const LIMIT: Duration = Duration::from_millis(10_500);
/// The longest wait for a condition.
const PATIENCE: Duration = Duration::from_secs(30);
/// The pause between two reads of the health.
const PAUSE: Duration = Duration::from_millis(250);

/// The conditions that are not in [`SERVER_FAULTS`].
const OTHERS: [&str; 3] = ["unreachable", "silent_instance", "replaced_key"];

pub fn conditions() -> Vec<&'static str> {
    let server = SERVER_FAULTS.iter().map(|fault| fault.0);
    server.chain(OTHERS).collect()
}

/// Begins or ends the fault of a condition. If the condition is about an instance, the fault affects `instance`.
pub async fn set(condition: &str, begins: bool, site: &Site, instance: usize) {
    let process = &site.fleet[instance].process;
    match condition {
        "unreachable" if begins => site.server.freeze(),
        "unreachable" => site.server.thaw(),
        "silent_instance" if begins => process.freeze(),
        "silent_instance" => process.thaw(),
        "replaced_key" if begins => site.server.run("SET pulse:pulse:instances x").await,
        // Nothing to do: the instances replace the key.
        "replaced_key" => {}
        _ => {
            let fault = SERVER_FAULTS.iter().find(|fault| fault.0 == condition);
            site.server.run(&fault.unwrap().command(begins)).await
        }
    }
}

/// For each fault of a condition, two durations in seconds: from the fault's start until the condition was reported,
/// and from the fault's end until the condition ended.
#[derive(Debug, Default)]
pub struct Reported(BTreeMap<&'static str, Vec<(f64, f64)>>);

impl Reported {
    /// Causes the fault of a condition until an instance reports the condition, and then waits until none does. Returns
    /// a message if one of the two took too long.
    pub async fn inflict(&mut self, condition: &'static str, site: &mut Site) -> Option<String> {
        set(condition, true, site, 2).await;
        let reported = time_until(site, condition, true).await;
        set(condition, false, site, 2).await;
        let ended = time_until(site, condition, false).await;
        let times = (reported.as_secs_f64(), ended.as_secs_f64());
        self.0.entry(condition).or_default().push(times);
        (reported > LIMIT || ended > LIMIT).then(|| {
            let (reported, ended) = times;
            format!(
                "{condition} was reported {reported:.1} s after its fault began, and until {ended:.1} s after the \
                 fault ended"
            )
        })
    }

    pub fn print(&self) {
        println!("\n| Condition | Reported after, in s | Ended after, in s |\n|---|---|---|");
        for (condition, times) in &self.0 {
            for (reported, ended) in times {
                println!("| `{condition}` | {reported:.1} | {ended:.1} |");
            }
        }
    }
}

/// Waits until any instance reports a condition, or until none does if `is_reported` is false. Returns the time that
/// this took, at most [`PATIENCE`]. A frozen instance does not delay the reads of the others.
async fn time_until(site: &mut Site, condition: &str, is_reported: bool) -> Duration {
    let start = Instant::now();
    let instances = site.fleet.iter_mut().map(|instance| {
        Box::pin(async move {
            while reports(instance, condition).await.unwrap_or(false) != is_reported {
                tokio::time::sleep(PAUSE).await;
            }
        })
    });
    let looks = async {
        if is_reported {
            select_all(instances).await;
        } else {
            join_all(instances).await;
        }
    };
    let _ = tokio::time::timeout(PATIENCE, looks).await;
    start.elapsed()
}

/// Whether an instance reports a condition; `None` if it does not answer.
async fn reports(instance: &mut Instance, condition: &str) -> Option<bool> {
    // An instance notices some conditions only by reading. While the store is silent, a read exceeds this timeout.
    let read = instance.get("/admin/pulse/api/paths?window=5m");
    let _ = tokio::time::timeout(2 * PAUSE, read).await;
    let health = instance.health().await?;
    let conditions = health["conditions"].as_array()?;
    Some(conditions.iter().any(|other| other == condition))
}
