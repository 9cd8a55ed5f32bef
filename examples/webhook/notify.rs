//! Posts a change to a webhook.

use std::time::Duration;

use tower_pulse::Change;

/// Time for the webhook to answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Posts a change as JSON: `text`, which Slack and Mattermost show, and the whole `change`. Blocks until the webhook
/// has answered.
pub(crate) fn post(url: &str, change: &Change) -> Result<(), Box<dyn std::error::Error>> {
    let body = serde_json::json!({ "text": change.to_string(), "change": change });
    ureq::post(url)
        .config()
        .timeout_global(Some(TIMEOUT))
        .build()
        .header("content-type", "application/json")
        .send(body.to_string())?;
    Ok(())
}
