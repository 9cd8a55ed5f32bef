//! Records of another store in a batch.

use super::Batch;
use crate::aggregate::Aggregate;
use crate::context::ContextId;
use crate::slices::Merge;
use crate::tier::TierSlice;

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
}
