//! The names of the tests for every store. `tests/stores` runs these tests, and `tests/topologies` runs them against a
//! cluster.

/// Gives the names of all tests in `suite` to a macro.
macro_rules! each_test_of_the_suite {
    ($run:ident) => {
        $run! {
            a_batch_is_read_back_as_it_was_written,
            the_all_context_is_in_no_list_and_no_ranking,
            instances_that_write_at_once_lose_no_sample,
            a_later_hour_makes_the_current_hour_the_last,
            a_new_hour_replaces_the_last_hour_and_older_hours_are_late,
            samples_more_than_an_hour_ahead_are_skewed,
            a_page_and_a_timer_of_one_name_are_two_contexts,
            a_batch_of_other_precisions_is_refused,
            counters_are_stored_at_all_precisions,
            new_slices_push_old_ones_out,
            a_window_is_compared_with_any_other,
            the_slowest_hundred_are_ranked,
            a_sum_that_would_overflow_is_quarantined,
            instances_are_alive_for_a_minute_after_a_heartbeat,
            cleaning_keeps_the_slices_within_their_retention,
            cleaning_examines_a_precision_only_when_it_is_due,
            cleaning_forgets_contexts_without_recent_samples,
            an_empty_store_answers_every_query,
            a_judgement_from_outdated_data_is_not_written,
            of_two_judgements_at_once_one_is_written,
            a_full_log_is_read_in_pages,
            a_judgement_that_is_not_finished_does_not_count,
            the_newest_marks_are_retained,
            the_recorded_time_begins_with_the_first_sample,
        }
    };
}
