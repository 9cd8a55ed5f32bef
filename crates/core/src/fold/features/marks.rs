//! Folding marks: keeps the newest marks. A new mark with a version is ignored if, of the marks with a version, the
//! nearest before or after it in time has the same version.

use crate::fold::leased_store::{Leased, LeasedStore};
use crate::fold::plan::{NAMES_AT_ONCE, Plans};
use crate::store::marks;
use crate::store::table::{FieldWrites, Table};
use crate::task::boxed;
use tower_pulse_model::mark::{Marks, StoredMark};
use tower_pulse_model::pack::pack;
use tower_pulse_model::round::{PARTITION_OF_MARKS, Round};
use tower_pulse_model::sorted::Map;

/// The most fields that one round removes because their marks are unreadable or no longer retained.
const MAX_SURPLUS: usize = 1_000;

pub(super) async fn merge(
    leased: &LeasedStore<'_>,
    round: &Round,
    plans: &mut Plans,
) -> Leased<()> {
    let added = round.marks();
    if added.is_empty() || !leased.is_left(PARTITION_OF_MARKS) {
        return Ok(());
    }
    // This read may see any version of the journal's state, and only lists ids. The values are read again under the
    // version that the step expects.
    let listed = boxed(marks::read(leased.journal)).await?;
    let ids: Vec<_> = listed.marks.as_slice().iter().map(id_of).collect();
    let fields = [(Table::Marks, ids.clone())];
    let values = leased.load(&fields).await?;
    let values = ids.iter().zip(values.into_iter().flatten());
    let stored = values.filter_map(|(id, value)| StoredMark::unpack(id, &value?));
    let before = Marks::new(stored);
    let mut after = before.clone();
    for (number, mark) in added.into_iter().enumerate() {
        after.add(mark.clone());
        if number % NAMES_AT_ONCE == 0 {
            tokio::task::yield_now().await;
        }
    }
    let [old, new] = [&before, &after].map(|marks| -> Map<Vec<u8>, &StoredMark> {
        let marks = marks.as_slice().iter();
        marks.map(|stored| (id_of(stored), stored)).collect()
    });
    let mut write = FieldWrites::new(Table::Marks, None);
    let added = new.iter().filter(|(id, _)| !old.contains_key(*id));
    write.set = added
        .map(|(id, stored)| (id.clone(), pack(*stored)))
        .collect();
    let gone = old.keys().filter(|id| !new.contains_key(*id)).cloned();
    let surplus = listed.surplus.into_iter();
    let surplus = surplus.filter(|field| !new.contains_key(field));
    write.removed = gone.chain(surplus.take(MAX_SURPLUS)).collect();
    let cost = write.set.len() + write.removed.len();
    if cost > 0 {
        let plan = plans.of(PARTITION_OF_MARKS);
        plan.cost += cost;
        plan.fields.push(write);
    }
    Ok(())
}

fn id_of(stored: &StoredMark) -> Vec<u8> {
    stored.mark.id.as_bytes().to_vec()
}
