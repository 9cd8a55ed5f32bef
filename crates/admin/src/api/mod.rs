//! The parts of the API that are not single questions: several questions at once ([`screen`]), and writes.

pub(super) mod changes;
pub(super) mod marks;
pub(super) mod screen;
