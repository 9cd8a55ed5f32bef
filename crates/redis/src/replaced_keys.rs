//! Keys of this crate that held data of another program. The foreign data was deleted or overwritten, so this crate can
//! write its own data again.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use redis::Cmd;

use super::RedisStore;
use super::connection::Role;
use super::value::problem;
use tower_pulse_core::condition::{Condition, Warning};
use tower_pulse_core::error::Result;
use tower_pulse_core::task::lock;
use tower_pulse_model::snapshot::Problem;

const MAX_LISTED: usize = 20;
const LISTED_FOR: Duration = Duration::from_secs(8);

/// The newest replaced keys, for health.
#[derive(Debug, Default)]
pub(super) struct ReplacedKeys(Mutex<VecDeque<(Instant, Problem)>>);

impl ReplacedKeys {
    /// Adds nothing if the reason is empty, because then nothing was replaced.
    pub(super) fn add(&self, key: &str, reason: &[u8]) {
        if reason.is_empty() {
            return;
        }
        let problem = problem(key.as_bytes(), &String::from_utf8_lossy(reason));
        let mut listed = lock(&self.0);
        listed.retain(|(_, other)| other.key != problem.key);
        listed.push_back((Instant::now(), problem));
        if listed.len() > MAX_LISTED {
            listed.pop_front();
        }
    }

    pub(super) fn warnings(&self) -> Vec<Warning> {
        let mut listed = lock(&self.0);
        listed.retain(|(at, _)| at.elapsed() < LISTED_FOR);
        let warning = |(_, Problem { key, reason, .. }): &(Instant, Problem)| {
            Condition::ReplacedKey.warning(format!(
                "{key} held something else, which was replaced; look for a program that \
                 writes below the prefix ({reason})"
            ))
        };
        listed.iter().map(warning).collect()
    }
}

impl RedisStore {
    /// Deletes a key of this crate that holds foreign data. Does nothing in a store that only reads.
    pub(super) async fn delete_own(&self, key: &str, reason: &str) -> Result<()> {
        if self.options.is_read_only {
            return Ok(());
        }
        self.connections.call(Role::Write, &Cmd::del(key)).await?;
        self.replaced_keys.add(key, reason.as_bytes());
        Ok(())
    }
}
