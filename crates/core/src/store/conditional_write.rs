//! Writes between two rounds of folding that depend on what a table has.
//!
//! They are steps as those of a round are: each gives the version of the journal's state and sets the next. So none takes
//! effect twice, and of two instances that write at once one does.

use super::table::{FieldWrites, Table};

/// Fields of tables to write if one field still has a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionalWrite {
    /// The field that is compared.
    pub compared: (Table, Vec<u8>),
    /// The value that it must have; `None` if it must be missing.
    pub expected: Option<Vec<u8>>,
    /// The writes of each step. Each step but the last must leave what counts as it is, and all must give the compared
    /// field another value: others see by it that steps are missing.
    pub steps: Vec<Vec<FieldWrites>>,
}

/// What became of a [`ConditionalWrite`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// All steps took effect.
    Done,
    /// The compared field has another value: another instance has written, or only some steps took effect.
    Differs,
    /// Another instance folds, or none can.
    Held,
}
