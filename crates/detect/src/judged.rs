//! The last judgement, without what it found.

use super::minute::Sight;
use tower_pulse_model::pack::{self, packed};

/// The last judgement, without what it found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// Distinguishes two judgements; empty before the first.
    pub revision: std::sync::Arc<str>,
    /// The number of the judgement. What a later one has written beside it does not count yet.
    pub number: u64,
    /// The end of the last minute that was judged, in Unix seconds.
    pub until: i64,
    /// How well the detector could see.
    pub sight: Sight,
}

packed!(Judged {
    revision,
    number,
    until,
    sight
});
packed!(Sight {
    contexts,
    compared,
    gaps
});

impl Judged {
    /// The packed judgement.
    pub fn pack(&self) -> Vec<u8> {
        pack::pack(self)
    }

    /// Unpacks a judgement; `None` if the bytes are not one.
    pub fn unpack(bytes: &[u8]) -> Option<Self> {
        pack::unpack(bytes)
    }
}
