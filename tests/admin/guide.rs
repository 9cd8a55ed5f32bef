//! The guide beside real answers.

use std::time::Duration;

use axum::Router;
use serde_json::Value;
use tower_pulse::admin::Access;
use tower_pulse::{Clock, Pulse};

use crate::serve;
use pulse_rig::http::Client;

/// The fields of an answer. Those of a group have its name and a dot before theirs.
fn fields(prefix: &str, value: &Value, names: &mut Vec<String>) {
    for (name, value) in value.as_object().into_iter().flatten() {
        let name = format!("{prefix}{name}");
        fields(&format!("{name}."), value, names);
        if !value.is_object() {
            names.push(name);
        }
    }
}

#[tokio::test]
async fn the_guide_names_every_field_of_health() {
    let page = include_str!("../../src/guide/reading_health.md");
    let (clock, hand) = Clock::manual(1_700_000_000);
    let pulse = Pulse::builder().clock(clock).build().unwrap();
    let app = Router::new().merge(pulse.mount("/pulse", Access::open()));
    let mut client = Client::connect(serve(app).await).await;
    let health = loop {
        let answer = client.get("/pulse/api/health").await;
        let health: Value = serde_json::from_str(&answer.text()).unwrap();
        if !health["cleaning"]["last_pass"].is_null() {
            break health;
        }
        hand.advance(Duration::from_secs(1));
        tokio::task::yield_now().await;
    };
    let mut names = Vec::new();
    fields("", &health, &mut names);
    assert!(names.len() > 25, "{names:?}");
    assert!(
        names
            .iter()
            .any(|name| name.starts_with("cleaning.last_pass."))
    );
    for name in names {
        // The documentation has the fields of the last pass in one sentence.
        let shown = name.strip_prefix("cleaning.last_pass.").unwrap_or(&name);
        let shown = format!("`{shown}`");
        assert!(page.contains(&shown), "the guide lacks {name}");
    }
    pulse.shutdown().await.unwrap();
}
