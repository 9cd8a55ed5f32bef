//! What the fields of the tables tell a reader, the same in each store. A field that cannot be read is left out.

use std::sync::Arc;

use super::query::{InstanceMinuteRecords, VersionRecords};
use crate::model::context::Kind;
use crate::model::pack;
use crate::model::ranking_specs::CarriedSpecs;
use crate::model::records::{Record, RecordId, sort_by_id};
use crate::model::slow_request::SlowRequests;
use crate::model::sorted;

/// The slow and failed requests of a context, from its field of the hour.
pub(super) fn slow_requests(field: Option<&[u8]>, kind: Kind) -> SlowRequests {
    let list = field.and_then(|list| pack::read_slow_requests(list, kind));
    list.unwrap_or_else(|| SlowRequests::of(kind))
}

/// The records of a slice, in no order.
pub(super) fn records<'a>(
    fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
) -> Vec<(RecordId, Record)> {
    let record = |(id, record): (&[u8], &[u8])| {
        Some((RecordId::from_bytes(id)?, pack::read_record(record)?))
    };
    fields.filter_map(record).collect()
}

/// The instances of a minute, by name.
pub(super) fn instances<'a>(
    fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
) -> Vec<InstanceMinuteRecords> {
    let instance = |(instance, packed): (&[u8], &[u8])| {
        let minute = pack::read_instance_minute(packed)?;
        Some(InstanceMinuteRecords {
            instance: std::str::from_utf8(instance).ok()?.into(),
            version: minute.version,
            records: minute.contexts,
        })
    };
    let mut instances: Vec<_> = fields.filter_map(instance).collect();
    instances.sort_unstable_by(|a, b| a.instance.cmp(&b.instance));
    instances
}

/// The versions that ran side by side in a minute.
pub(super) fn versions<'a>(
    minute: i64,
    fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
) -> impl Iterator<Item = VersionRecords> {
    let mut versions: Vec<(Arc<str>, Vec<_>)> = Vec::new();
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
    versions.into_iter().map(move |(version, mut records)| {
        sort_by_id(&mut records);
        VersionRecords {
            minute,
            version,
            records,
        }
    })
}

/// What the operator should know of rankings with several configurations, in order.
pub(super) fn ranking_warnings<'a>(
    fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
) -> Vec<String> {
    let warning = |(name, specs)| {
        let specs = CarriedSpecs::from_text(std::str::from_utf8(specs).ok()?)?;
        let name = std::str::from_utf8(name).ok()?;
        specs.is_mixed().then(|| specs.warning(name))
    };
    let mut warnings: Vec<String> = fields.filter_map(warning).collect();
    warnings.sort_unstable();
    warnings.dedup();
    warnings
}
