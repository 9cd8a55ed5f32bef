//! The parts of the bound of a process's memory, in words.

use crate::model::worst_case::{Bounds, ProcessBytes};

impl ProcessBytes {
    /// In a sentence, for the log.
    pub(super) fn in_words(&self, bounds: &Bounds) -> String {
        let folding = bytes(self.folding);
        let slices = match bounds.memory_bytes.is_some() {
            true => "the slices and histograms that are stored here",
            false => "slices and histograms that wait, only after the store was away for days",
        };
        format!(
            "it never takes more than {} of this process's memory: {} for {} contexts and {} counters, \
             {} for calls that may have to be sent again, {folding} while this instance folds the journal, {} while it looks for changes, and {} for {slices}, with requests in \
             every context, every minute and at every duration; fewer contexts take less in proportion, and the \
             admin pages take more while somebody looks at them",
            bytes(self.total()),
            bytes(self.in_use),
            bounds.max_contexts,
            bounds.max_counters,
            bytes(self.replay),
            bytes(self.judging),
            bytes(self.slices)
        )
    }
}

/// A number of bytes with a unit, for people.
pub(super) fn bytes(n: u64) -> String {
    match n {
        0..1_000_000 => format!("{} kB", n / 1_000),
        1_000_000..10_000_000 => format!("{:.1} MB", n as f64 / 1e6),
        _ => format!("{} MB", n / 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use crate::Builder;

    #[test]
    fn the_parts_add_up_to_the_bound() {
        let builder = Builder::default();
        let parts = builder.process_bytes();
        assert_eq!(parts.total(), builder.worst_case().process_bytes);
        assert!(parts.folding > 16 << 20 && parts.folding < 64 << 20);
        assert!(parts.slices > parts.in_use && parts.replay == 8 << 20);
        let words = parts.in_words(&builder.bounds());
        assert!(words.contains("2000 contexts"), "{words}");
        assert!(words.contains("8.4 MB for calls") && words.contains("stored here"));
    }

    #[cfg(feature = "redis")]
    #[test]
    fn with_redis_folding_is_a_part_of_it() {
        let builder = Builder::default().redis("redis://127.0.0.1/");
        let parts = builder.process_bytes();
        assert_eq!(parts.total(), builder.worst_case().process_bytes);
        assert!(parts.folding > 24 << 20);
        let words = parts.in_words(&builder.bounds());
        assert!(words.contains("folds the journal") && words.contains("away for days"));
    }
}
