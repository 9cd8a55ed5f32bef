//! Posts a change to a webhook.

use std::time::Duration;

use tower_pulse::Change;

/// Time for the webhook to answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A sentence about a change, as a chat shows it.
pub(crate) fn sentence(change: &Change) -> String {
    let subject = match &change.instance {
        Some(instance) => format!("{} on {instance}", change.context),
        None => change.context.to_string(),
    };
    match change.ended {
        Some(_) => format!("{subject} is no longer {}", change.kind),
        None => format!(
            "{subject} is {}: {:.2} times as much as before",
            change.kind, change.ratio
        ),
    }
}

/// Posts a change as JSON: `text`, which Slack and Mattermost show, and the whole `change`. Blocks until the webhook
/// has answered.
pub(crate) fn post(url: &str, change: &Change) -> Result<(), Box<dyn std::error::Error>> {
    let body = serde_json::json!({ "text": sentence(change), "change": change });
    ureq::post(url)
        .config()
        .timeout_global(Some(TIMEOUT))
        .build()
        .header("content-type", "application/json")
        .send(body.to_string())?;
    Ok(())
}
