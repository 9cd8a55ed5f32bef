//! The instances, as child processes.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::order::Life;
use super::service::{INSTANCE, LIFE, REDIS};
use super::traffic::Traffic;
use crate::rig::demo::Demo;
use crate::rig::http::Client;
use crate::rig::wait::look_until;

#[derive(Debug)]
pub struct Instance {
    pub life: Life,
    pub began: Instant,
    pub process: Demo,
    pub traffic: Traffic,
    /// A loss, a reset or dropped samples that health has reported. Each of these fails the run.
    pub loss: Option<String>,
    url: String,
}

impl Instance {
    pub async fn start(instance: usize, url: String, seed: u64) -> Self {
        let life = Life {
            instance,
            number: 1,
        };
        let process = start_process(life, &url).await;
        let traffic = Traffic::start(life, process.address(), seed);
        Self {
            life,
            began: Instant::now(),
            process,
            traffic,
            loss: None,
            url,
        }
    }

    /// Kills the process, and starts a new one after `pause`.
    pub async fn kill_and_restart(&mut self, pause: Duration) {
        let killed = Instant::now();
        self.process.kill_9();
        self.traffic.note_kill(killed).await;
        tokio::time::sleep(pause).await;
        self.life.number += 1;
        self.process = start_process(self.life, &self.url).await;
        self.began = Instant::now();
        let address = self.process.address();
        self.traffic.reconnect(self.life, address);
    }

    /// The JSON answer of `path`. `None` if the answer is an error, or takes more than three seconds. While the store
    /// is silent, an answer takes two seconds.
    pub async fn get(&self, path: &str) -> Option<Value> {
        let answer = async {
            let mut client = Client::connect(self.process.address()).await;
            client.try_request("GET", path, &[], "").await.ok()
        };
        let answer = tokio::time::timeout(Duration::from_secs(3), answer).await;
        let answer = answer.ok().flatten()?;
        (answer.status == 200).then(|| answer.json())
    }

    pub async fn health(&mut self) -> Option<Value> {
        let health = self.get("/admin/pulse/api/health").await?;
        let pointers = ["/flush/lost", "/flush/store_resets", "/recording/dropped"];
        for pointer in pointers {
            let n = health.pointer(pointer).and_then(Value::as_u64);
            if n != Some(0) {
                self.loss = Some(format!("{} reports {pointer}: {n:?}", self.life.name()));
            }
        }
        Some(health)
    }

    /// Flushes until the store has all samples.
    pub async fn flush(&self) {
        let mut client = Client::connect(self.process.address()).await;
        look_until(Duration::from_secs(60), async || {
            let answer = client.request("POST", "/flush", &[], "").await;
            let flushed = (answer.status == 200).then_some(());
            flushed.ok_or_else(|| answer.text())
        })
        .await;
    }

    pub fn last_warnings(&self) -> Vec<String> {
        let log = self.process.stderr();
        let lines = log.lines().rev();
        let lines = lines.filter(|line| line.contains(" WARN ") || line.contains(" ERROR "));
        lines.take(20).map(str::to_owned).collect()
    }
}

async fn start_process(life: Life, url: &str) -> Demo {
    let binary = std::env::current_exe().unwrap();
    let (instance, number) = (life.instance.to_string(), life.number.to_string());
    let env = [(INSTANCE, &*instance), (LIFE, &*number), (REDIS, url)];
    Demo::start(binary, &env).await
}
