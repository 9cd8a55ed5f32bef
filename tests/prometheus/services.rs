//! The scraped services: a demo with an incident, a demo whose store is killed, a demo that ends, a service with many
//! problems, a service that is shut down without its store, and a healthy service.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use http::StatusCode;
use pulse_rig::demo::{self, Demo};
use pulse_rig::server::RedisServer;
use tokio::net::TcpListener;
use tower_pulse::Pulse;
use tower_pulse::admin::Access;

/// The time within which the demo must have recorded its simulated past.
const PATIENCE: Duration = Duration::from_secs(600);

/// A job of Prometheus with one target.
pub struct Job {
    pub name: &'static str,
    pub address: SocketAddr,
    /// The parameters of its scrapes, in YAML.
    pub params: &'static str,
}

pub struct Services {
    shop: Demo,
    cut_off: Demo,
    store_of_cut_off: RedisServer,
    ended: Option<Demo>,
    ended_at: SocketAddr,
    broken: SocketAddr,
    store_of_broken: RedisServer,
    healthy: SocketAddr,
    lossy: SocketAddr,
    store_of_lossy: RedisServer,
    pulse_of_lossy: Pulse,
}

impl Services {
    pub async fn start() -> Self {
        let env = [("DEMO_HISTORY", "90m"), ("DEMO_INCIDENT", "errors")];
        let shop = Demo::start_within(PATIENCE, demo::built(), &[], &env).await;
        let store_of_cut_off = RedisServer::start().await;
        let env = [("REDIS_URL", &*store_of_cut_off.url())];
        let cut_off = Demo::start(demo::built(), &env).await;
        let ended = Demo::start(demo::built(), &[("DEMO_TRAFFIC", "off")]).await;

        let store_of_broken = RedisServer::start().await;
        let target = Duration::from_millis(100);
        let builder = || Pulse::builder().target_for("GET /", target, 0.99);
        let broken = builder().redis(store_of_broken.url()).max_contexts(2);
        let broken = serve(&broken.build().unwrap(), move |pulse, tick| {
            pulse.record("GET /", target / 2, StatusCode::BAD_GATEWAY);
            pulse.record("GET /slow", Duration::from_secs(2), StatusCode::OK);
            pulse.record(&format!("GET /raw/{tick}"), target, StatusCode::OK);
            pulse.counter("sales").add(1);
        })
        .await;
        let record_success = move |pulse: &Pulse, _| {
            pulse.record("GET /", target / 2, StatusCode::OK);
            pulse.counter("sales").add(1);
        };
        let healthy = serve(&builder().build().unwrap(), record_success).await;
        let store_of_lossy = RedisServer::start().await;
        let pulse_of_lossy = builder().redis(store_of_lossy.url()).build().unwrap();
        let lossy = serve(&pulse_of_lossy, record_success).await;
        Self {
            ended_at: ended.address(),
            broken,
            healthy,
            lossy,
            store_of_lossy,
            pulse_of_lossy,
            shop,
            cut_off,
            store_of_cut_off,
            ended: Some(ended),
            store_of_broken,
        }
    }

    /// The address of the demo with the incident.
    pub fn shop(&self) -> SocketAddr {
        self.shop.address()
    }

    pub fn jobs(&self) -> Vec<Job> {
        let job = |name, address, params| Job {
            name,
            address,
            params,
        };
        vec![
            job("shop", self.shop(), "{}"),
            job("otel", self.shop(), "{ names: [opentelemetry] }"),
            job("cut_off", self.cut_off.address(), "{}"),
            job("ended", self.ended_at, "{}"),
            job("broken", self.broken, "{}"),
            job("lossy", self.lossy, "{}"),
            job("healthy", self.healthy, "{}"),
        ]
    }

    /// Causes the problems that must begin after all services have been scraped.
    pub async fn cause_problems(&mut self) {
        self.store_of_cut_off.kill_9();
        self.ended = None;
        // The key of a counter gets a foreign value.
        let set = "SET pulse:count:3600:sales garbage";
        let () = self.store_of_broken.run(set).await;
        // A shutdown without a store loses the data that is not flushed, and returns an error.
        self.store_of_lossy.kill_9();
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(self.pulse_of_lossy.shutdown().await.is_err());
    }
}

/// Serves the admin router of `pulse`, and calls `record` ten times a second, until the process ends.
async fn serve(pulse: &Pulse, record: impl Fn(&Pulse, u64) + Send + 'static) -> SocketAddr {
    let app = Router::new().merge(pulse.mount("/admin/pulse", Access::open()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    let pulse = pulse.clone();
    tokio::spawn(async move {
        for tick in 0.. {
            record(&pulse, tick);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    address
}
