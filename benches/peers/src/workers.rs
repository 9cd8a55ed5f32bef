//! The throughput of two worker threads, which is lower if the threads share data.

use std::time::Instant;

use axum::Router;
use http::Uri;
use tokio::runtime::{Builder, Runtime};

use crate::Failure;
use crate::driver::{ROUTES, process_nanos, send, uris};
use crate::options::Options;
use crate::rows::{App, Row};

const TASKS: usize = 16;
/// The requests of a task between two yields.
const BURST: usize = 100;

#[derive(Debug)]
pub(crate) struct Throughput {
    pub(crate) id: &'static str,
    /// With all requests on the same path, by round.
    pub(crate) same: Vec<Rate>,
    /// With requests on all paths, by round.
    pub(crate) all: Vec<Rate>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    /// Requests per second.
    pub(crate) wall: f64,
    /// Requests per second of this process's CPU time. CPU time excludes the work of other processes, and the time for
    /// which threads wait for each other.
    pub(crate) cpu: f64,
}

pub(crate) fn throughput(
    apps: &[(&'static Row, App)],
    options: &Options,
) -> Result<Vec<Throughput>, Failure> {
    let workers = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let mut rows: Vec<_> = apps
        .iter()
        .map(|(row, _)| Throughput {
            id: row.id,
            same: Vec::new(),
            all: Vec::new(),
        })
        .collect();
    let (one, all) = (uris(1), uris(ROUTES));
    let bursts = (10 * options.requests / TASKS / BURST).max(1);
    let mut order: Vec<usize> = (0..apps.len()).collect();
    for _ in 0..options.long_rounds {
        fastrand::shuffle(&mut order);
        for &at in &order {
            let app = &apps[at].1.router;
            run(&workers, app, &one, 1);
            rows[at].same.push(run(&workers, app, &one, bursts));
            rows[at].all.push(run(&workers, app, &all, bursts));
        }
    }
    Ok(rows)
}

/// The speed of all tasks together. The tasks share one Router, as connections do.
fn run(workers: &Runtime, app: &Router, uris: &[Uri], bursts: usize) -> Rate {
    let (start, used) = (Instant::now(), process_nanos());
    workers.block_on(async {
        let tasks: Vec<_> = (0..TASKS)
            .map(|_| {
                let (mut app, uris) = (app.clone(), uris.to_vec());
                tokio::spawn(async move {
                    for _ in 0..bursts {
                        send(&mut app, &uris, BURST).await;
                        tokio::task::yield_now().await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("no task panics");
        }
    });
    let seconds = start.elapsed().as_secs_f64();
    let requests = (TASKS * bursts * BURST) as f64;
    Rate {
        wall: requests / seconds,
        cpu: requests / (process_nanos() - used) as f64 * 1e9,
    }
}
