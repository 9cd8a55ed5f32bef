//! Records of another store in a batch.

use super::Batch;
use crate::model::aggregate::Aggregate;
use crate::model::context::ContextId;
use crate::model::context_delta::add_record;
use crate::model::slices::Merge;
use crate::model::tier::{TIERS, TierSlice};

impl Batch {
    /// Adds a record of another store to its tier, and to no other. `last_seen` is when the context last had a sample.
    pub(crate) fn add_whole(
        &mut self,
        context: &ContextId,
        last_seen: i64,
        at: TierSlice,
        sums: &Aggregate,
    ) {
        let delta = self.seen(context, last_seen);
        delta.whole.entry(at).or_default().merge(sums);
    }

    /// Adds a record of one of [`TIERS`], which becomes part of the coarser tiers too.
    pub(crate) fn add_slice(
        &mut self,
        context: &ContextId,
        last_seen: i64,
        (seconds, start): TierSlice,
        sums: &Aggregate,
    ) {
        let tier = TIERS.iter().position(|tier| tier.seconds == seconds);
        let delta = self.seen(context, last_seen);
        if let Some(tier) = tier {
            add_record(&mut delta.records, tier, start, sums.clone());
        }
    }
}
