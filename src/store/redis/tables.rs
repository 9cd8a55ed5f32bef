//! The tables of the store, as an instance that folds reads them.

use std::collections::VecDeque;

use redis::{Value, pipe};

use super::RedisStore;
use super::connection::Role;
use super::script::READ;
use super::value::{bytes, int, items, pairs};
use crate::error::StoreError;
use crate::model::minute_report::MAX_REPORTED;
use crate::store::journal::{FieldValues, Fields, Step};
use crate::store::table::Table;

/// Fields that one script reads, or fewer large ones.
const FIELDS_AT_ONCE: usize = 500;

/// How many small fields a field of the table is as large as.
fn weight(table: &Table) -> usize {
    match table {
        Table::InstanceMinutes { .. } => MAX_REPORTED,
        _ => 1,
    }
}

impl RedisStore {
    pub(super) async fn load_values(
        &self,
        instance: &str,
        version: &str,
        fields: &[(Table, Vec<Vec<u8>>)],
    ) -> Result<Step<Vec<FieldValues>>, StoreError> {
        let mut values = vec![FieldValues::new(); fields.len()];
        let parts = fields.iter().enumerate().flat_map(|(at, (table, fields))| {
            let parts = fields.chunks(FIELDS_AT_ONCE / weight(table));
            parts.map(move |fields| (at, table, fields))
        });
        let mut parts: VecDeque<_> = parts.collect();
        while !parts.is_empty() {
            let mut script = self.read_step(instance, version, ["", ""]);
            let (mut group, mut size) = (Vec::new(), 0);
            while let Some((_, table, fields)) = parts.front()
                && (size == 0 || size + weight(table) * fields.len() <= FIELDS_AT_ONCE)
            {
                script.key(self.keys.table(table));
                script.arg(match table {
                    Table::RankingTotals { .. } => "ZMSCORE",
                    _ => "HMGET",
                });
                script.arg(fields.len().to_string());
                fields.iter().for_each(|field| script.arg(&**field));
                // A table costs about as much as a field.
                size += 1 + weight(table) * fields.len();
                group.extend(parts.pop_front());
            }
            let reply = match self.run_step(&READ, &script).await? {
                Step::Done(reply) => reply,
                Step::Stale(version) => return Ok(Step::Stale(version)),
                Step::Absent => return Ok(Step::Absent),
            };
            let mut replies = items(&reply).iter().skip(3);
            for (at, _, fields) in group {
                // A key of another type reads as empty here, and is quarantined when it is written.
                let reply = replies.next().map_or(&[][..], items).iter();
                let reply = reply.map(|value| bytes(value).map(<[u8]>::to_vec));
                values[at].extend(reply.chain(std::iter::repeat(None)).take(fields.len()));
            }
        }
        Ok(Step::Done(values))
    }

    pub(super) async fn list_values(&self, table: &Table) -> Result<Fields, StoreError> {
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
