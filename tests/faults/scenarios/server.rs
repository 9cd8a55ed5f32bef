//! The server is killed, or replaced by its replica, in the middle of a round.

use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;

use super::{DELAY, Report, keys, until_in_a_round};
use crate::faults::service::{PAGES, Service, Stored};
use crate::rig::proxy::Proxy;
use crate::rig::server::{RedisServer, issue};
use crate::rig::wait::until;

/// The builder of a service with small steps, so that a round has several steps even on a fast server.
fn stepwise(url: &str) -> tower_pulse::Builder {
    crate::faults::service::builder(url).fold_step_contexts(8)
}

/// Kills the server until `kills` kills were in the middle of a round, according to the server's files.
pub async fn servers_killed(kills: u64, seed: u64) -> Report {
    let server = RedisServer::start_durable().await;
    let proxy = Proxy::start(server.port()).await;
    proxy.delay(DELAY);
    let service = Service::new(stepwise(&proxy.url()));
    let load = service.load(seed);
    let (mut in_rounds, mut all) = (0, 0);
    while in_rounds < kills {
        assert!(
            all < 5 * kills + 20,
            "{in_rounds} of {all} kills in a round"
        );
        until_in_a_round(&mut server.connection().await).await;
        server.kill_9();
        // No other client writes before the files are read.
        proxy.refuse(true);
        proxy.cut();
        server.restart().await;
        let conn = &mut server.connection().await;
        in_rounds += u64::from(keys().is_in_a_round(conn).await);
        all += 1;
        let folded = keys().folded(conn).await;
        proxy.refuse(false);
        let continues = async || keys().folded(&mut conn.clone()).await > folded;
        until("folding continues", continues).await;
    }
    load.stop().await;
    let mut report = Report::at_the_end(&service, &server).await;
    let resets = service.health().flush.store_resets;
    report.fault_if(resets > 0, format!("{resets} resets"));
    report.done = format!("{all} x kill -9, appendfsync always, {in_rounds} of them in a round");
    report
}

async fn replicate(conn: &mut MultiplexedConnection, host: &str, port: &str) {
    let () = issue(conn, "REPLICAOF", (host, port)).await;
}

async fn until_linked(replica: &RedisServer) {
    let is_linked = async || replica.info("replication").await["master_link_status"] == "up";
    until("the replica is connected to its primary", is_linked).await;
}

/// A primary, and a replica that is promoted after a fault.
struct Pair {
    primary: RedisServer,
    replica: RedisServer,
    conn: MultiplexedConnection,
    /// A proxy in front of the primary.
    proxy: Proxy,
}

impl Pair {
    async fn start() -> Self {
        let primary = RedisServer::start().await;
        let replica = RedisServer::builder().replica_of(primary.port());
        let replica = replica.start().await;
        until_linked(&replica).await;
        let proxy = Proxy::start(primary.port()).await;
        proxy.delay(DELAY);
        Self {
            conn: replica.connection().await,
            primary,
            replica,
            proxy,
        }
    }

    /// Ends replication: no server listens on port 1, and the replica keeps its data.
    async fn cut(&mut self) {
        replicate(&mut self.conn, "127.0.0.1", "1").await;
    }

    /// Ends replication in the middle of a round.
    async fn cut_in_a_round(&mut self) {
        let primary = &mut self.primary.connection().await;
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            until_in_a_round(primary).await;
            self.cut().await;
            if keys().is_in_a_round(&mut self.conn).await {
                return;
            }
            assert!(Instant::now() < end, "the replica was never in a round");
            let port = self.primary.port().to_string();
            replicate(&mut self.conn, "127.0.0.1", &port).await;
            until_linked(&self.replica).await;
        }
    }

    async fn until_replicated(&self) {
        let are_replicated = async || Stored::read(&mut self.conn.clone()).await.total() > 0;
        until("some requests are replicated", are_replicated).await;
    }

    /// Kills the primary in the middle of a round, and promotes the replica.
    async fn fail_over(&mut self, service: &Service) {
        until_in_a_round(&mut self.primary.connection().await).await;
        self.primary.kill_9();
        self.proxy.set_upstream(self.replica.port());
        // For a moment, the proxy leads to a replica that refuses writes.
        until("the service reports the refusal", async || {
            let error = service.health().store.last_error.unwrap_or_default();
            error.contains("READONLY")
        })
        .await;
        replicate(&mut self.conn, "NO", "ONE").await;
    }
}

/// A failover under load. The replica lacks the calls after the end of replication.
async fn failover_under_load(seed: u64) -> Report {
    let mut pair = Pair::start().await;
    let service = Service::new(stepwise(&pair.proxy.url()));
    let load = service.load(seed);
    pair.until_replicated().await;
    pair.cut_in_a_round().await;
    let primary = &pair.primary.connection().await;
    let folded = keys().folded(&mut primary.clone()).await;
    let are_many = async || keys().folded(&mut primary.clone()).await > folded + 20_000;
    until("only the primary has many entries", are_many).await;
    pair.fail_over(&service).await;
    let are_sent = async || service.health().flush.replayed > 0;
    until("calls are sent again", are_sent).await;
    load.stop().await;
    let mut report = Report::at_the_end(&service, &pair.replica).await;
    let flush = service.health().flush;
    let is_wrong = flush.replayed == 0 || flush.store_resets > 0;
    report.fault_if(is_wrong, format!("not a failover: {flush:?}"));
    report
}

/// A failover right after an instance's first call, which the replica lacks. If `is_known`, the replica has the
/// generation from another instance, else no data.
async fn failover_after_the_first_call(is_known: bool) -> Report {
    let mut pair = Pair::start().await;
    let first = Service::new(stepwise(&pair.proxy.url()));
    if is_known {
        first.requests(PAGES).await;
        first.settle().await;
        pair.until_replicated().await;
    }
    pair.cut().await;
    let service = first.join(stepwise(&pair.proxy.url()));
    service.requests(2 * PAGES).await;
    pair.fail_over(&service).await;
    let mut report = Report::at_the_end(&service, &pair.replica).await;
    let flush = service.health().flush;
    let is_wrong = flush.replayed == 0 || (flush.store_resets > 0) == is_known;
    report.fault_if(is_wrong, format!("not as expected: {flush:?}"));
    report.add_shutdown(first.pulse.shutdown().await);
    report
}

/// Failovers in the middle of a round, two of them right after an instance's first call.
pub async fn failovers(times: u64, seed: u64) -> Report {
    let mut all = Report::default();
    for is_known in [false, true] {
        all.add(failover_after_the_first_call(is_known).await);
    }
    for n in 2..times {
        all.add(failover_under_load(seed ^ n).await);
    }
    all.done =
        format!("{times} primaries lost in a round, two right after an instance's first call");
    all
}
