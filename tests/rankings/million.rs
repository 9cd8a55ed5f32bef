//! A million increments from eight tasks in two processes, against a plain model at every step.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::process::{self, INTERVAL, Process, SLICES, TASKS, additions};
use pulse_rig::proxy::{Proxy, Swallow};
use pulse_rig::seed::seed;
use pulse_rig::server::RedisServer;
use pulse_rig::wait::{PATIENCE, look_until};

const INCREMENTS: u64 = 1_000_000;
const STEPS: u64 = 24;
const START: i64 = 1_700_000_000;

/// The test, whose processes are the test once more.
const TEST: &str =
    "million::a_million_increments_of_two_processes_agree_with_a_plain_model_at_every_step";

/// The counts by interval and id.
#[derive(Default)]
struct Model(BTreeMap<i64, BTreeMap<String, i64>>);

impl Model {
    fn add(&mut self, second: i64, seed: u64, n: u64) {
        let width = INTERVAL as i64;
        let slice = self.0.entry(second / width * width).or_default();
        for (id, by) in (0..TASKS).flat_map(|task| additions(seed, task, n / TASKS)) {
            *slice.entry(id.to_string()).or_default() += by;
        }
    }

    fn remove(&mut self, id: &str) {
        for slice in self.0.values_mut() {
            slice.remove(id);
        }
    }

    /// All ids, highest first.
    fn top(&self, now: i64) -> Vec<(String, i64)> {
        let width = INTERVAL as i64;
        let oldest = now / width * width - (SLICES as i64 - 1) * width;
        let mut totals: BTreeMap<&str, i64> = BTreeMap::new();
        for (id, n) in self.0.range(oldest..).flat_map(|(_, slice)| slice) {
            *totals.entry(id).or_default() += n;
        }
        let mut top: Vec<_> = totals.into_iter().filter(|(_, n)| *n != 0).collect();
        top.sort_by(|(id, n), (other_id, other)| (other, other_id).cmp(&(n, id)));
        top.into_iter().map(|(id, n)| (id.to_owned(), n)).collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_million_increments_of_two_processes_agree_with_a_plain_model_at_every_step() {
    if let Some(url) = process::address() {
        return process::answer_commands(&url).await;
    }
    let start = Instant::now();
    let mut rng = fastrand::Rng::with_seed(seed());
    let server = RedisServer::start().await;
    let proxies = [
        Proxy::start(server.port()).await,
        Proxy::start(server.port()).await,
    ];
    let mut processes = proxies
        .each_ref()
        .map(|proxy| Process::start(TEST, &proxy.url(), START));
    let (mut model, mut now, mut cuts) = (Model::default(), START, 0);
    let n = INCREMENTS.div_ceil(2 * STEPS * TASKS) * TASKS;
    for step in 0..STEPS {
        now += match rng.u32(..10) {
            0 => rng.i64(0..3) * (INTERVAL * SLICES) as i64,
            1..5 => 0,
            _ => rng.i64(1..2 * INTERVAL as i64),
        };
        let seeds = [rng.u64(..), rng.u64(..)];
        // Each takes its own clock for the server's: what one adds more than an hour ahead of the other is refused.
        for process in &mut processes {
            assert_eq!(process.ask(&format!("time {now}")), "done");
        }
        for (process, seed) in processes.iter_mut().zip(seeds) {
            process.send(&format!("add {seed} {n}"));
            model.add(now, seed, n);
        }
        if rng.u32(..3) == 0 {
            proxies[rng.usize(..2)].swallow_replies(0.1, rng.u64(..), Swallow::Cut);
        }
        for _ in 0..rng.u32(..4) {
            proxies[rng.usize(..2)].cut();
            cuts += 1;
            tokio::time::sleep(Duration::from_millis(rng.u64(1..10))).await;
        }
        for process in &mut processes {
            assert_eq!(process.answer(), "done");
        }
        proxies.iter().for_each(Proxy::heal);
        if step == STEPS / 2 {
            // Another one takes its place, while its last additions are pending.
            let next = Process::start(TEST, &proxies[1].url(), now);
            std::mem::replace(&mut processes[1], next).shut_down();
        }
        processes
            .iter_mut()
            .for_each(|process| process.send("flush"));
        for process in &mut processes {
            assert_eq!(process.answer(), "done");
        }
        if rng.u32(..4) == 0 {
            let id = rng.u32(..20).to_string();
            processes[rng.usize(..2)].ask(&format!("remove {id}"));
            model.remove(&id);
        }
        let expected = model.top(now);
        if step == STEPS / 2 {
            // A shutdown has appended everything; another process folds it within a moment.
            look_until(PATIENCE, async || match processes[0].top() == expected {
                true => Ok(()),
                false => Err("some additions are missing".to_owned()),
            })
            .await;
        }
        for process in &mut processes {
            assert_eq!(process.top(), expected, "step {step}, {now}");
        }
    }
    for process in processes {
        process.shut_down();
    }
    let swallowed: u64 = proxies.iter().map(Proxy::swallowed).sum();
    eprintln!(
        "{cuts} cuts, {swallowed} lost replies, {:?}",
        start.elapsed()
    );
    assert!(cuts > 0);
}
