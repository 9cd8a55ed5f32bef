//! The store of a fleet: one standalone Redis or Valkey, in the book's layout.
//!
//! Read `keys` (where everything stands), `lua/merge.lua` (how a call is merged, once) and `encode`
//! (how it gets there), then `connection`, `read`, `lease`, `clean` and `sweep`.

mod clean;
mod connection;
mod encode;
mod error;
mod keys;
mod lease;
mod noted;
mod options;
mod packed;
mod read;
mod script;
mod server;
mod sweep;
mod value;

pub use options::RedisOptions;

use redis::{Value, pipe};

use self::connection::{Connections, Side};
use self::encode::Layout;
use self::keys::Keys;
use self::value::{bytes, int, items, shown, text};
use super::{ALIVE_FOR, Applied, Beat, Call, Cleaned, LastPass, Merged, Pass, Store};
use crate::clock::Clock;
use crate::error::{BuildError, StoreError, StoreErrorKind};
use crate::model::batch::Spread;
use crate::model::slice::Precisions;
use crate::model::snapshot::{ContextSnapshot, Problem, Snapshot};
use crate::task::BoxFuture;

/// Keeps aggregates in a Redis that a fleet shares.
///
/// Nothing is retried: after an error of the kinds
/// [`TimedOut`](StoreErrorKind::TimedOut) and [`Unreachable`](StoreErrorKind::Unreachable) a call
/// may or may not have been merged, and is to be sent again with its number.
pub struct RedisStore {
    connections: Connections,
    keys: Keys,
    precisions: Precisions,
    key_ttl: bool,
    /// Stands in for the server's clock.
    clock: Option<Clock>,
}

impl std::fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("RedisStore").field(&self.describe()).finish()
    }
}

impl RedisStore {
    /// A store in the server that `options` describe. Connects when it is first used.
    ///
    /// # Errors
    /// When the options describe no server that could exist.
    pub fn open(options: RedisOptions) -> Result<Self, BuildError> {
        let keys = Keys::new(options.prefix.clone());
        let connections = Connections::new(&options, &keys).map_err(|error| {
            BuildError::new("redis", options.place(), "must be the address of a server")
                .with_source(error)
        })?;
        Ok(Self {
            connections,
            keys,
            precisions: options.precisions,
            key_ttl: options.key_ttl,
            clock: None,
        })
    }

    /// Takes the server's time from `clock` instead of asking the server, so that tests can pass
    /// an hour without waiting for it. The expiry of keys stays the server's.
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    async fn merge(&self, call: &Call) -> Result<Applied, StoreError> {
        let layout = Layout {
            keys: &self.keys,
            precisions: &self.precisions,
            key_ttl: self.key_ttl,
            now: self.clock.as_ref().map(Clock::now_seconds),
        };
        let script = encode::merge(call, &layout);
        let reply = self
            .connections
            .run(Side::Write, &script::MERGE, &script)
            .await?;
        applied(&reply).ok_or_else(|| {
            let what = "merge.lua gave an answer that cannot be understood";
            let about = self.connections.about();
            about.error(StoreErrorKind::Unexpected, what)
        })
    }

    async fn note_beat(&self, beat: &Beat) -> Result<(), StoreError> {
        let instance = self.keys.instance(&beat.instance);
        let mut pipeline = pipe();
        pipeline
            .cmd("HSET")
            .arg(&instance)
            .arg("at")
            .arg(beat.at)
            .arg("in_flight")
            .arg(beat.in_flight)
            .arg("dropped")
            .arg(beat.dropped)
            .arg("version")
            .arg(env!("CARGO_PKG_VERSION"));
        pipeline.cmd("EXPIRE").arg(&instance).arg(ALIVE_FOR);
        let instances = pipeline.cmd("ZADD").arg(self.keys.instances());
        instances.arg(beat.at).arg(&beat.instance);
        // An idle instance must not lose its fence.
        let fence = pipeline.cmd("EXPIRE").arg(self.keys.fence(&beat.instance));
        fence.arg(encode::FENCE_FOR);
        self.note(&mut pipeline).await
    }

    async fn note_leave(&self, instance: &str) -> Result<(), StoreError> {
        let mut pipeline = pipe();
        pipeline
            .cmd("ZREM")
            .arg(self.keys.instances())
            .arg(instance);
        pipeline.cmd("DEL").arg(self.keys.instance(instance));
        self.note(&mut pipeline).await
    }

    /// Sends commands about an instance, all of which must go through.
    async fn note(&self, pipeline: &mut redis::Pipeline) -> Result<(), StoreError> {
        let replies = self.connections.pipeline(Side::Write, pipeline).await?;
        for reply in replies {
            reply.map_err(|reason| {
                let what = format!("a key of an instance cannot be written ({reason})");
                let about = self.connections.about();
                about.error(StoreErrorKind::Unexpected, &what)
            })?;
        }
        Ok(())
    }
}

/// What `merge.lua` returned.
fn applied(reply: &Value) -> Option<Applied> {
    let items = items(reply);
    let count = |at: usize| items.get(at).and_then(int)?.try_into().ok();
    match text(items.first()?)? {
        "MERGED" => Some(Applied::Merged(Merged {
            late: count(1)?,
            skewed: count(2)?,
            quarantined: items[3..]
                .chunks_exact(2)
                .map(|pair| Problem {
                    key: bytes(&pair[0]).map(shown_text).unwrap_or_default(),
                    reason: bytes(&pair[1]).map(shown_text).unwrap_or_default(),
                })
                .collect(),
        })),
        "DUPLICATE" => Some(Applied::Duplicate),
        "GAP" => Some(Applied::Gap { fence: count(1)? }),
        "RESET" => Some(Applied::Reset),
        _ => None,
    }
}

/// A key or reason that is text, as it is; escaped otherwise.
fn shown_text(bytes: &[u8]) -> String {
    std::str::from_utf8(bytes).map_or_else(|_| shown(bytes), str::to_owned)
}

impl Store for RedisStore {
    fn apply<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Applied, StoreError>> {
        Box::pin(self.merge(call))
    }

    fn beat<'a>(&'a self, beat: &'a Beat) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.note_beat(beat))
    }

    fn leave<'a>(&'a self, instance: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.note_leave(instance))
    }

    fn snapshot(&self, now: i64) -> BoxFuture<'_, Result<Snapshot, StoreError>> {
        Box::pin(self.read_snapshot(now))
    }

    fn context<'a>(
        &'a self,
        context: &'a str,
        now: i64,
    ) -> BoxFuture<'a, Result<Option<ContextSnapshot>, StoreError>> {
        Box::pin(self.read_one(context, now))
    }

    fn counter<'a>(
        &'a self,
        name: &'a str,
        precision: u32,
    ) -> BoxFuture<'a, Result<Vec<(i64, i64)>, StoreError>> {
        Box::pin(self.read_counter(name, precision))
    }

    fn histograms<'a>(
        &'a self,
        context: &'a str,
        precision: u32,
    ) -> BoxFuture<'a, Result<Vec<(i64, Spread)>, StoreError>> {
        Box::pin(self.read_histograms(context, precision))
    }

    fn slowest(&self) -> BoxFuture<'_, Result<Vec<(String, f64)>, StoreError>> {
        Box::pin(self.read_slowest())
    }

    fn clean<'a>(&'a self, pass: &'a Pass) -> BoxFuture<'a, Result<Option<Cleaned>, StoreError>> {
        Box::pin(self.clean_once(pass))
    }

    fn last_pass(&self) -> BoxFuture<'_, Result<Option<LastPass>, StoreError>> {
        Box::pin(self.read_last_pass(Side::Read))
    }

    fn describe(&self) -> String {
        let server = self.connections.server();
        let server = server.map_or_else(|| "redis".to_owned(), |server| server.name());
        let place = &self.connections.about().place;
        format!("{server} at {place} (prefix {:?})", self.keys.prefix())
    }

    fn warnings(&self) -> Vec<String> {
        let server = self.connections.server();
        server.map_or_else(Vec::new, |server| server.warnings())
    }
}
