//! Rankings in a build without the feature `fold-rankings`. The only store of such a build is in memory, and has no
//! rankings.

use super::{FieldWrites, Leased, LeasedStore, Plans, Round};

#[derive(Default)]
pub(super) struct Rankings {}

impl Rankings {
    pub(super) async fn expire(&mut self, _: &mut LeasedStore<'_>, _: i64) -> Leased<()> {
        Ok(())
    }

    pub(super) async fn merge(
        &mut self,
        _: &mut LeasedStore<'_>,
        _: &Round,
        _: &mut Plans,
    ) -> Leased<()> {
        Ok(())
    }

    pub(super) fn writes(&mut self, _: &[usize]) -> Vec<FieldWrites> {
        Vec::new()
    }

    pub(super) async fn limit(&mut self, _: &mut LeasedStore<'_>) -> Leased<()> {
        Ok(())
    }
}
