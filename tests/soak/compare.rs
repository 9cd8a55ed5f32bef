//! What the clients were answered beside what is stored.

use redis::aio::MultiplexedConnection;
use serde_json::Value;

use crate::order::{Key, LIVES, Quantity, SOLD, Tally};
use crate::read::{PREFIX, by_day, statistics};
use crate::rig::server::issue;
use crate::traffic::Ledger;

/// A total, and what it may be.
#[derive(Clone, Copy, Debug, Default)]
pub struct Compared {
    pub answered: i64,
    pub stored: i64,
    /// Sent and not answered, at a kill: it may be stored as well.
    pub unheard: i64,
    /// Answered within the last interval before a kill: it may be missing.
    pub at_kills: i64,
}

impl Compared {
    pub fn difference(&self) -> i64 {
        self.stored - self.answered
    }

    /// What is wrong with it.
    fn fault(&self) -> Option<String> {
        let Self {
            answered,
            stored,
            unheard,
            at_kills,
        } = self;
        if *stored > answered + unheard {
            return Some(format!("{stored} stored, {} sent", answered + unheard));
        }
        let may_miss = format!("{at_kills} in the last intervals before kills");
        (*stored < answered - at_kills)
            .then(|| format!("{stored} stored, {answered} answered, {may_miss}"))
    }

    pub fn add(&mut self, other: &Self) {
        self.answered += other.answered;
        self.stored += other.stored;
        self.unheard += other.unheard;
        self.at_kills += other.at_kills;
    }
}

/// All totals of one instance.
pub fn compare(ledger: &Ledger, stored: &Tally) -> Vec<(Key, Compared)> {
    let of = |tally: &Tally, key: &Key| tally.get(key).copied().unwrap_or(0);
    let keys = ledger.answered.keys().chain(ledger.unheard.keys());
    let mut keys: Vec<_> = keys.filter(|key| stored.contains_key(key)).collect();
    keys.sort();
    keys.dedup();
    let compared = keys.into_iter().map(|key| {
        let compared = Compared {
            answered: of(&ledger.answered, key),
            stored: of(stored, key),
            unheard: of(&ledger.unheard, key),
            at_kills: of(&ledger.at_kills, key),
        };
        (key.clone(), compared)
    });
    compared.collect()
}

/// What is wrong, a line for each total.
pub fn faults(compared: &[(Key, Compared)]) -> Vec<String> {
    let faults = compared.iter().filter_map(|(key, compared)| {
        let fault = compared.fault()?;
        Some(format!("{:?} of {}: {fault}", key.quantity, key.name))
    });
    faults.collect()
}

/// Whether a quantity is read from the book's keys, by [`read_keys`].
fn is_in_keys(quantity: Quantity) -> bool {
    !matches!(quantity, Quantity::Records | Quantity::ClientErrors)
}

/// Reads what is stored under these keys in Redis itself.
pub async fn read_keys(conn: &mut MultiplexedConnection, keys: &[Key]) -> Tally {
    let mut stored = Tally::new();
    for key in keys.iter().filter(|key| is_in_keys(key.quantity)) {
        let name = &key.name;
        let n = match key.quantity {
            Quantity::Hits | Quantity::Timers => by_day(conn, &format!("hits:{name}")).await,
            Quantity::Errors => by_day(conn, &format!("errors:{name}")).await,
            Quantity::Counters => by_day(conn, name).await,
            Quantity::Statistics => statistics(conn, name).await,
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
    let row = |name: &str| rows.iter().find(|row| row["context"] == name);
    let mut stored = Tally::new();
    for key in keys.iter().filter(|key| !is_in_keys(key.quantity)) {
        let n = row(&key.name).and_then(|row| match key.quantity {
            Quantity::Records => row["count"].as_i64(),
            _ => row["outcomes"]["4xx"].as_i64(),
        });
        stored.insert(key.clone(), n.unwrap_or(0));
    }
    stored
}

/// Panics unless [`faults`] notices one too many and one too few, and allows what a kill may take and leave.
pub fn check_rules() {
    let of = |stored: i64| Compared {
        answered: 10,
        stored,
        unheard: 1,
        at_kills: 2,
    };
    let allowed: Vec<i64> = (0..20).filter(|n| of(*n).fault().is_none()).collect();
    assert_eq!(allowed, [8, 9, 10, 11]);
}
