//! Exports: what this store writes for other programs, and what they have added to it.

mod book;
