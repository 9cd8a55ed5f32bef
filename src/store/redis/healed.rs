//! Keys of this crate's own that held something else: it was deleted or overwritten, as what belongs there
//! is written again by itself.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use redis::cmd;

use super::RedisStore;
use super::connection::Role;
use super::value::problem;
use crate::error::StoreError;
use crate::model::snapshot::Problem;
use crate::task::lock;

/// Keys that are listed, and for how long.
const MAX_LISTED: usize = 20;
const LISTED_FOR: Duration = Duration::from_secs(3_600);

/// The newest of those keys, for health.
#[derive(Debug, Default)]
pub(super) struct Healed(Mutex<VecDeque<(Instant, Problem)>>);

impl Healed {
    /// Adds a key whose value was replaced, and why. Without a reason, nothing was wrong with it.
    pub(super) fn add(&self, key: &[u8], reason: &[u8]) {
        if reason.is_empty() {
            return;
        }
        let problem = problem(key, &String::from_utf8_lossy(reason));
        tracing::warn!(key = %problem.key, reason = %problem.reason, "a key of this crate's own held something else, which was replaced");
        let mut listed = lock(&self.0);
        listed.retain(|(_, other)| other.key != problem.key);
        listed.push_back((Instant::now(), problem));
        if listed.len() > MAX_LISTED {
            listed.pop_front();
        }
    }

    pub(super) fn warnings(&self) -> Vec<String> {
        let mut listed = lock(&self.0);
        listed.retain(|(at, _)| at.elapsed() < LISTED_FOR);
        let warning = |(_, Problem { key, reason }): &(Instant, Problem)| {
            format!("{key} held something else, which was replaced ({reason})")
        };
        listed.iter().map(warning).collect()
    }
}

impl RedisStore {
    /// Deletes a key of this crate's own that holds something else.
    pub(super) async fn delete_own(
        &self,
        side: Role,
        key: &str,
        reason: &str,
    ) -> Result<(), StoreError> {
        let mut delete = cmd("DEL");
        delete.arg(key);
        self.connections.call(side, &delete).await?;
        self.healed.add(key.as_bytes(), reason.as_bytes());
        Ok(())
    }
}
