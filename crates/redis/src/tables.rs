//! Reads the tables of the store: `load_values` at a given version of the state, `read_tables` at any version.

use std::collections::VecDeque;

use redis::{Pipeline, Value, pipe};

use super::RedisStore;
use super::connection::Role;
use super::large_keys::Reply;
use super::script::READ;
use super::value::{bytes, count, float, into_bytes, into_items, into_pairs, items, text};
use tower_pulse_core::error::Result;
use tower_pulse_core::store::StoreFuture;
use tower_pulse_core::store::journal::{FieldValues, VersionedResult};
use tower_pulse_core::store::table::Table;
use tower_pulse_core::store::table_reads::{
    Answers, Purpose, RankingPlace, TablePage, TableRead, TableReader,
};
use tower_pulse_model::minute_report::MAX_REPORTED;
use tower_pulse_model::pack;

/// The most small fields that one script reads. A large field counts as several.
const FIELDS_AT_ONCE: usize = 500;
/// The most tables of which one pipeline reads a page.
const PAGES_AT_ONCE: usize = 16;
/// The cursor at which a scan begins and ends.
const START: &str = "0";

/// The cost of reading a field of the table, as a number of small fields.
fn weight(table: &Table) -> usize {
    match table {
        Table::InstanceMinutes { .. } => MAX_REPORTED,
        _ => 1,
    }
}

fn values_command(table: &Table) -> &'static str {
    if table.is_ordered() {
        "ZMSCORE"
    } else {
        "HMGET"
    }
}

impl RedisStore {
    pub(super) async fn load_values(
        &self,
        instance: &str,
        version: &str,
        fields: &[(Table, Vec<Vec<u8>>)],
    ) -> Result<VersionedResult<Vec<FieldValues>>> {
        let mut values = vec![FieldValues::new(); fields.len()];
        let parts = fields.iter().enumerate().flat_map(|(at, (table, fields))| {
            let parts = fields.chunks((FIELDS_AT_ONCE / weight(table)).max(1));
            parts.map(move |fields| (at, table, fields))
        });
        let mut parts: VecDeque<_> = parts.collect();
        while !parts.is_empty() {
            let mut script = self.read_script(instance, version, None);
            let (mut group, mut size) = (Vec::new(), 0);
            while let Some((_, table, fields)) = parts.front()
                && (size == 0 || size + weight(table) * fields.len() <= FIELDS_AT_ONCE)
            {
                script.key(self.keys.table(table));
                script.arg((values_command(table), fields.len(), *fields));
                // In addition to its fields, each table costs about as much as one small field.
                size += 1 + weight(table) * fields.len();
                group.extend(parts.pop_front());
            }
            let reply = match self.run_versioned(&READ, &script).await? {
                VersionedResult::Done(reply) => reply,
                VersionedResult::Stale(version) => return Ok(VersionedResult::Stale(version)),
                VersionedResult::Absent => return Ok(VersionedResult::Absent),
            };
            let mut replies = items(&reply).iter().skip(3);
            for (at, _, fields) in group {
                // A key of another type reads as empty here, and is quarantined when it is written.
                let reply = replies.next().map_or(&[][..], items).iter();
                let reply = reply.map(|value| bytes(value).map(<[u8]>::to_vec));
                values[at].extend(reply.chain(std::iter::repeat(None)).take(fields.len()));
            }
        }
        Ok(VersionedResult::Done(values))
    }

    async fn send_reads(&self, purpose: Purpose, reads: &[TableRead]) -> Result<Vec<Reply>> {
        let mut pipeline = pipe();
        for read in reads {
            self.add_commands(&mut pipeline, read);
        }
        match purpose {
            Purpose::Fold => self.connections.pipeline(Role::Fold, &pipeline).await,
            Purpose::Query => self.read(&mut pipeline).await,
        }
    }

    /// Adds the commands of a read, one per reply that [`answer`] takes.
    fn add_commands(&self, pipeline: &mut Pipeline, read: &TableRead) {
        let key = |table: &Table| self.keys.table(table);
        match read {
            TableRead::Values(table, fields) if !fields.is_empty() => {
                let values = pipeline.cmd(values_command(table));
                values.arg(key(table)).arg(&**fields);
            }
            TableRead::Page(table, from) => {
                let scan = pipeline.cmd("HSCAN").arg(key(table));
                scan.arg(from.as_deref().unwrap_or(START));
                scan.arg("COUNT").arg(FIELDS_AT_ONCE / weight(table));
            }
            TableRead::All(table) => {
                pipeline.cmd("HGETALL").arg(key(table));
            }
            TableRead::Count(table) => {
                let command = if table.is_ordered() { "ZCARD" } else { "HLEN" };
                pipeline.cmd(command).arg(key(table));
            }
            TableRead::Ranks(table, ranks) if !ranks.is_empty() => {
                // The server's numbers are signed.
                let rank = |rank: usize| isize::try_from(rank).unwrap_or(isize::MAX);
                let (first, last) = (rank(ranks.start), rank(ranks.end - 1));
                pipeline.zrevrange_withscores(key(table), first, last);
            }
            TableRead::Places(table, ids) => {
                let key = key(table);
                for id in ids {
                    pipeline.cmd("ZSCORE").arg(&key).arg(&**id);
                    pipeline.cmd("ZREVRANK").arg(&key).arg(&**id);
                }
            }
            TableRead::State => {
                let state = pipeline.cmd("HMGET").arg(self.keys.state());
                state.arg(&["v", "rolled", "created", "since"]);
            }
            TableRead::Revisions => {
                pipeline.cmd("HGETALL").arg(self.keys.revisions());
            }
            TableRead::Values(..) | TableRead::Ranks(..) => {}
        }
    }
}

impl TableReader for RedisStore {
    fn name_of(&self, table: &Table) -> String {
        self.keys.table(table)
    }

    fn read_tables<'a>(
        &'a self,
        purpose: Purpose,
        reads: &'a [TableRead],
    ) -> StoreFuture<'a, Answers> {
        Box::pin(async move {
            let mut answers = Vec::with_capacity(reads.len());
            let mut unread = reads;
            while !unread.is_empty() {
                let (part, later) = unread.split_at(len_of_part(unread));
                let mut replies = self.send_reads(purpose, part).await?.into_iter();
                answers.extend(part.iter().map(|read| answer(read, &mut replies)));
                unread = later;
            }
            Ok(Answers::new(answers))
        })
    }
}

/// How many reads, from the first on, one pipeline answers.
fn len_of_part(reads: &[TableRead]) -> usize {
    let pages = reads.iter().enumerate();
    let mut pages = pages.filter(|(_, read)| matches!(read, TableRead::Page(..)));
    pages.nth(PAGES_AT_ONCE).map_or(reads.len(), |(at, _)| at)
}

/// A key of another type reads as empty here, and is quarantined when it is written.
fn answer(read: &TableRead, replies: &mut impl Iterator<Item = Reply>) -> TablePage {
    let mut next = || replies.next().and_then(Result::ok).unwrap_or(Value::Nil);
    match read {
        TableRead::Values(_, fields) if fields.is_empty() => TablePage::default(),
        TableRead::Ranks(_, ranks) if ranks.is_empty() => TablePage::default(),
        TableRead::Values(_, fields) => {
            let values = into_items(next()).into_iter().map(into_bytes);
            let values = values.chain(std::iter::repeat(None)).take(fields.len());
            TablePage::of_values(values.collect())
        }
        TableRead::Page(..) => page_in(next()),
        TableRead::All(_) | TableRead::Revisions => TablePage::of_fields(fields_in(next())),
        TableRead::Count(_) => TablePage::of_count(count(&next()).unwrap_or(0)),
        TableRead::Ranks(..) => {
            let ids = into_pairs(next());
            let ids = ids.filter_map(|(id, sum)| Some((into_bytes(id)?, score(&sum)?)));
            let ids = ids.map(|(id, sum)| (id, sum.to_string().into_bytes()));
            TablePage::of_fields(ids.collect())
        }
        TableRead::Places(_, ids) => {
            let mut place = || {
                let (score, rank) = (score(&next()), count(&next()));
                let (score, rank) = (score?, rank?);
                Some(pack::pack(&RankingPlace { score, rank }))
            };
            TablePage::of_values(ids.iter().map(|_| place()).collect())
        }
        TableRead::State => {
            let values = into_items(next()).into_iter().map(into_bytes);
            TablePage::of_values(values.collect())
        }
    }
}

fn page_in(value: Value) -> TablePage {
    let Ok([next, fields]) = <[Value; 2]>::try_from(into_items(value)) else {
        return TablePage::default();
    };
    TablePage {
        next: text(&next).filter(|next| *next != START).map(str::to_owned),
        ..TablePage::of_fields(fields_in(fields))
    }
}

fn fields_in(value: Value) -> Vec<(Vec<u8>, Vec<u8>)> {
    let fields = into_pairs(value);
    let fields = fields.filter_map(|(field, value)| Some((into_bytes(field)?, into_bytes(value)?)));
    fields.collect()
}

/// A score of a ranking. Scores are integers, unless another program has written them.
fn score(value: &Value) -> Option<i64> {
    float(value).map(|score| score as i64)
}
