//! What each instance, and each version of the application, did in some minutes.

use std::sync::Arc;

use redis::{Value, pipe};

use super::super::RedisStore;
use super::super::oversized::Reply;
use super::super::value::{bytes, pairs, text};
use crate::error::StoreError;
use crate::model::pack;
use crate::model::records::{RecordId, sort_by_id};
use crate::model::sorted;
use crate::store::table::Table;
use crate::store::{InstanceMinuteRecords, VersionRecords};

/// Minutes per pipeline, so that the answers of few minutes are in memory at a time.
const MINUTES_AT_ONCE: usize = 4;

impl RedisStore {
    pub(in crate::store::redis) async fn read_instance_minutes(
        &self,
        minutes: &[i64],
    ) -> Result<Vec<Vec<InstanceMinuteRecords>>, StoreError> {
        let mut read = Vec::with_capacity(minutes.len());
        for part in minutes.chunks(MINUTES_AT_ONCE) {
            let tables = part
                .iter()
                .map(|minute| Table::InstanceMinutes { minute: *minute });
            for reply in self.read_hashes(tables).await? {
                read.push(instances(&reply));
                // Unpacking a minute holds the runtime up for a while.
                tokio::task::yield_now().await;
            }
        }
        Ok(read)
    }

    pub(in crate::store::redis) async fn read_version_minutes(
        &self,
        minutes: &[i64],
    ) -> Result<Vec<VersionRecords>, StoreError> {
        let mut read = Vec::new();
        for part in minutes.chunks(MINUTES_AT_ONCE) {
            let tables = part
                .iter()
                .map(|minute| Table::VersionMinutes { minute: *minute });
            for (minute, reply) in part.iter().zip(self.read_hashes(tables).await?) {
                read.extend(versions(*minute, &reply));
                tokio::task::yield_now().await;
            }
        }
        Ok(read)
    }

    async fn read_hashes(
        &self,
        tables: impl Iterator<Item = Table>,
    ) -> Result<Vec<Reply>, StoreError> {
        let mut pipeline = pipe();
        for table in tables {
            pipeline.cmd("HGETALL").arg(self.keys.table(&table));
        }
        self.read(&mut pipeline).await
    }
}

/// The instances of a minute. A key of another type, and a field that cannot be read, are left out.
fn instances(reply: &Reply) -> Vec<InstanceMinuteRecords> {
    let instance = |(instance, packed): (&Value, &Value)| {
        let minute = pack::read_instance_minute(bytes(packed)?)?;
        Some(InstanceMinuteRecords {
            instance: text(instance)?.into(),
            version: minute.version,
            records: minute.contexts,
        })
    };
    let fields = reply.iter().flat_map(pairs);
    let mut instances: Vec<_> = fields.filter_map(instance).collect();
    instances.sort_unstable_by(|a, b| a.instance.cmp(&b.instance));
    instances
}

/// The versions of a minute. A key of another type, and a field that cannot be read, are left out.
fn versions(minute: i64, reply: &Reply) -> impl Iterator<Item = VersionRecords> {
    let mut versions: Vec<(Arc<str>, Vec<_>)> = Vec::new();
    for (field, packed) in reply.iter().flat_map(pairs) {
        let context = || {
            let (id, version) = bytes(field)?.split_at_checked(8)?;
            let version = std::str::from_utf8(version).ok()?;
            let aggregate = pack::read_aggregate(bytes(packed)?)?;
            Some((version, (RecordId::from_bytes(id)?, aggregate)))
        };
        if let Some((version, context)) = context() {
            sorted::entry(&mut versions, version.into(), Vec::new).push(context);
        }
    }
    versions.into_iter().map(move |(version, mut records)| {
        sort_by_id(&mut records);
        VersionRecords {
            minute,
            version,
            records,
        }
    })
}
