//! Writes between two rounds of folding that depend on what a table has.
//!
//! They are steps as those of a round are: each gives the version of the journal's state and sets the next. So none takes
//! effect twice, and of two instances that write at once one does.

use super::table::{FieldWrites, Table};
use crate::error::StoreError;
use crate::task::BoxFuture;

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

/// An instance that may write between two rounds.
pub trait BetweenRounds: Send + Sync {
    /// Whether this instance is the one that folds.
    fn is_folder(&self) -> bool;

    /// Makes this instance fold if no other one does, also if no entry waits: what is due between rounds is done then.
    fn attend(&self);

    /// Writes if this instance holds the lease to fold, or if that is free. A round that was begun is finished first.
    fn write<'a>(
        &'a self,
        write: &'a ConditionalWrite,
    ) -> BoxFuture<'a, Result<Written, StoreError>>;

    /// Writes also if another instance holds the lease, which then has to acquire it again.
    fn write_by_hand<'a>(
        &'a self,
        write: &'a ConditionalWrite,
    ) -> BoxFuture<'a, Result<Written, StoreError>>;
}
