//! Compares the answered requests with the stored totals.

use redis::aio::MultiplexedConnection;
use serde_json::Value;

use super::order::{Key, LIVES, Quantity, SOLD, Tally};
use super::traffic::Ledger;
use crate::faults::service::{PREFIX, by_day, statistics};
use crate::rig::server::issue;

/// A stored total, and the amounts from which its limits follow.
#[derive(Clone, Copy, Debug, Default)]
pub struct Compared {
    pub answered: i64,
    pub stored: i64,
    /// The amount that was sent before a kill, but not answered. The store may have this amount too.
    pub unanswered: i64,
    /// The amount that was answered within the last interval before a kill. The store may lack this amount.
    pub at_kills: i64,
}

impl Compared {
    /// Whether more is stored than was sent, or less than was answered before the last intervals.
    pub fn is_wrong(&self) -> bool {
        self.stored > self.answered + self.unanswered || self.stored < self.answered - self.at_kills
    }

    pub fn add(&mut self, other: &Self) {
        self.answered += other.answered;
        self.stored += other.stored;
        self.unanswered += other.unanswered;
        self.at_kills += other.at_kills;
    }
}

/// Compares the totals of one instance, as far as they are in `stored`.
pub fn compare(ledger: &Ledger, stored: &Tally) -> Vec<(Key, Compared)> {
    let total = |tally: &Tally, key: &Key| tally.get(key).copied().unwrap_or(0);
    let keys = ledger.keys().into_iter();
    let compared = keys.filter_map(|key| {
        let compared = Compared {
            answered: total(&ledger.answered, &key),
            stored: *stored.get(&key)?,
            unanswered: total(&ledger.unanswered, &key),
            at_kills: total(&ledger.at_kills, &key),
        };
        Some((key, compared))
    });
    compared.collect()
}

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

/// Reads the totals of these keys from an answer of `api/paths`.
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
