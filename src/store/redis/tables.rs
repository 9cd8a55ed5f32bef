//! The tables of the store, as an instance that folds reads them.

use std::collections::VecDeque;

use redis::{Value, pipe};

use super::RedisStore;
use super::connection::Role;
use super::oversized::Reply;
use super::script::READ;
use super::stream::Oversized;
use super::value::{bytes, int, items, pairs, text};
use crate::error::StoreError;
use crate::model::minute_report::MAX_REPORTED;
use crate::store::journal::{FieldPage, FieldValues, Step};
use crate::store::table::Table;

/// Fields that one script reads, or fewer large ones.
const FIELDS_AT_ONCE: usize = 500;

/// The same after an answer that was too large. No field of a script's answer is larger than 1 MiB.
const LARGE_FIELDS_AT_ONCE: usize = 8;
/// Tables of which one pipeline reads a page.
const PAGES_AT_ONCE: usize = 16;
/// The cursor at which a scan begins and ends.
const START: &str = "0";

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
        match self
            .load_in_parts(instance, version, fields, FIELDS_AT_ONCE)
            .await
        {
            // Another program has written large ones.
            Err(error) if Oversized::caused(&error) => {
                let most = LARGE_FIELDS_AT_ONCE;
                self.load_in_parts(instance, version, fields, most).await
            }
            result => result,
        }
    }

    /// Reads about `most` small fields at once.
    async fn load_in_parts(
        &self,
        instance: &str,
        version: &str,
        fields: &[(Table, Vec<Vec<u8>>)],
        most: usize,
    ) -> Result<Step<Vec<FieldValues>>, StoreError> {
        let mut values = vec![FieldValues::new(); fields.len()];
        let parts = fields.iter().enumerate().flat_map(|(at, (table, fields))| {
            let parts = fields.chunks((most / weight(table)).max(1));
            parts.map(move |fields| (at, table, fields))
        });
        let mut parts: VecDeque<_> = parts.collect();
        while !parts.is_empty() {
            let mut script = self.read_step(instance, version, ["", ""]);
            let (mut group, mut size) = (Vec::new(), 0);
            while let Some((_, table, fields)) = parts.front()
                && (size == 0 || size + weight(table) * fields.len() <= most)
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

    pub(super) async fn list_values(
        &self,
        pages: &[(Table, Option<String>)],
    ) -> Result<Vec<FieldPage>, StoreError> {
        let mut read = Vec::with_capacity(pages.len());
        for part in pages.chunks(PAGES_AT_ONCE) {
            match self.scan(part, FIELDS_AT_ONCE).await {
                // Another program has added large ones.
                Err(error) if Oversized::caused(&error) => {
                    read.extend(self.scan(part, LARGE_FIELDS_AT_ONCE).await?);
                }
                pages => read.extend(pages?),
            }
        }
        Ok(read)
    }

    async fn scan(
        &self,
        pages: &[(Table, Option<String>)],
        count: usize,
    ) -> Result<Vec<FieldPage>, StoreError> {
        let mut pipeline = pipe();
        for (table, from) in pages {
            let scan = pipeline.cmd("HSCAN").arg(self.keys.table(table));
            scan.arg(from.as_deref().unwrap_or(START));
            scan.arg("COUNT").arg(count);
        }
        let replies = self.connections.pipeline(Role::Fold, &mut pipeline).await?;
        Ok(replies.iter().map(page_in).collect())
    }

    pub(super) async fn count_values(&self, tables: &[Table]) -> Result<Vec<usize>, StoreError> {
        let mut pipeline = pipe();
        for table in tables {
            let command = match table {
                Table::RankingTotals { .. } => "ZCARD",
                _ => "HLEN",
            };
            pipeline.cmd(command).arg(self.keys.table(table));
        }
        let replies = self.connections.pipeline(Role::Fold, &mut pipeline).await?;
        let count = |reply: &Reply| {
            let count = reply.as_ref().ok().and_then(int);
            count.and_then(|n| usize::try_from(n).ok()).unwrap_or(0)
        };
        Ok(replies.iter().map(count).collect())
    }
}

/// The page in an answer to HSCAN.
fn page_in(reply: &Reply) -> FieldPage {
    // A key of another type reads as empty here, and is quarantined when it is written.
    let Some([next, fields]) = reply.as_ref().ok().map(items) else {
        return FieldPage::default();
    };
    let field =
        |(field, value): (&Value, &Value)| Some((bytes(field)?.to_vec(), bytes(value)?.to_vec()));
    FieldPage {
        fields: pairs(fields).filter_map(field).collect(),
        next: text(next).filter(|next| *next != START).map(str::to_owned),
    }
}
