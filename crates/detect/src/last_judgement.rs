//! The last judgement, without the changes that it found.

use super::minute::{Sight, Watched};
use tower_pulse_model::pack::{self, packed};

/// The last judgement, without the changes that it found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LastJudgement {
    /// Distinguishes two judgements; empty before the first.
    pub revision: std::sync::Arc<str>,
    /// The number of the judgement. What a later one has written beside it does not count yet.
    pub number: u64,
    /// The end of the last minute that was judged, in Unix seconds.
    pub until: i64,
    /// How well the detector could see.
    pub sight: Sight,
    /// The contexts that are likely slower, by name, the most certain first.
    pub watched: Vec<(std::sync::Arc<str>, Watched)>,
}

packed!(LastJudgement {
    revision,
    number,
    until,
    sight,
    watched
});
packed!(Watched {
    since,
    ratio,
    is_tail
});
packed!(Sight {
    contexts,
    compared,
    gaps
});

impl LastJudgement {
    /// The packed judgement.
    pub fn pack(&self) -> Vec<u8> {
        pack::pack(self)
    }

    /// Unpacks a judgement; `None` if the bytes are not one.
    pub fn unpack(bytes: &[u8]) -> Option<Self> {
        pack::unpack(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_judgement_is_the_same_after_it_was_packed() {
        let watched = Watched {
            since: 1_700_000_040,
            ratio: 1.5,
            is_tail: true,
        };
        let judged = LastJudgement {
            revision: "a".into(),
            number: 7,
            until: 1_700_000_000,
            sight: Sight {
                contexts: 3,
                compared: 2,
                gaps: 1,
            },
            watched: vec![("GET /".into(), watched)],
        };
        assert_eq!(LastJudgement::unpack(&judged.pack()), Some(judged));
    }
}
