//! Which hosts may be asked for.
