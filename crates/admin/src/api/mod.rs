//! The JSON API: which question a request asks ([`question`]), and several questions in one
//! ([`screen`]). The answers are those of [`query`](crate::query), written as JSON.

pub(super) mod changes;
pub(super) mod marks;
pub(super) mod question;
pub(super) mod screen;
