//! The figures of the last judgement.

use super::minute::{Coverage, Watched};
use tower_pulse_model::pack::packed;

packed! {
    /// The last judgement (the judging of a minute), without the changes that were found.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct LastJudgement {
        /// Differs between judgements; empty before the first.
        pub revision: std::sync::Arc<str>,
        /// The number of the judgement. Stored fields with a higher number belong to an unfinished judgement.
        pub number: u64,
        /// The end of the last minute that was judged, in Unix seconds.
        pub until: i64,
        /// How much of the traffic the detector could compare.
        pub coverage: Coverage,
        /// The contexts that are likely slower, by name, most certain first.
        pub watched: Vec<(std::sync::Arc<str>, Watched)>,
    }
}
