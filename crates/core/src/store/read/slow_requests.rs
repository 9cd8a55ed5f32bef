//! The slowest and the newest failed requests.

use crate::store::StoreFuture;
use crate::store::table::Table;
use crate::store::table_reads::{Purpose, TableRead, TableReader, read_table};
use tower_pulse_model::context::ContextId;
use tower_pulse_model::records::RecordId;
use tower_pulse_model::slow_request::SlowRequests;

/// Asks for the slowest and the newest failed requests of contexts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SlowRequestQuery {
    /// The contexts; [`ContextId::all`] for the requests of all contexts together.
    pub contexts: Vec<ContextId>,
    /// The start of the hour, in Unix seconds. The current hour and the hour before are stored.
    pub hour: i64,
}

pub(in crate::store) fn slow_requests<'a>(
    reader: &'a dyn TableReader,
    query: &'a SlowRequestQuery,
) -> StoreFuture<'a, Vec<SlowRequests>> {
    Box::pin(async move {
        let ids = query.contexts.iter();
        let ids = ids.map(|context| RecordId::new(context.kind, &context.name).to_bytes().into());
        let table = Table::SlowRequests { hour: query.hour };
        let read = TableRead::Values(table, ids.collect());
        let fields = read_table(reader, Purpose::Query, read).await?.values;
        let list = |(context, field): (&ContextId, Option<Vec<u8>>)| {
            let list = field.and_then(|list| SlowRequests::unpack(&list, context.kind));
            list.unwrap_or_else(|| SlowRequests::of(context.kind))
        };
        Ok(query.contexts.iter().zip(fields).map(list).collect())
    })
}
