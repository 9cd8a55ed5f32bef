//! Posts a change to a webhook, as the guide's page *What has changed* shows.

use std::error::Error;
use std::time::Duration;

use tower_pulse::Change;

/// Posts `text`, which a chat shows, and the whole `change`. Blocks until the webhook has answered.
pub(crate) fn post(url: &str, change: &Change) -> Result<(), Box<dyn Error>> {
    let body = serde_json::json!({ "text": change.to_string(), "change": change });
    ureq::post(url)
        .config()
        .timeout_global(Some(Duration::from_secs(5)))
        .build()
        .header("content-type", "application/json")
        .send(body.to_string())?;
    Ok(())
}
