//! The special offers of the home page, which a row cache keeps fresh.

use std::time::Duration;

use serde_json::{Value, json};
use tower_pulse::row_cache::{RowCache, RowError};
use tower_pulse::{BuildError, Pulse};

/// The special offers, each with the seconds between two reads of its stock.
const OFFERS: [(&str, u64); 6] = [
    ("shoes", 2),
    ("hats", 5),
    ("gloves", 5),
    ("umbrellas", 15),
    ("scarves", 30),
    // The supplier of boots does not always answer.
    ("boots", 5),
];

pub(crate) fn cache(pulse: &Pulse) -> Result<RowCache, BuildError> {
    RowCache::builder(pulse).name("offers").loader(load).build()
}

pub(crate) async fn schedule(offers: &RowCache) -> Result<(), RowError> {
    let rows = OFFERS.map(|(name, seconds)| (name, Duration::from_secs(seconds)));
    offers.schedule_many(rows).await
}

pub(crate) async fn describe_any(offers: &RowCache) -> Option<String> {
    let (name, _) = OFFERS[fastrand::usize(..OFFERS.len())];
    let row = offers.get::<Value>(name).await.ok()??;
    Some(format!("only {} {name} left", row.value["stock"]))
}

async fn load(name: String) -> Result<Option<Value>, String> {
    tokio::time::sleep(Duration::from_millis(fastrand::u64(3..12))).await;
    if name == "boots" && fastrand::f64() < 0.5 {
        return Err("the supplier does not answer".to_owned());
    }
    Ok(Some(
        json!({ "name": name, "stock": fastrand::u32(1..200) }),
    ))
}
