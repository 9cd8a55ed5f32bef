//! The ranking of the slowest 100 contexts, as in the recipe *access times*.

use crate::order::InOrder;

/// The number of contexts in the ranking.
pub const RANKING_LEN: usize = 100;

/// The type of the ranked statistics, as the book names it.
pub const ACCESS_TIME: &str = "AccessTime";

/// A context in the ranking of the slowest.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RankedContext {
    /// The name of the context.
    pub context: String,
    /// The mean duration, in seconds.
    pub mean: f64,
}

impl RankedContext {
    /// A context with its mean, in seconds.
    pub fn new(context: impl Into<String>, mean: f64) -> Self {
        Self {
            context: context.into(),
            mean,
        }
    }
}

/// Sorts contexts as `ZREVRANGE` would: slowest first. Contexts with the same mean are sorted by name, the last name
/// first.
pub fn sort(ranking: &mut [RankedContext]) {
    ranking.order_by(|a, b| {
        let by_mean = b.mean.total_cmp(&a.mean);
        by_mean.then_with(|| b.context.cmp(&a.context))
    });
}

#[cfg(test)]
mod tests {
    use super::{RankedContext, sort};

    #[test]
    fn slowest_first_then_the_later_name() {
        let ranked = [("a", 1.0), ("b", 2.0), ("c", 1.0)];
        let mut ranking = ranked.map(|(context, mean)| RankedContext::new(context, mean));
        sort(&mut ranking);
        let names: Vec<_> = ranking.iter().map(|ranked| &*ranked.context).collect();
        assert_eq!(names, ["b", "c", "a"]);
    }
}
