//! The Redis user of a dashboard needs no permission to write. An error names the missing permissions to read.

use std::time::Duration;

use http::StatusCode;

use crate::dashboard::fleet::{Fleet, json, send};

#[tokio::test]
async fn a_user_without_permission_to_write_sees_all() {
    let fleet = Fleet::new().await;
    let instance = fleet.instance("web-1");
    instance.record("GET /a", Duration::from_millis(7), StatusCode::OK);
    fleet.flush(&[instance]).await;
    let permit = async |rules: &str| {
        let user = format!("ACL SETUSER reader on >secret ~pulse:* {rules}");
        let () = fleet.server.run(&user).await;
    };
    permit("+@read +info +select -hscan").await;
    let url = format!("redis://reader:secret@127.0.0.1:{}/", fleet.server.port());
    let dashboard = fleet.builder_at(url).build().unwrap();
    let app = dashboard.mount("/pulse", tower_pulse::admin::Access::open());
    let (status, body) = send(&app, "GET", "api/overview").await;
    assert_eq!(status, 503, "{body}");
    let rule = body.split("ACL SETUSER reader").nth(1).unwrap();
    for (command, is_needed) in [
        ("+hscan", true),
        ("+hgetall", true),
        ("+set ", false),
        ("+hset", false),
        ("+eval", false),
    ] {
        assert_eq!(rule.contains(command), is_needed, "{body}");
    }
    // Grants exactly the permissions in the rule of the error.
    let words = rule.split(['"', ' ']).filter(|word| word.starts_with('+'));
    permit(&format!("-@all {}", words.collect::<Vec<_>>().join(" "))).await;
    fleet.expire_answers();
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
