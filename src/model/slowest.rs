//! The ranking of the slowest 100 contexts
//! ([recipe](crate::guide::recipes#4-access-times-and-the-slowest-100)).

/// Number of contexts in the ranking.
pub const RANKING_LEN: usize = 100;

/// The type of the statistics that are ranked, as the book names it.
pub const ACCESS_TIME: &str = "AccessTime";

/// Sorts contexts by mean, slowest first, and by name where means are equal, as `ZREVRANGE` would.
pub fn sort(ranking: &mut [(String, f64)]) {
    ranking.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| b.0.cmp(&a.0)));
}

#[cfg(test)]
mod tests {
    use super::sort;

    #[test]
    fn slowest_first_then_the_later_name() {
        let mut ranking = vec![("a".to_owned(), 1.0), ("b".into(), 2.0), ("c".into(), 1.0)];
        sort(&mut ranking);
        let names: Vec<_> = ranking.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["b", "c", "a"]);
    }
}
