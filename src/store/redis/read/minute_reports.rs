//! What each instance, and each version of the application, did in some minutes.

use redis::pipe;

use super::super::RedisStore;
use super::super::oversized::Reply;
use super::fields_of;
use crate::error::StoreError;
use crate::store::lists;
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
                read.push(lists::instances(fields_of(&reply)));
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
                read.extend(lists::versions(*minute, fields_of(&reply)));
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
