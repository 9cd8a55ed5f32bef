//! The tables of the store, as an instance that folds reads them.

use redis::{Value, pipe};

use super::RedisStore;
use super::connection::Role;
use super::script::READ;
use super::value::{bytes, int, items, pairs};
use crate::error::StoreError;
use crate::store::journal::{FieldValues, Step};
use crate::store::table::Table;

/// Fields that one script reads.
const FIELDS_AT_ONCE: usize = 500;

impl RedisStore {
    pub(super) async fn load_values(
        &self,
        instance: &str,
        version: &str,
        fields: &[(Table, Vec<Vec<u8>>)],
    ) -> Result<Step<Vec<FieldValues>>, StoreError> {
        let mut values = Vec::with_capacity(fields.len());
        for (table, fields) in fields {
            let mut loaded = FieldValues::with_capacity(fields.len());
            for part in fields.chunks(FIELDS_AT_ONCE) {
                let mut script = self.read_step(instance, version, ["", ""]);
                script.key(self.keys.table(table));
                script.arg(match table {
                    Table::RankingTotals { .. } => "ZMSCORE",
                    _ => "HMGET",
                });
                script.arg(part.len().to_string());
                part.iter().for_each(|field| script.arg(&**field));
                let reply = match self.run_step(&READ, &script).await? {
                    Step::Done(reply) => reply,
                    Step::Stale(version) => return Ok(Step::Stale(version)),
                    Step::Absent => return Ok(Step::Absent),
                };
                // A key of another type reads as empty here, and is quarantined when it is written.
                let replies = items(&reply).get(3).map_or(&[][..], items);
                let replies = replies.iter().map(|value| bytes(value).map(<[u8]>::to_vec));
                loaded.extend(replies.chain(std::iter::repeat(None)).take(part.len()));
            }
            values.push(loaded);
        }
        Ok(Step::Done(values))
    }

    pub(super) async fn list_values(
        &self,
        table: &Table,
    ) -> Result<Vec<(Vec<u8>, Vec<u8>)>, StoreError> {
        let mut pipeline = pipe();
        let key = self.keys.table(table);
        match table {
            Table::RankingTotals { .. } => {
                let all = pipeline.cmd("ZREVRANGE").arg(key);
                all.arg(0).arg(-1).arg("WITHSCORES");
            }
            _ => {
                pipeline.cmd("HGETALL").arg(key);
            }
        }
        let replies = self.connections.pipeline(Role::Fold, &mut pipeline).await?;
        let fields = replies.first().and_then(|reply| reply.as_ref().ok());
        let field = |(field, value): (&Value, &Value)| {
            Some((bytes(field)?.to_vec(), bytes(value)?.to_vec()))
        };
        Ok(fields
            .map(pairs)
            .into_iter()
            .flatten()
            .filter_map(field)
            .collect())
    }

    pub(super) async fn count_values(&self, table: &Table) -> Result<usize, StoreError> {
        let command = match table {
            Table::RankingTotals { .. } => "ZCARD",
            _ => "HLEN",
        };
        let mut pipeline = pipe();
        pipeline.cmd(command).arg(self.keys.table(table));
        let replies = self.connections.pipeline(Role::Fold, &mut pipeline).await?;
        let count = replies.first().and_then(|reply| reply.as_ref().ok());
        let count = count.and_then(int).and_then(|n| usize::try_from(n).ok());
        Ok(count.unwrap_or(0))
    }
}
