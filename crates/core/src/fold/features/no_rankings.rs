//! The rankings of a build with a store of this process alone, which has none without the feature `rankings`.

use super::{FieldWrites, Ground, Leased, Plans, Round};

/// No rankings.
#[derive(Default)]
pub(super) struct Rankings {}

impl Rankings {
    pub(super) async fn expire(&mut self, _: &mut Ground<'_>, _: i64) -> Leased<()> {
        Ok(())
    }

    pub(super) async fn merge(
        &mut self,
        _: &mut Ground<'_>,
        _: &Round,
        _: &mut Plans,
    ) -> Leased<()> {
        Ok(())
    }

    pub(super) fn writes(&mut self, _: &[usize]) -> Vec<FieldWrites> {
        Vec::new()
    }

    pub(super) async fn limit(&mut self, _: &mut Ground<'_>) -> Leased<()> {
        Ok(())
    }
}
