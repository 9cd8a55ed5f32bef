//! Writes between two rounds of folding that take effect only if a field has an expected value.
//!
//! Each step of such a write gives the version of the journal's state and replaces it, as a step of a round does. So a
//! step takes effect at most once. Of two instances that write at the same time, only one succeeds.

use super::table::{FieldWrites, Table};

/// Fields of tables to write if one field has the expected value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionalWrite {
    /// The field whose value is compared.
    pub compared: (Table, Vec<u8>),
    /// The value that the field must have; `None` if it must be missing.
    pub expected: Option<Vec<u8>>,
    /// The writes of each step. Until the last step takes effect, queries must have the same answers as before. Each
    /// step must change the value of the compared field, so that other instances notice if later steps are missing.
    pub steps: Vec<Vec<FieldWrites>>,
}

/// The outcome of a [`ConditionalWrite`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// All steps took effect.
    Done,
    /// The compared field does not have the expected value: another instance has written, or only some steps took
    /// effect.
    Differs,
    /// This instance does not have the lease to fold.
    NoLease,
}
