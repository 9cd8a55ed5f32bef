//! Conformance of the stores: one suite, run against memory and against a real server, and what
//! only Redis can get wrong.

#![cfg(feature = "redis")]
#![allow(clippy::unwrap_used, unreachable_pub, missing_docs)]

mod rig;

#[path = "stores/bed.rs"]
mod bed;
#[path = "stores/book.rs"]
mod book;
#[path = "stores/equal.rs"]
mod equal;
#[path = "stores/oversized.rs"]
mod oversized;
#[path = "stores/own_keys.rs"]
mod own_keys;
#[path = "stores/poison.rs"]
mod poison;
#[path = "stores/server.rs"]
mod server;
#[path = "stores/suite.rs"]
mod suite;
#[path = "stores/takeover.rs"]
mod takeover;
#[path = "stores/tls.rs"]
mod tls;

/// Each test of the suite, against each store.
macro_rules! conformance {
    ($($test:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test]
            async fn $test() {
                crate::suite::$test(&mut crate::bed::Fixture::memory()).await;
            })*
        }
        mod redis {
            $(#[tokio::test]
            async fn $test() {
                crate::suite::$test(&mut crate::bed::Fixture::redis().await).await;
            })*
        }
    };
}

conformance!(
    figures_come_back,
    the_all_context_is_apart,
    calls_are_merged_once,
    a_later_hour_rotates,
    the_last_hour_takes_more,
    an_hour_between_replaces_the_last,
    older_hours_are_late,
    hours_of_the_future_are_refused,
    histograms_beside_hours_of_the_future,
    counters_have_all_precisions,
    new_slices_push_old_ones_out,
    slices_that_have_ended_are_rolled_up,
    contexts_that_are_not_rolled_up_yet_are_read_too,
    the_slowest_hundred_are_ranked,
    the_ranking_holds_a_hundred,
    sums_do_not_wrap,
    instances_live_for_a_minute,
    instances_that_write_at_once_are_exact,
    cleaning_keeps_the_newest_samples,
    cleaning_keeps_the_rhythm,
    cleaning_forgets_contexts,
    a_pass_is_done_once,
    nothing_is_known_of_nothing,
);
