//! What records there are, without the records.

use std::collections::HashMap;

use redis::{Value, pipe};

use super::super::RedisStore;
use super::super::value::{int, items, pairs, text};
use super::{MAX_NAMES, ROLLED, rolled_up};
use crate::error::StoreError;
use crate::model::context::{ALL, ContextId, Kind, fnv1a};
use crate::model::tier::{Revision, TierSlice};
use crate::store::RecordIndex;

impl RedisStore {
    pub(in crate::store::redis) async fn read_record_index(
        &self,
        now: i64,
    ) -> Result<RecordIndex, StoreError> {
        let keys = &self.keys;
        let mut pipeline = pipe();
        // In this order: a minute that is rolled up in between counts as pending, and the record of the wider
        // slice, which is read later, says that the minute is part of it.
        let state = pipeline.cmd("HMGET").arg(keys.state());
        state.arg(ROLLED).arg("created");
        pipeline.cmd("HGETALL").arg(keys.revisions());
        for key in [keys.contexts(), keys.timers()] {
            pipeline.cmd("ZREVRANGE").arg(key).arg(0).arg(MAX_NAMES - 1);
        }
        let replies = self.read(&mut pipeline).await?;
        // A key of another type reads as empty.
        let reply = |at: usize| replies.get(at).and_then(|reply| reply.as_ref().ok());
        let state = reply(0).map_or(&[][..], items);
        let names = [(2, Kind::Http), (3, Kind::Timer)];
        let contexts = names.into_iter().flat_map(|(at, kind)| {
            let names = reply(at).map_or(&[][..], items).iter().filter_map(text);
            names
                .filter(|name| *name != ALL)
                .map(move |name| ContextId::new(kind, name))
        });
        Ok(RecordIndex {
            contexts: contexts.collect(),
            revisions: reply(1).map_or_else(HashMap::new, revisions),
            rolled: rolled_up(state.first(), now),
            created: state.get(1).and_then(int).unwrap_or(now),
        })
    }
}

/// Reads the key of the revisions, whose fields are `{tier}:{place}` and `{slice} {version}`.
pub(super) fn revisions(hash: &Value) -> HashMap<TierSlice, Revision> {
    let revision = |(field, value): (&Value, &Value)| {
        let (seconds, _) = text(field)?.split_once(':')?;
        let (slice, version) = text(value)?.split_once(' ')?;
        let at = (seconds.parse().ok()?, slice.parse().ok()?);
        Some((at, fnv1a(version.bytes())))
    };
    pairs(hash).filter_map(revision).collect()
}
