//! The Redis user of a dashboard needs no permission to write, and is told which it needs to read.

use http::StatusCode;
use redis::cmd;

use crate::fleet::{Fleet, json, send};

#[tokio::test]
async fn a_user_that_may_not_write_sees_all() {
    let fleet = Fleet::new().await;
    let instance = fleet.instance("web-1");
    instance.record(
        "GET /a",
        std::time::Duration::from_millis(7),
        StatusCode::OK,
    );
    fleet.flush(&[instance]).await;
    let mut connection = fleet.server.connection().await;
    let mut permit = async |rules: &[&str]| {
        let mut user = cmd("ACL");
        user.arg("SETUSER")
            .arg("reader")
            .arg("on")
            .arg(">secret")
            .arg("~pulse:*");
        user.arg(rules).exec_async(&mut connection).await.unwrap();
    };
    permit(&["+@read", "+info", "+select", "-hscan"]).await;
    let url = format!("redis://reader:secret@127.0.0.1:{}/", fleet.server.port());
    let dashboard = fleet.builder_at(url).build().unwrap();
    let app = dashboard.mount("/pulse", tower_pulse::admin::Access::open());
    let (status, body) = send(&app, "GET", "api/overview").await;
    assert_eq!(status, 503, "{body}");
    let rule = body.split("ACL SETUSER reader").nth(1).unwrap();
    assert!(
        rule.contains("+hscan") && rule.contains("+hgetall"),
        "{body}"
    );
    assert!(
        !rule.contains("+set ") && !rule.contains("+hset") && !rule.contains("+eval"),
        "{body}"
    );
    // As the rule says.
    permit(&["-@all"]).await;
    let words: Vec<_> = rule
        .split(['"', ' '])
        .filter(|word| word.starts_with('+'))
        .collect();
    permit(&words).await;
    fleet.look_again();
    assert_eq!(json(&app, "api/overview").await["hour"]["requests"], 1);
    for path in [
        "api/paths?window=1h&series=p95",
        "api/counters",
        "api/rankings",
        "api/slowest",
        "api/changes",
        "api/marks",
        "api/instances",
    ] {
        assert_eq!(send(&app, "GET", path).await.0, StatusCode::OK, "{path}");
    }
}
