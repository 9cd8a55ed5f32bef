//! The row cache. The tests in `both` run on a server and in a cluster, and together run every Lua script of the cache.
//! All other tests run only on a server.

mod book;
mod fixture;
mod large;
mod outage;
mod places;
mod suite;

/// Runs tests of some modules on a server, or in a cluster.
macro_rules! run {
    ($on:ident: $($module:ident { $($test:ident),* $(,)? })*) => {
        mod $on {
            $($(#[tokio::test]
            async fn $test() {
                crate::rows::$module::$test(&crate::rows::fixture::Service::$on().await).await;
            })*)*
        }
    };
}

macro_rules! conformance {
    (both { $($both:tt)* } server { $($server:tt)* }) => {
        run! { cluster: $($both)* }
        run! { redis: $($both)* $($server)* }
    };
}

conformance! {
    both {
        suite {
            a_row_is_refreshed_at_its_due_time_plus_its_delay,
            a_removed_row_is_gone_whatever_its_loader_returns,
            a_later_change_wins_over_an_older_load,
            a_missing_row_stays_scheduled_unless_it_is_dropped,
            many_callers_cause_one_load,
            rows_without_a_schedule_expire,
            rows_beyond_the_maximum_are_refused,
            rows_are_listed_the_most_overdue_first,
            several_rows_are_read_at_once,
            caches_with_different_names_are_separate,
            a_failed_load_is_listed_wherever_it_is_counted,
        }
        large {
            rows_of_the_largest_sizes_are_written_and_read,
        }
    }
    server {
        suite {
            a_row_that_fails_keeps_its_last_value_and_has_a_short_reason,
            a_loader_that_hangs_panics_or_returns_too_much_fails,
            a_row_that_is_too_old_is_removed,
            each_refresh_is_made_by_one_of_several_daemons,
            the_rows_of_a_dead_daemon_are_loaded_by_another,
            bad_ids_delays_and_settings_are_refused,
            rows_scheduled_together_are_spread,
            a_read_through_asks_the_store_once,
            rows_beside_bad_rows_are_on_time,
            a_delay_below_a_second_is_kept,
            a_read_does_not_wait_for_a_load,
            a_shutdown_does_not_wait_for_a_loader_that_hangs,
            rows_after_many_leased_rows_are_on_time,
            rows_that_fail_equally_often_are_listed_the_most_overdue_first,
            a_caller_that_is_dropped_leaves_no_lease,
            a_cached_row_is_not_leased_for_a_caller,
            a_row_that_is_scheduled_again_at_once_discards_its_first_load,
        }
        large {
            a_row_beyond_max_bytes_of_the_reader_is_not_read,
        }
        places {
            all_loads_together_are_bounded,
            a_dropped_caller_leaves_the_queue,
            the_daemon_and_callers_share_the_places,
            a_loader_may_ask_its_own_cache,
        }
    }
}
