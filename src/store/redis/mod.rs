//! The store of a fleet: one standalone Redis or Valkey, in the book's layout.
//!
//! Read `keys` (where everything stands), `journal` with `lua/append.lua` and `lua/fold.lua` (how a call
//! is appended and folded, once) and `encode` (how it gets there), then `connection`, `stream` (what a peer
//! may send), `value` (how its texts are shown), `read`, `oversized`, `lease`, `clean`, `sweep` and `healed`.

mod asked;
mod clean;
mod connection;
mod encode;
mod error;
mod healed;
mod journal;
mod keys;
mod lease;
mod options;
mod oversized;
mod problem_log;
mod read;
mod script;
mod server;
mod status;
mod stream;
mod sweep;
#[cfg(feature = "redis-tls")]
mod tls;
mod value;

pub use options::RedisOptions;

use redis::pipe;

use self::connection::{Connections, Role};
use self::healed::Healed;
use self::keys::Keys;
use self::oversized::OversizedKeys;
use super::journal::Journal;
use super::{
    Appended, CleanReport, FencedBatch, Generation, Heartbeat, INSTANCE_TTL, Pass, PassRecord,
    Position, Readable, Store, StoreStatus,
};
use crate::clock::Clock;
use crate::error::{BuildError, StoreError, StoreErrorKind};
use crate::model::batch::Aggregate;
use crate::model::slice::Precisions;
use crate::model::snapshot::{ContextSnapshot, Snapshot};
use crate::task::BoxFuture;

/// Keeps aggregates in a Redis that a fleet shares.
///
/// Nothing is retried: after an error of the kinds
/// [`TimedOut`](StoreErrorKind::TimedOut) and [`Unreachable`](StoreErrorKind::Unreachable) a call
/// may or may not have been appended, and is to be sent again with its number.
pub struct RedisStore {
    connections: Connections,
    keys: Keys,
    precisions: Precisions,
    expire_idle_keys: bool,
    book_keys: bool,
    journal_bytes: u64,
    healed: Healed,
    oversized: OversizedKeys,
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
            expire_idle_keys: options.expire_idle_keys,
            book_keys: options.book_keys,
            journal_bytes: options.journal_bytes,
            healed: Healed::default(),
            oversized: OversizedKeys::default(),
            clock: None,
        })
    }

    /// Takes the server's time from `clock` instead of asking the server, so that tests can pass
    /// an hour without waiting for it. The expiry of keys stays the server's.
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    async fn write_heartbeat(&self, heartbeat: &Heartbeat) -> Result<(), StoreError> {
        let instance = self.keys.instance(&heartbeat.instance);
        let mut pipeline = pipe();
        pipeline
            .cmd("HSET")
            .arg(&instance)
            .arg("at")
            .arg(heartbeat.at)
            .arg("in_flight")
            .arg(heartbeat.in_flight)
            .arg("dropped")
            .arg(heartbeat.dropped)
            .arg("version")
            .arg(env!("CARGO_PKG_VERSION"));
        pipeline.cmd("EXPIRE").arg(&instance).arg(INSTANCE_TTL);
        let instances = pipeline.cmd("ZADD").arg(self.keys.instances());
        instances.arg(heartbeat.at).arg(&heartbeat.instance);
        self.note(
            &mut pipeline,
            [&instance, &instance, &self.keys.instances()],
        )
        .await
    }

    async fn remove_heartbeat(&self, instance: &str) -> Result<(), StoreError> {
        let mut pipeline = pipe();
        pipeline
            .cmd("ZREM")
            .arg(self.keys.instances())
            .arg(instance);
        let instance = self.keys.instance(instance);
        pipeline.cmd("DEL").arg(&instance);
        self.note(&mut pipeline, [&self.keys.instances(), &instance])
            .await
    }

    /// Sends commands about an instance, each about one of these keys, and all of which must go through.
    /// What else a key holds is deleted, as the next heartbeats write it again.
    async fn note<const N: usize>(
        &self,
        pipeline: &mut redis::Pipeline,
        keys: [&str; N],
    ) -> Result<(), StoreError> {
        let replies = self.connections.pipeline(Role::Write, pipeline).await?;
        let wrong = replies.into_iter().zip(keys);
        let mut wrong = wrong.filter_map(|(reply, key)| Some((key, reply.err()?)));
        let Some((key, reason)) = wrong.next() else {
            return Ok(());
        };
        self.delete_own(Role::Write, key, &reason).await?;
        for (key, reason) in wrong {
            self.delete_own(Role::Write, key, &reason).await?;
        }
        let replies = self.connections.pipeline(Role::Write, pipeline).await?;
        for (reply, key) in replies.into_iter().zip(keys) {
            reply.map_err(|reason| {
                let what = format!("{key} cannot be written ({reason})");
                let about = self.connections.about();
                about.error(StoreErrorKind::Unexpected, &what)
            })?;
        }
        Ok(())
    }
}

impl Store for RedisStore {
    fn hello(&self) -> BoxFuture<'_, Result<Generation, StoreError>> {
        Box::pin(self.say_hello())
    }

    fn append<'a>(&'a self, call: &'a FencedBatch) -> BoxFuture<'a, Result<Appended, StoreError>> {
        Box::pin(self.append_call(call))
    }

    fn readable<'a>(
        &'a self,
        generation: &'a str,
        instance: &'a str,
        seq: u64,
        position: Position,
    ) -> BoxFuture<'a, Result<Readable, StoreError>> {
        Box::pin(self.is_readable(generation, instance, seq, position))
    }

    fn status(&self, now: i64) -> BoxFuture<'_, Result<StoreStatus, StoreError>> {
        Box::pin(self.read_status(now))
    }

    fn journal(&self) -> Option<&dyn Journal> {
        Some(self)
    }

    fn heartbeat<'a>(&'a self, heartbeat: &'a Heartbeat) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.write_heartbeat(heartbeat))
    }

    fn deregister<'a>(&'a self, instance: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.remove_heartbeat(instance))
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

    fn records<'a>(
        &'a self,
        context: &'a str,
        width: u32,
        now: i64,
    ) -> BoxFuture<'a, Result<Vec<(i64, Aggregate)>, StoreError>> {
        Box::pin(self.read_records(context, width, now))
    }

    fn slowest(&self) -> BoxFuture<'_, Result<Vec<(String, f64)>, StoreError>> {
        Box::pin(self.read_slowest())
    }

    fn clean<'a>(
        &'a self,
        pass: &'a Pass,
    ) -> BoxFuture<'a, Result<Option<CleanReport>, StoreError>> {
        Box::pin(self.clean_once(pass))
    }

    fn last_pass(&self) -> BoxFuture<'_, Result<Option<PassRecord>, StoreError>> {
        Box::pin(self.read_last_pass(Role::Read))
    }

    fn describe(&self) -> String {
        let server = self.connections.server();
        let server = server.map_or_else(|| "redis".to_owned(), |server| server.name());
        let place = &self.connections.about().place;
        format!("{server} at {place} (prefix {:?})", self.keys.prefix())
    }

    fn warnings(&self) -> Vec<String> {
        let server = self.connections.server();
        let mut warnings = server.map_or_else(Vec::new, |server| server.warnings());
        warnings.extend(self.healed.warnings());
        warnings.extend(self.oversized.warnings());
        warnings
    }
}
