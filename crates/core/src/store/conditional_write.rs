//! Writes between two rounds of folding that depend on the value of a field.
//!
//! They are steps, as those of a round are: each gives the version of the journal's state and sets the next. So each
//! takes effect at most once, and of two instances that write at the same time only one succeeds.

use super::table::{FieldWrites, Table};

/// Fields of tables to write if one field still has a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionalWrite {
    /// The field whose value is compared.
    pub compared: (Table, Vec<u8>),
    /// The value that the field must have; `None` if it must be missing.
    pub expected: Option<Vec<u8>>,
    /// The writes of each step. All steps but the last must leave the data that counts as it is. Each must give the
    /// compared field another value, so that others can tell that steps are missing.
    pub steps: Vec<Vec<FieldWrites>>,
}

/// The outcome of a [`ConditionalWrite`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// All steps took effect.
    Done,
    /// The compared field has another value: another instance has written, or only some steps took effect.
    Differs,
    /// This instance has no lease: another one folds, or none can.
    NoLease,
}
