//! Adds the figures of yesterday and of a week ago to a change, if the store still has the records.

use super::MINUTE;
use crate::error::Result;
use crate::store::{RecordQuery, Store};
use tower_pulse_detect::change::{Change, ChangeKind, Earlier};
use tower_pulse_detect::detector::failed;
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::context::ContextId;
use tower_pulse_model::histogram::Histogram;
use tower_pulse_model::recorded::RecordedTime;
use tower_pulse_model::slice::Precision;
use tower_pulse_model::slices::Merge;
use tower_pulse_model::tier::TIERS;

const DAY: i64 = 86_400;

pub(super) async fn compare(
    store: &dyn Store,
    change: &mut Change,
    end: i64,
    recorded: &RecordedTime,
) -> Result<()> {
    if matches!(change.kind, ChangeKind::Instance | ChangeKind::NewError) {
        return Ok(());
    }
    let [_, half_hours, six_hours] = TIERS;
    change.yesterday = earlier(store, change, (end, DAY), half_hours, recorded).await?;
    change.week_ago = earlier(store, change, (end, 7 * DAY), six_hours, recorded).await?;
    Ok(())
}

/// The figure of a change in the slice of `tier` that contains the minute that ended `ago` seconds before `end`.
async fn earlier(
    store: &dyn Store,
    change: &Change,
    (end, ago): (i64, i64),
    tier: Precision,
    recorded: &RecordedTime,
) -> Result<Option<Earlier>> {
    let context = ContextId::of_judged(&change.context);
    let (width, start) = (tier.seconds, tier.slice(end - ago - MINUTE));
    let query = RecordQuery {
        contexts: vec![context],
        width,
        tier,
        now: end,
    };
    let records = store.query().records(&query).await?;
    let mut sums = Aggregate::default();
    let of_slice = records
        .iter()
        .flatten()
        .filter(|slice| slice.start == start);
    of_slice.for_each(|slice| sums.merge(&slice.sums));
    let requests = sums.times.count;
    if requests == 0 {
        return Ok(None);
    }
    let (value, error) = match change.kind {
        ChangeKind::Failing | ChangeKind::Refusing => {
            (failed(change.kind, &sums) as f64 / requests as f64, 0.0)
        }
        ChangeKind::Surging | ChangeKind::Silent => {
            // If `recorded` begins within the slice, the slice may have older requests. So the slice counts as recorded
            // from its start, except for gaps.
            let seconds = recorded
                .extended_to(start)
                .seconds(start, start + i64::from(width));
            (requests as f64 * MINUTE as f64 / seconds.max(1) as f64, 0.0)
        }
        _ => {
            let successes = sums.successes();
            let mean = match change.is_tail {
                true => mean_of_slowest_tenth(&successes),
                false => successes.mean(),
            };
            match mean {
                Some(mean) => (mean, sums.histogram.error()),
                None => return Ok(None),
            }
        }
    };
    Ok(Some(Earlier::new(value, change.now, error, requests)))
}

/// The mean of the slowest tenth, in seconds. Each duration counts as the middle of its bucket.
fn mean_of_slowest_tenth(histogram: &Histogram) -> Option<f64> {
    let tenth = histogram.count() as f64 / 10.0;
    let (mut sum, mut remaining) = (0.0, tenth);
    for (low, high, n) in histogram.ranges().rev() {
        let slowest = remaining.min(n as f64);
        sum += slowest * (low + high) / 2.0;
        remaining -= slowest;
    }
    (tenth > 0.0).then(|| sum / tenth)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_tenth_may_include_a_part_of_a_bucket() {
        for (histogram, expected) in [
            (Histogram::new(0, [(0, 80), (1, 15), (2, 5)]), 4.5e-6),
            (Histogram::new(0, [(3, 7)]), 12e-6),
        ] {
            let mean = mean_of_slowest_tenth(&histogram).expect("it is not empty");
            assert!((mean - expected).abs() < 1e-12, "{mean}");
        }
        assert_eq!(mean_of_slowest_tenth(&Histogram::default()), None);
    }
}
