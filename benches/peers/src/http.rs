//! The requests per second over loopback. Each row has a server, which is pinned to one core; wrk runs on another core.
//! A second bare server shows the difference between two equal servers.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::Failure;
use crate::driver::{ROUTES, Runtimes, uris};
use crate::options::Options;
use crate::rows::{self, App, BARE, Row};
use crate::stats::Median;

const CONNECTIONS: usize = 16;
/// The name of the second bare server.
pub(crate) const CONTROL: &str = "bare again (A/A)";

#[derive(Debug)]
pub(crate) struct Loopback {
    /// The row's id, or [`CONTROL`].
    pub(crate) id: &'static str,
    /// Requests per second, by round.
    pub(crate) rates: Vec<f64>,
}

struct Server {
    process: Child,
    port: u16,
}

impl Server {
    fn start(id: &str) -> Result<Self, Failure> {
        let mut process = Command::new("taskset")
            .args(["-c", "0"])
            .arg(std::env::current_exe()?)
            .args(["--serve", id])
            // The server ends when this pipe closes.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut port = String::new();
        if let Some(stdout) = process.stdout.take() {
            BufReader::new(stdout).read_line(&mut port)?;
        }
        let port = port.trim().parse();
        let port = port.map_err(|_| format!("the server of `{id}` did not start"))?;
        Ok(Self { process, port })
    }

    fn rate(&self, script: &PathBuf, seconds: usize) -> Result<f64, Failure> {
        let output = Command::new("taskset")
            .args(["-c", "1", "wrk", "-t1"])
            .args([format!("-c{CONNECTIONS}"), format!("-d{seconds}s")])
            .arg("-s")
            .arg(script)
            .arg(format!("http://127.0.0.1:{}/", self.port))
            .output()?;
        let report = String::from_utf8_lossy(&output.stdout);
        if report.contains("Non-2xx") || report.contains("Socket errors") {
            return Err(format!("wrk reports errors: {report}").into());
        }
        let rate = report
            .lines()
            .find_map(|line| line.strip_prefix("Requests/sec:"));
        let rate = rate.and_then(|rate| rate.trim().parse().ok());
        rate.ok_or_else(|| format!("wrk printed no rate: {report}").into())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

pub(crate) fn loopback(
    apps: &[(&'static Row, App)],
    options: &Options,
) -> Result<Vec<Loopback>, Failure> {
    if std::thread::available_parallelism()?.get() < 2 {
        return Err(
            "Nothing is measured over loopback: server and client need a core each.".into(),
        );
    }
    for tool in ["wrk", "taskset"] {
        if Command::new(tool).arg("--version").output().is_err() {
            return Err(format!("Nothing is measured over loopback: {tool} is missing.").into());
        }
    }
    let script = std::env::temp_dir().join(format!("pulse-peers-{}.lua", std::process::id()));
    std::fs::File::create(&script)?.write_all(wrk_script().as_bytes())?;
    let rows = rounds(apps, options, &script);
    let _ = std::fs::remove_file(&script);
    rows
}

fn rounds(
    apps: &[(&'static Row, App)],
    options: &Options,
    script: &PathBuf,
) -> Result<Vec<Loopback>, Failure> {
    let ids = apps.iter().map(|(row, _)| row.id).chain([CONTROL]);
    let mut servers = Vec::new();
    for id in ids {
        let row = if id == CONTROL { BARE } else { id };
        let rates = Vec::new();
        servers.push((Server::start(row)?, Loopback { id, rates }));
    }
    for _ in 0..options.http_rounds {
        fastrand::shuffle(&mut servers);
        for (server, row) in &mut servers {
            row.rates.push(server.rate(script, options.http_seconds)?);
        }
    }
    Ok(servers.into_iter().map(|(_, row)| row).collect())
}

/// A script for wrk that requests all paths, one after another.
fn wrk_script() -> String {
    let paths = uris(ROUTES)
        .iter()
        .map(|uri| format!("wrk.format('GET', '{uri}')"))
        .collect::<Vec<_>>();
    format!(
        "local requests, n = nil, 0\n\
         init = function() requests = {{{}}} end\n\
         request = function() n = n % {ROUTES} + 1 return requests[n] end\n",
        paths.join(", ")
    )
}

/// A row's requests per second, as a fraction of the bare server's in the same round.
pub(crate) fn fraction(rows: &[Loopback], id: &str) -> Option<Median> {
    let find = |id: &str| rows.iter().find(|row| row.id == id);
    let (row, bare) = (find(id)?, find(BARE)?);
    let pairs = row.rates.iter().zip(&bare.rates);
    Some(Median::of(pairs.map(|(row, bare)| row / bare)))
}

/// Runs the server of a row until standard input ends.
pub(crate) fn child(runtimes: &Runtimes, id: &str) -> Result<(), Failure> {
    let row = rows::ROWS.iter().find(|row| row.id == id);
    let app = rows::build(row.ok_or("no such row")?, runtimes)?;
    runtimes.run_requests(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", listener.local_addr()?.port());
        let (sender, input_ended) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
            let _ = sender.send(());
        });
        let served = axum::serve(listener, app.router.clone());
        tokio::select! {
            result = async { served.await } => result?,
            _ = input_ended => {}
        }
        Ok(())
    })
}
