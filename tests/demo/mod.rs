//! The demo as a process of its own, with real HTTP and a real Redis.

mod api;
mod ending;
mod past;

use crate::rig::demo::{self, Demo};
use crate::rig::http::Client;
use crate::rig::wait::{PATIENCE, look_until};
use serde_json::Value;

/// Starts a demo without traffic of its own.
async fn start_without_traffic(env: &[(&str, &str)]) -> Demo {
    let env = [&[("DEMO_TRAFFIC", "off"), ("PULSE_FLUSH_MS", "100")], env].concat();
    Demo::start(demo::built(), &env).await
}

/// Asks until the answer passes, and returns it.
async fn until(client: &mut Client, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    look_until(PATIENCE, async || {
        let answer = client.json(path).await;
        match is_so(&answer) {
            true => Ok(answer),
            false => Err(format!("{path} stays {answer:#}")),
        }
    })
    .await
}

/// The row of a context in `api/paths`.
fn row<'a>(paths: &'a Value, context: &str) -> Option<&'a Value> {
    let rows = paths["paths"].as_array().unwrap();
    rows.iter().find(|row| row["context"] == context)
}

/// Waits until a context has `expected` requests in this hour and the last one.
async fn wait_until_counted(client: &mut Client, context: &str, expected: u64) {
    look_until(PATIENCE, async || {
        let mut count = 0;
        for window in ["hour", "last_hour"] {
            let path = format!("/admin/pulse/api/paths?kind=all&limit=1000&window={window}");
            let response = client.get(&path).await;
            // The answer may be an error from a moment before the store came back.
            if response.status == 503 {
                return Err(response.text());
            }
            let paths = response.json();
            count += row(&paths, context).map_or(0, |row| row["count"].as_u64().unwrap());
        }
        assert!(count <= expected, "{context}: {count} of {expected}");
        match count == expected {
            true => Ok(()),
            false => Err(format!("{context}: {count} of {expected}")),
        }
    })
    .await;
}
