//! Marks that are posted.
