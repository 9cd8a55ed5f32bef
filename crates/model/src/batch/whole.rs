//! Records of another store in a batch.

use super::Batch;
use crate::aggregate::Aggregate;
use crate::context::ContextId;
use crate::context_delta::add_record;
use crate::slices::Merge;
use crate::tier::{TIERS, TierSlice};

impl Batch {
    /// Adds a record of another store to its tier, and to no other. `last_seen` is when the context last had a sample.
    pub fn add_whole(
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
    pub fn add_slice(
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
