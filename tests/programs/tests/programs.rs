//! The programs of README and of the guide exit successfully after a signal, even if the store is not available.
#![allow(clippy::unwrap_used, missing_docs)]

use pulse_rig::demo::Demo;
use pulse_rig::http::Client;
use pulse_rig::process::free_port;
use pulse_rig::server::RedisServer;
use pulse_rig::wait::{PATIENCE, until};

async fn end(program: &Demo, signal: &str) -> String {
    program.signal(signal);
    let status = program.wait_exit(PATIENCE).await;
    let status = status.expect("the program exits");
    let stderr = program.stderr();
    assert!(status.success(), "SIG{signal}: {status}: {stderr}");
    stderr
}

/// Asserts that a program reports in one line how many samples it lost, and why.
fn assert_reports_loss(stderr: &str, why: &str) {
    let is_reported = stderr.starts_with("tower-pulse: 1 sample")
        && stderr.contains("could not be flushed before the shutdown: ")
        && stderr.contains(why);
    assert!(is_reported && stderr.lines().count() == 1, "{stderr}");
}

#[tokio::test]
async fn readme_exits_successfully_without_its_file() {
    let env = [("PULSE_FILE", "/no/such/directory/pulse.redb")];
    let program = Demo::start(env!("CARGO_BIN_EXE_readme"), &env).await;
    let mut client = Client::connect(program.address()).await;
    assert_eq!(client.get("/users/7").await.text(), "a user");
    let why =
        "/no/such/directory/pulse.redb cannot be written: its directory does not exist: create it";
    assert_reports_loss(&end(&program, "INT").await, why);
}

async fn deployed(redis: &str) -> Demo {
    let env = [
        ("REDIS_URL", redis),
        ("POD_NAME", "shop-1"),
        ("PULSE_TOKEN", "a long token for a test"),
    ];
    Demo::start(env!("CARGO_BIN_EXE_deploying"), &env).await
}

#[tokio::test]
async fn a_deployed_service_exits_successfully_without_redis() {
    for signal in ["TERM", "INT"] {
        let away = format!("127.0.0.1:{}", free_port());
        let program = deployed(&format!("redis://{away}/")).await;
        let mut client = Client::connect(program.address()).await;
        // Probes are not recorded.
        for path in ["/healthz", "/readyz", "/"] {
            assert_eq!(client.get(path).await.status, 200);
        }
        assert_reports_loss(&end(&program, signal).await, &away);
    }
}

#[tokio::test]
async fn a_deployed_service_flushes_and_exits_although_a_request_never_ends() {
    let redis = RedisServer::start().await;
    let program = deployed(&redis.url()).await;
    let address = program.address();
    let open = tokio::spawn(async move {
        let mut client = Client::connect(address).await;
        let _ = client.try_request("GET", "/endless", &[], "").await;
    });
    let mut client = Client::connect(address).await;
    let login = [("authorization", "Bearer a long token for a test")];
    until("the request is open", async || {
        let path = "/admin/pulse/api/health";
        let health = client.request("GET", path, &login, "").await.text();
        assert!(health.contains("\"instance\":\"shop-1\""), "{health}");
        health.contains("\"in_flight\":1")
    })
    .await;
    client.get("/").await;
    assert_eq!(end(&program, "TERM").await, "");
    open.await.unwrap();

    // The next process shows the request that the first process has flushed.
    let next = deployed(&redis.url()).await;
    let mut client = Client::connect(next.address()).await;
    until("the request is shown", async || {
        let path = "/admin/pulse/api/paths?window=1h";
        let paths = client.request("GET", path, &login, "").await.text();
        assert!(!paths.contains("endless"), "{paths}");
        paths.contains("\"context\":\"GET /\"")
    })
    .await;
    assert_eq!(end(&next, "TERM").await, "");
}
