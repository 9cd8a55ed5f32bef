//! Compares what the clients were answered with what is stored.

use redis::aio::MultiplexedConnection;
use serde_json::Value;

use crate::faults::service::{PREFIX, by_day, statistics};
use crate::order::{Key, LIVES, Quantity, SOLD, Tally};
use crate::rig::server::issue;
use crate::traffic::Ledger;

/// A stored total, and its limits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Compared {
    pub answered: i64,
    pub stored: i64,
    /// The amount that was sent before a kill and not answered. It may be stored as well.
    pub unheard: i64,
    /// The amount that was answered within the last interval before a kill. It may be missing.
    pub at_kills: i64,
}

impl Compared {
    /// Whether more is stored than was sent, or less than was answered before the last intervals.
    pub fn is_wrong(&self) -> bool {
        self.stored > self.answered + self.unheard || self.stored < self.answered - self.at_kills
    }

    pub fn add(&mut self, other: &Self) {
        self.answered += other.answered;
        self.stored += other.stored;
        self.unheard += other.unheard;
        self.at_kills += other.at_kills;
    }
}

/// Compares all totals of one instance that were read.
pub fn compare(ledger: &Ledger, stored: &Tally) -> Vec<(Key, Compared)> {
    let of = |tally: &Tally, key: &Key| tally.get(key).copied().unwrap_or(0);
    let keys = ledger.keys().into_iter();
    let compared = keys.filter_map(|key| {
        let compared = Compared {
            answered: of(&ledger.answered, &key),
            stored: *stored.get(&key)?,
            unheard: of(&ledger.unheard, &key),
            at_kills: of(&ledger.at_kills, &key),
        };
        Some((key, compared))
    });
    compared.collect()
}

/// Reads what is stored under these keys in Redis itself.
pub async fn read_keys(conn: &mut MultiplexedConnection, keys: &[Key]) -> Tally {
    let mut stored = Tally::new();
    for key in keys {
        let (quantity, name) = key;
        let n = match quantity {
            Quantity::Hits | Quantity::Timers => by_day(conn, &format!("hits:{name}")).await,
            Quantity::Errors => by_day(conn, &format!("errors:{name}")).await,
            Quantity::Counters => by_day(conn, name).await,
            Quantity::Statistics => statistics(conn, PREFIX, name).await,
            Quantity::Rankings => score(conn, SOLD, name).await,
            Quantity::Lives => score(conn, LIVES, name).await,
            Quantity::Records | Quantity::ClientErrors => continue,
        };
        stored.insert(key.clone(), n);
    }
    stored
}

async fn score(conn: &mut MultiplexedConnection, ranking: &str, id: &str) -> i64 {
    let score: Option<f64> = issue(conn, "ZSCORE", (format!("{PREFIX}stats_{ranking}"), id)).await;
    score.unwrap_or(0.0) as i64
}

/// Reads what `api/paths` has answered about these keys.
pub fn read_answer(answer: &Value, keys: &[Key]) -> Tally {
    let rows = answer["paths"].as_array().unwrap();
    let mut stored = Tally::new();
    for key in keys {
        let row = rows.iter().find(|row| row["context"] == *key.1);
        let row = row.unwrap_or(&Value::Null);
        let n = match key.0 {
            Quantity::Records => &row["count"],
            Quantity::ClientErrors => &row["outcomes"]["4xx"],
            _ => continue,
        };
        stored.insert(key.clone(), n.as_i64().unwrap_or(0));
    }
    stored
}
