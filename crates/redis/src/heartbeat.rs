//! Heartbeats: an instance shows that it is alive, and receives the status of the fleet and the store in the reply.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{Value, pipe};

use super::RedisStore;
use super::connection::Role;
use super::value::{int, items, text};
use tower_pulse_core::error::{Result, StoreErrorKind};
use tower_pulse_core::store::{Fleet, Heartbeat, INSTANCE_TTL, StoreStatus};
use tower_pulse_core::task::lock;
use tower_pulse_model::fleet::MAX_VERSIONS;
use tower_pulse_model::order::InOrder;
use tower_pulse_model::pack::pack;

/// The interval at which an instance's heartbeats renew the time to live of its hash. After the last heartbeat, the
/// hash outlives [`INSTANCE_TTL`] by at most this interval.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(30);

impl RedisStore {
    /// Also reads the status of the store, in the same pipeline.
    pub(super) async fn write_heartbeat(
        &self,
        heartbeat: &Heartbeat,
    ) -> Result<(Fleet, StoreStatus)> {
        let instance = self.keys.instance(&heartbeat.instance);
        let (instances, versions) = (self.keys.instances(), self.keys.versions());
        let hash_ttl = INSTANCE_TTL.unsigned_abs() + EXPIRY_INTERVAL.as_secs();
        // If this heartbeat gets no reply, `last_expiry` stays empty, and the next heartbeat sets the time to live.
        let last = lock(&self.last_expiry).take();
        let last = last.filter(|(instance, _)| *instance == heartbeat.instance);
        let expiry_set_at = last.map(|(_, at)| at);
        let expiry_set_at = expiry_set_at.filter(|at| at.elapsed() < EXPIRY_INTERVAL);
        let sent = Instant::now();
        let mut pipeline = pipe();
        let fields = pipeline.cmd("HSET").arg(&instance);
        fields.arg(("at", heartbeat.at, "every", heartbeat.every));
        fields.arg(("in_flight", heartbeat.in_flight));
        fields.arg(("dropped", heartbeat.dropped));
        let cleaning = heartbeat.cleaning.as_deref().unwrap_or_default();
        fields.arg(("paths", pack(&heartbeat.paths)));
        fields.arg(("version", env!("CARGO_PKG_VERSION"), "cleaning", cleaning));
        fields.arg(heartbeat.name.as_deref().map(|name| ("name", name)));
        fields.arg(heartbeat.skew.map(|skew| ("skew", skew)));
        let version = heartbeat.version.as_deref();
        fields.arg(version.map(|version| ("app_version", version)));
        pipeline.zadd(&instances, &heartbeat.instance, heartbeat.at);
        let mut keys = vec![&*instance, &*instances];
        if expiry_set_at.is_none() {
            pipeline.cmd("EXPIRE").arg(&instance).arg(hash_ttl);
            keys.push(&instance);
        }
        let at_version = keys.len();
        if let Some(version) = &heartbeat.version {
            let newest = pipeline.cmd("ZADD").arg(&versions);
            newest.arg("GT").arg(heartbeat.at).arg(&**version);
            keys.push(&versions);
        }
        let since = heartbeat.at.saturating_sub(INSTANCE_TTL);
        pipeline.zrangebyscore_limit(&versions, since, "+inf", 0, MAX_VERSIONS as isize);
        keys.push(&versions);
        self.ask_status(&mut pipeline, heartbeat.at);
        let written = self.write_own_keys(&mut pipeline, &keys).await;
        if matches!(&written, Err(error) if error.kind() == StoreErrorKind::Refused) {
            // INFO says whether the server is out of memory. Normally the folder runs INFO for all instances, but on a
            // full server perhaps no instance can become the folder.
            self.read_status(heartbeat.at).await?;
            self.connections.ask_for_server().await?;
        }
        let mut replies = written?;
        let status = replies.split_off(keys.len().min(replies.len()));
        let reply = |at: usize| replies.get(at).and_then(|reply| reply.as_ref().ok());
        let is_new = |at: usize| reply(at).and_then(int).is_some_and(|added| added > 0);

        let (mut pipeline, mut new_keys) = (pipe(), Vec::new());
        if is_new(0) && expiry_set_at.is_some() {
            pipeline.cmd("EXPIRE").arg(&instance).arg(hash_ttl);
            new_keys.push(&*instance);
        }
        if heartbeat.version.is_some() && is_new(at_version) {
            pipeline.zremrangebyrank(&versions, 0, -1 - MAX_VERSIONS as isize);
            new_keys.push(&*versions);
        }
        if !new_keys.is_empty() {
            self.write_own_keys(&mut pipeline, &new_keys).await?;
        }
        let expiry_set_at = expiry_set_at.filter(|_| !is_new(0)).unwrap_or(sent);
        *lock(&self.last_expiry) = Some((heartbeat.instance.clone(), expiry_set_at));
        let running = reply(keys.len() - 1).map_or(&[][..], items).iter();
        let mut versions: Vec<_> = running.filter_map(text).map(Arc::from).collect();
        versions.order();
        let status = self.status_of(heartbeat.at, status).await?;
        let fleet = Fleet {
            instances: status.instances,
            versions,
        };
        Ok((fleet, status))
    }

    pub(super) async fn remove_heartbeat(&self, instance: &str) -> Result<()> {
        let (instances, hash) = (self.keys.instances(), self.keys.instance(instance));
        let mut pipeline = pipe();
        pipeline.cmd("ZREM").arg(&instances).arg(instance);
        pipeline.cmd("DEL").arg(&hash);
        let keys = [&*instances, &*hash];
        self.write_own_keys(&mut pipeline, &keys).await.map(drop)
    }

    /// Sends the commands of a heartbeat. The first commands are for `keys`, in this order, and must succeed. A key
    /// with foreign data is deleted, and all commands are sent again.
    async fn write_own_keys(
        &self,
        pipeline: &mut redis::Pipeline,
        keys: &[&str],
    ) -> Result<Vec<Result<Value, String>>> {
        let replies = self.connections.pipeline(Role::Write, pipeline).await?;
        let failed = replies.iter().zip(keys);
        let failed = failed.filter_map(|(reply, key)| Some((*key, reply.as_ref().err()?)));
        let failed: BTreeMap<_, _> = failed.collect();
        if failed.is_empty() {
            return Ok(replies);
        }
        for (key, reason) in failed {
            self.delete_own(key, reason).await?;
        }
        let replies = self.connections.pipeline(Role::Write, pipeline).await?;
        for (reply, key) in replies.iter().zip(keys) {
            if let Err(reason) = reply {
                let message = format!("{key} cannot be written; delete it ({reason})");
                return Err(self.unexpected(&message));
            }
        }
        Ok(replies)
    }
}
