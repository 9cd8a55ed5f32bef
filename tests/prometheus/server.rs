//! A separate Prometheus on a free port, with the rules and alerts of `docs/prometheus`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use pulse_rig::http::Client;
use pulse_rig::process::{Leashed, TempDir, free_port};
use pulse_rig::wait::until_within;
use serde_json::Value;

use super::services::Job;

pub fn docs(name: &str) -> String {
    format!("{}/docs/prometheus/{name}", env!("CARGO_MANIFEST_DIR"))
}

pub fn promtool(args: &[&str]) {
    let ran = Command::new(binary("PROMTOOL", "promtool"))
        .args(args)
        .output();
    let ran = ran.expect("cannot run promtool: set PROMTOOL to its path");
    let stderr = String::from_utf8_lossy(&ran.stderr);
    let stdout = String::from_utf8_lossy(&ran.stdout);
    assert!(
        ran.status.success(),
        "promtool {args:?}:\n{stdout}\n{stderr}"
    );
    println!("promtool {} {}: as expected", args[0], args[1]);
}

fn binary(variable: &str, name: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| name.to_owned())
}

pub struct Prometheus {
    address: SocketAddr,
    // Dropped before `_dir`, so that the process is gone when its directory is removed.
    _process: Leashed,
    _dir: TempDir,
}

impl Prometheus {
    /// Starts a Prometheus that scrapes these jobs each second.
    pub async fn start(jobs: &[Job]) -> Self {
        let dir = TempDir::new("prometheus");
        let file = |name: &str| dir.path().join(name);
        let mut config =
            "global: { scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s }\n\
                          rule_files: [rules.yml, alerts.yml]\nscrape_configs:\n"
                .to_owned();
        for Job {
            name,
            address,
            params,
        } in jobs
        {
            writeln!(
                config,
                "  - {{ job_name: {name}, metrics_path: /admin/pulse/metrics, params: {params}, \
                 static_configs: [{{ targets: [\"{address}\"] }}] }}"
            )
            .unwrap();
        }
        std::fs::write(file("prometheus.yml"), config).unwrap();
        std::fs::copy(docs("rules.yml"), file("rules.yml")).unwrap();
        let alerts = std::fs::read_to_string(docs("alerts.yml")).unwrap();
        let sooner = alerts
            .lines()
            .map(|line| match line.trim().starts_with("for: ") {
                true => "        for: 2s\n".to_owned(),
                false => format!("{line}\n"),
            });
        std::fs::write(file("alerts.yml"), sooner.collect::<String>()).unwrap();

        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let output = std::fs::File::create(file("output")).unwrap();
        let mut command = Command::new(binary("PROMETHEUS", "prometheus"));
        command
            .current_dir(dir.path())
            .arg("--config.file=prometheus.yml")
            .arg("--storage.tsdb.path=data")
            .arg("--enable-feature=exemplar-storage")
            .arg(format!("--web.listen-address={address}"))
            .stdout(output.try_clone().unwrap())
            .stderr(output);
        let process = Leashed::spawn(&mut command, dir.path());
        let process = process.expect("cannot run prometheus: set PROMETHEUS to its path");
        let prometheus = Self {
            address,
            _process: process,
            _dir: dir,
        };
        until_within(Duration::from_secs(60), "Prometheus is ready", async || {
            let open = std::net::TcpStream::connect(address).is_ok();
            open && Client::connect(address).await.get("/-/ready").await.status == 200
        })
        .await;
        prometheus
    }

    async fn data(&self, path: &str) -> Value {
        let mut client = Client::connect(self.address).await;
        client.json(path).await["data"].take()
    }

    /// The value of an expression whose result is one sample.
    pub async fn value(&self, query: &str) -> Option<f64> {
        let data = self
            .data(&format!("/api/v1/query?query={}", encoded(query)))
            .await;
        data["result"][0]["value"][1].as_str()?.parse().ok()
    }

    /// The alerts that fire, each with its job.
    pub async fn firing(&self) -> BTreeSet<(String, String)> {
        let alerts = self.data("/api/v1/alerts").await;
        let alerts = alerts["alerts"].as_array().unwrap().iter();
        let firing = alerts.filter(|alert| alert["state"] == "firing");
        let label = |alert: &Value, name: &str| alert["labels"][name].as_str().unwrap().to_owned();
        firing
            .map(|alert| (label(alert, "alertname"), label(alert, "job")))
            .collect()
    }

    /// The exemplars of the last hour, by the labels of their series.
    pub async fn exemplars(&self, query: &str) -> Vec<(Value, Vec<Value>)> {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now = now.unwrap().as_secs();
        let query = encoded(query);
        let range = format!("start={}&end={}", now - 3_600, now + 60);
        let data = self
            .data(&format!("/api/v1/query_exemplars?query={query}&{range}"))
            .await;
        let series = data.as_array().unwrap().iter();
        let labels_and_exemplars = |series: &Value| {
            let exemplars = series["exemplars"].as_array().unwrap().clone();
            (series["seriesLabels"].clone(), exemplars)
        };
        series.map(labels_and_exemplars).collect()
    }
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}
