//! What the API does beside answering one question: several at once ([`screen`]), and writes.

pub(super) mod changes;
pub(super) mod marks;
pub(super) mod screen;
