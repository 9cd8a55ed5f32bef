//! The result of the last judgement: the changes and the state of the detector, in fields of tables.
//!
//! The name of a field begins with the number of the judgement that wrote the field. A field with a higher number than
//! the last judgement is from an unfinished judgement, and does not count. The few fields of [`Table::Errors`] have no
//! numbers, because only the last step of a judgement changes them.

use std::sync::Arc;

use super::acknowledgements::{ACKNOWLEDGED_FIELD, Acknowledgements};
use super::table::Table;
use super::table_reads::{
    Field, Purpose, TableRead, TableReader, read_pages, read_table, read_value,
};
use crate::error::{Result, StoreError, StoreErrorKind};
use crate::task::boxed;
use tower_pulse_detect::change::Change;
use tower_pulse_detect::last_judgement::LastJudgement;
use tower_pulse_model::pack::unpack;
use tower_pulse_model::sorted::Map;

/// The field of [`Table::Judgement`] that holds the last judgement.
pub const JUDGED: &[u8] = b"judged";

/// Time to live of the tables after the last judgement, in seconds. Without a history, no records live longer.
pub const JUDGEMENT_TTL: i64 = 16 * 86_400;

/// The maximum number of reads of the tables while other instances write them.
const MAX_READS: usize = 3;
/// The highest number of a judgement. A field with a higher number is not from this crate.
const MAX_NUMBER: u64 = 1 << 48;
const NUMBER_BYTES: usize = size_of::<u64>();

/// The last judgement as it is stored.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoredJudged {
    /// The value of the field; `None` if the field is missing.
    pub value: Option<Vec<u8>>,
    /// The judgement; the default if the value is missing or unreadable.
    pub judged: LastJudgement,
}

impl StoredJudged {
    /// Reads the judgement from the value of its field.
    pub fn new(value: Option<Vec<u8>>) -> Self {
        let judged = value.as_deref().and_then(read);
        Self {
            judged: judged.unwrap_or_default(),
            value,
        }
    }

    /// The number of the judgement; `None` if the number is unknown. All fields then count.
    pub fn number(&self) -> Option<u64> {
        let judged = self.value.as_deref().and_then(read);
        judged.map(|judged| judged.number)
    }
}

fn read(value: &[u8]) -> Option<LastJudgement> {
    unpack(value).filter(|judged: &LastJudgement| judged.number <= MAX_NUMBER)
}

/// The last judgement and the changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChangeLog {
    /// The judgement.
    pub judged: LastJudgement,
    /// The ongoing and the ended changes, unordered.
    pub changes: Vec<Change>,
    /// The acknowledgements of changes.
    pub acknowledged: Acknowledgements,
}

impl ChangeLog {
    /// The end of the last minute that was judged, in Unix seconds; `None` if no minute was judged yet.
    pub fn judged_until(&self) -> Option<i64> {
        (self.judged.until > 0).then_some(self.judged.until)
    }
}

/// The result of the last judgement.
#[derive(Clone, Debug, Default)]
pub struct Judgement {
    /// The judgement.
    pub stored: StoredJudged,
    /// The fields of the changes.
    pub changes: NumberedFields,
    /// The fields of the detector's state.
    pub detector: NumberedFields,
    /// The fields of [`Table::Errors`].
    pub errors: Map<Vec<u8>, Vec<u8>>,
}

/// The fields of a table that count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NumberedFields {
    /// By name, the value of each field and the number of the judgement that wrote it.
    pub by_name: Map<Vec<u8>, (u64, Vec<u8>)>,
    /// Fields that do not count.
    pub obsolete: Vec<Vec<u8>>,
}

impl NumberedFields {
    /// Keeps the fields that count after the judgement with the number `last`; all fields if `last` is `None`.
    fn new(fields: Vec<Field>, last: Option<u64>) -> Self {
        let mut counting = Self::default();
        for (field, value) in fields {
            counting.add(field, value, last);
        }
        counting
    }

    /// Adds a field. A field whose number is higher than `last` does not count.
    fn add(&mut self, field: Vec<u8>, value: Vec<u8>, last: Option<u64>) {
        let Some((number, name)) = split(&field) else {
            return;
        };
        let before = self.by_name.get(name).map(|(number, _)| *number);
        if before == Some(number) {
            // An earlier page contained this field.
            return;
        }
        if last.is_some_and(|last| number > last) || before.is_some_and(|before| before > number) {
            self.obsolete.push(field);
            return;
        }
        self.obsolete
            .extend(before.map(|before| field_name(before, name)));
        self.by_name.insert(name.to_vec(), (number, value));
    }

    /// The highest number of all fields.
    pub fn highest(&self) -> u64 {
        let counting = self.by_name.values().map(|(number, _)| *number);
        let obsolete = self.obsolete.iter().filter_map(|field| split(field));
        counting
            .chain(obsolete.map(|(number, _)| number))
            .max()
            .unwrap_or(0)
    }
}

/// The name of a field that a judgement writes.
pub fn field_name(number: u64, name: &[u8]) -> Vec<u8> {
    [&number.to_be_bytes()[..], name].concat()
}

fn split(field: &[u8]) -> Option<(u64, &[u8])> {
    let (number, name) = field.split_first_chunk::<NUMBER_BYTES>()?;
    let number = u64::from_be_bytes(*number);
    (number <= MAX_NUMBER).then_some((number, name))
}

/// Reads the last judgement.
pub async fn read_judged(reader: &dyn TableReader) -> Result<StoredJudged> {
    let value = read_value(reader, Purpose::Query, Table::Judgement, JUDGED).await?;
    Ok(StoredJudged::new(value))
}

async fn read_state(reader: &dyn TableReader) -> Result<(StoredJudged, Acknowledgements)> {
    let fields = TableRead::Values(
        Table::Judgement,
        [JUDGED, ACKNOWLEDGED_FIELD].map(Vec::from).into(),
    );
    let mut page = read_table(reader, Purpose::Query, fields).await?;
    let acknowledged = Acknowledgements::new(page.value());
    Ok((StoredJudged::new(page.value()), acknowledged))
}

/// Reads the changes. Fields without a change are left out.
pub async fn read_changes(reader: &dyn TableReader) -> Result<ChangeLog> {
    let (stored, acknowledged, fields) = boxed(read_all(reader, &[Table::Changes])).await?;
    let last = stored.number();
    let fields = fields.into_iter();
    let fields = fields.map(|fields| NumberedFields::new(fields, last));
    let mut changes: Vec<_> = fields.flat_map(|fields| changes_in(&fields)).collect();
    acknowledged.attach_to(&mut changes);
    Ok(ChangeLog {
        changes,
        judged: stored.judged,
        acknowledged,
    })
}

/// The changes that the store has. Reads the changes again only if `last` does not have the store's judgement.
pub async fn read_changes_after(
    reader: &dyn TableReader,
    last: Arc<ChangeLog>,
) -> Result<Arc<ChangeLog>> {
    let (stored, acknowledged) = read_state(reader).await?;
    let revision = &stored.judged.revision;
    if revision.is_empty() || *revision != last.judged.revision {
        return Ok(Arc::new(read_changes(reader).await?));
    }
    if acknowledged == last.acknowledged {
        return Ok(last);
    }
    let mut log = ChangeLog::clone(&last);
    acknowledged.attach_to(&mut log.changes);
    log.acknowledged = acknowledged;
    Ok(Arc::new(log))
}

/// The changes that these fields hold.
pub fn changes_in(fields: &NumberedFields) -> Vec<Change> {
    let fields = fields.by_name.iter();
    let changes = fields.filter_map(|(id, (_, change))| {
        unpack(change).filter(|change: &Change| change.id.as_bytes() == &**id)
    });
    changes.collect()
}

/// Reads the result of the last judgement.
pub async fn read_judgement(reader: &dyn TableReader) -> Result<Judgement> {
    let tables = [Table::Changes, Table::Detector, Table::Errors];
    let (stored, _, fields) = boxed(read_all(reader, &tables)).await?;
    let (last, mut fields) = (stored.number(), fields.into_iter());
    let mut next = || fields.next().unwrap_or_default();
    Ok(Judgement {
        stored,
        changes: NumberedFields::new(next(), last),
        detector: NumberedFields::new(next(), last),
        errors: next().into_iter().collect(),
    })
}

/// Reads tables page by page. Reads them again if another instance wrote a judgement meanwhile.
async fn read_all(
    reader: &dyn TableReader,
    tables: &[Table],
) -> Result<(StoredJudged, Acknowledgements, Vec<Vec<Field>>)> {
    let mut stored = read_judged(reader).await?;
    for _ in 0..MAX_READS {
        let mut read = Vec::with_capacity(tables.len());
        for table in tables {
            // A read for a query leaves out a table that is too large. All changes in the table would then seem to have
            // ended.
            read.push(boxed(read_pages(reader, Purpose::Fold, table, usize::MAX)).await?);
        }
        let (after, acknowledged) = read_state(reader).await?;
        if after == stored {
            return Ok((stored, acknowledged, read));
        }
        stored = after;
    }
    Err(StoreError::new(
        StoreErrorKind::Unexpected,
        "the changes were rewritten during each of three reads: try again".to_owned(),
    ))
}
