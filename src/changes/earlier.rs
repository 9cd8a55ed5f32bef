//! Compares a change with the same time yesterday and a week ago, where that is retained.

use super::MINUTE;
use crate::error::StoreError;
use crate::model::aggregate::Aggregate;
use crate::model::changes::change::{Change, ChangeKind, Earlier};
use crate::model::context::{ALL, ContextId, Kind};
use crate::model::slices::Merge;
use crate::model::tier::TIERS;
use crate::store::{RecordQuery, Store};

const DAY: i64 = 86_400;

/// Sets the figures of yesterday and of a week ago.
pub(super) async fn compare(
    store: &dyn Store,
    change: &mut Change,
    end: i64,
) -> Result<(), StoreError> {
    if change.kind == ChangeKind::Instance {
        return Ok(());
    }
    let [_, half_hours, quarters] = TIERS;
    change.yesterday = earlier(store, change, (end, DAY), half_hours.seconds).await?;
    change.week_ago = earlier(store, change, (end, 7 * DAY), quarters.seconds).await?;
    Ok(())
}

/// The figure of a change in the slice of `width` seconds around the moment `ago` seconds before `end`.
async fn earlier(
    store: &dyn Store,
    change: &Change,
    (end, ago): (i64, i64),
    width: u32,
) -> Result<Option<Earlier>, StoreError> {
    let context = match &*change.context {
        ALL => ContextId::all(),
        name => ContextId::new(Kind::Http, name),
    };
    let start = (end - ago - MINUTE).div_euclid(i64::from(width)) * i64::from(width);
    let query = RecordQuery {
        contexts: vec![context],
        width,
        now: end,
    };
    let records = store.records(&query).await?;
    let slices = records.iter().flat_map(|records| &records.slices);
    let mut sums = Aggregate::default();
    let of_slice = slices.filter(|slice| slice.start == start);
    of_slice.for_each(|slice| sums.merge(&slice.sums));
    let requests = sums.times.count;
    if requests == 0 {
        return Ok(None);
    }
    let (value, error) = match change.kind {
        ChangeKind::Failing => (sums.outcomes.errors as f64 / requests as f64, 0.0),
        ChangeKind::Surging | ChangeKind::Silent => {
            (requests as f64 * MINUTE as f64 / f64::from(width), 0.0)
        }
        _ => match sums.successes().mean() {
            Some(mean) => (mean, sums.histogram.error()),
            None => return Ok(None),
        },
    };
    Ok(Some(Earlier {
        value,
        ratio: if value > 0.0 { change.now / value } else { 0.0 },
        error,
        requests,
    }))
}
