//! Reads the minute reports of instances and of versions of the application.

use std::sync::Arc;

use super::{Field, unpacked};
use crate::store::StoreFuture;
use crate::store::table::Table;
use crate::store::table_reads::TableReader;
use tower_pulse_model::minute_report::{InstanceMinute, ReportedContext};
use tower_pulse_model::order::InOrder;
use tower_pulse_model::records::{RecordId, sort_by_id};
use tower_pulse_model::{pack, sorted};

/// The report of each instance about a minute, sorted by the name of the instance.
pub type InstanceReports = Vec<(Arc<str>, InstanceMinute)>;

/// For each version of the application that ran beside another version in a minute: the version, and its contexts in
/// the order of their ids.
pub type VersionRecords = Vec<(Arc<str>, Vec<ReportedContext>)>;

pub(in crate::store) fn minute_reports<'a>(
    reader: &'a dyn TableReader,
    minutes: &'a [i64],
) -> StoreFuture<'a, Vec<InstanceReports>> {
    let tables = minutes.iter().copied();
    let tables = tables.map(|minute| Table::InstanceMinutes { minute });
    Box::pin(unpacked(reader, tables, instances))
}

pub(in crate::store) fn version_records<'a>(
    reader: &'a dyn TableReader,
    minutes: &'a [i64],
) -> StoreFuture<'a, Vec<VersionRecords>> {
    let tables = minutes.iter().copied();
    let tables = tables.map(|minute| Table::VersionMinutes { minute });
    Box::pin(unpacked(reader, tables, versions))
}

fn instances(fields: &[Field]) -> InstanceReports {
    let instance = |(instance, packed): &Field| {
        let name = std::str::from_utf8(instance).ok()?;
        Some((name.into(), pack::unpack(packed)?))
    };
    let mut instances: InstanceReports = fields.iter().filter_map(instance).collect();
    instances.order_by(|(a, _), (b, _)| a.cmp(b));
    instances
}

fn versions(fields: &[Field]) -> VersionRecords {
    let mut versions = Vec::new();
    for (field, packed) in fields {
        let context = || {
            let (id, version) = field.split_at_checked(8)?;
            let version = std::str::from_utf8(version).ok()?;
            let aggregate = pack::read_aggregate(packed)?;
            Some((version, (RecordId::from_bytes(id)?, aggregate)))
        };
        if let Some((version, context)) = context() {
            sorted::entry(&mut versions, version.into(), Vec::new).push(context);
        }
    }
    for (_, contexts) in &mut versions {
        sort_by_id(contexts);
    }
    versions
}
