//! The example program of a dashboard, as a process of its own.

use std::time::Duration;

use crate::dashboard::fleet::Fleet;
use crate::rig::demo::{Demo, built_example};
use crate::rig::http::Client;
use crate::rig::wait::PATIENCE;

#[tokio::test]
async fn the_example_shows_a_store_to_callers_with_the_token() {
    let fleet = Fleet::new().await;
    let instance = fleet.instance("web-1");
    instance.record("GET /a", Duration::from_millis(7), http::StatusCode::OK);
    fleet.flush(&[instance]).await;
    let before = fleet.values().await;
    let env = [
        ("REDIS_URL", &*fleet.server.url()),
        ("PULSE_TOKEN", "secret"),
        ("PULSE_PATH", "/board"),
    ];
    let example = Demo::start(built_example("dashboard"), &env).await;
    let mut client = Client::connect(example.address()).await;
    assert_eq!(client.get("/board/api/health").await.status, 401);
    let token = ("authorization", "Bearer secret");
    let mut get = async |path: &str| client.request("GET", path, &[token], "").await;
    assert_eq!(get("/board").await.status, 200);
    let health = get("/board/api/health").await.json();
    assert!(health["instance"].is_null() && health["status"] == "ok");
    let slowest = get("/board/api/slowest").await.json();
    assert_eq!(slowest["slowest"][0]["context"], "GET /a");
    assert_eq!(fleet.values().await, before);
    example.signal("TERM");
    let exit = example.wait_exit(PATIENCE).await.unwrap();
    assert!(exit.success(), "{}", example.stderr());
}
