//! The instances, as child processes.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::order::{Life, instance_name};
use crate::rig::demo::Demo;
use crate::rig::http::Client;
use crate::service::{INSTANCE, LIFE, REDIS};
use crate::traffic::Traffic;

/// A life that was ended by SIGKILL.
#[derive(Debug)]
pub struct Kill {
    pub life: Life,
    /// Requests that were answered within the last interval before it.
    pub most: u64,
}

/// The counts of an instance's health that a fault may raise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HealthCounts {
    /// Samples that are lost or dropped.
    pub lost: u64,
    pub store_resets: u64,
    /// Calls that were replayed.
    pub replayed: u64,
    /// Calls that have failed.
    pub errors: u64,
}

impl HealthCounts {
    fn read(health: &Value) -> Self {
        let number = |pointer| health.pointer(pointer).and_then(Value::as_u64).unwrap();
        Self {
            lost: number("/flush/lost") + number("/recording/dropped"),
            store_resets: number("/flush/store_resets"),
            replayed: number("/flush/replayed"),
            errors: number("/flush/errors"),
        }
    }

    fn add(&mut self, other: &Self) {
        self.lost += other.lost;
        self.store_resets += other.store_resets;
        self.replayed += other.replayed;
        self.errors += other.errors;
    }
}

/// An instance with its clients.
#[derive(Debug)]
pub struct Instance {
    pub life: Life,
    pub began: Instant,
    pub process: Demo,
    pub traffic: Traffic,
    url: String,
    /// Those of the lives that have ended.
    earlier: HealthCounts,
    /// Those of this life, as of the last look.
    last: HealthCounts,
}

impl Instance {
    /// Starts an instance that reaches Redis at `url`, and its clients.
    pub async fn start(instance: usize, url: String, seed: u64) -> Self {
        let life = Life {
            instance,
            number: 1,
        };
        let process = process(life, &url).await;
        let traffic = Traffic::start(life, process.address(), seed);
        Self {
            life,
            began: Instant::now(),
            process,
            traffic,
            url,
            earlier: HealthCounts::default(),
            last: HealthCounts::default(),
        }
    }

    pub fn name(&self) -> String {
        instance_name(self.life.instance)
    }

    /// Kills the process and starts another.
    pub async fn kill_and_restart(&mut self, pause: Duration) -> Kill {
        let killed = Instant::now();
        self.process.kill_9();
        let most = self.traffic.note_kill(killed).await;
        let kill = Kill {
            life: self.life,
            most,
        };
        self.earlier.add(&std::mem::take(&mut self.last));
        tokio::time::sleep(pause).await;
        self.life.number += 1;
        self.process = process(self.life, &self.url).await;
        self.began = Instant::now();
        self.traffic.go_on(self.life, self.process.address());
        kill
    }

    /// What `path` answers as JSON; `None` if nothing comes within three seconds: an answer waits for a silent store for two.
    pub async fn get(&self, path: &str) -> Option<Value> {
        let answer = async {
            let mut client = Client::connect(self.process.address()).await;
            client.try_request("GET", path, &[], "").await.ok()
        };
        let answer = tokio::time::timeout(Duration::from_secs(3), answer).await;
        let answer = answer.ok().flatten()?;
        (answer.status == 200).then(|| answer.json())
    }

    /// Its health, if it answers.
    pub async fn health(&mut self) -> Option<Value> {
        let health = self.get("/admin/pulse/api/health").await?;
        self.last = HealthCounts::read(&health);
        Some(health)
    }

    /// The counts of all of its lives together, as of the last look at each.
    pub fn health_counts(&self) -> HealthCounts {
        let mut counts = self.earlier.clone();
        counts.add(&self.last);
        counts
    }

    /// Flushes until the store has everything. Returns the last error, if that takes a minute.
    pub async fn flush(&self) -> Result<(), String> {
        let start = Instant::now();
        let mut client = Client::connect(self.process.address()).await;
        loop {
            let answer = client.request("POST", "/flush", &[], "").await;
            if answer.status == 200 {
                return Ok(());
            }
            if start.elapsed() > Duration::from_secs(60) {
                return Err(answer.text());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// The last warnings and errors of its log.
    pub fn last_warnings(&self) -> Vec<String> {
        let log = self.process.stderr();
        let lines = log.lines().rev();
        let lines = lines.filter(|line| line.contains(" WARN ") || line.contains(" ERROR "));
        let mut lines: Vec<_> = lines.take(20).map(str::to_owned).collect();
        lines.reverse();
        lines
    }
}

async fn process(life: Life, url: &str) -> Demo {
    let binary = std::env::current_exe().unwrap();
    let (instance, number) = (life.instance.to_string(), life.number.to_string());
    let env = [(INSTANCE, &*instance), (LIFE, &*number), (REDIS, url)];
    Demo::start(binary, &env).await
}
