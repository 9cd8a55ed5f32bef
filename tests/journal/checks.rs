//! The checks at the end of a run. Each request must be once in the book's keys and once in the records, unless the
//! ledger excuses the request, or an instance counts the request as lost.

use std::collections::BTreeMap;

use tower_pulse_model::context::ALL;

use crate::journal::faults::AskForHistory;
use crate::journal::ledger::{CONTEXTS, RANKING, SHORT_RANKING, WIDTH};
use crate::journal::scheduler::Scheduler;

impl Scheduler<'_> {
    pub fn check(&mut self) {
        let contexts = || CONTEXTS.into_iter().chain([ALL]);
        let records: BTreeMap<_, _> = contexts()
            .map(|context| (context, self.data.records(context, 3_600)))
            .collect();
        for context in contexts() {
            let minutes = self.data.records(context, 60);
            let mut counts = minutes.iter().chain(&records[context]);
            if let Some((id, n)) = counts.find(|(_, n)| **n > 1) {
                self.add_violation(format!(
                    "counted twice: {id} is {n} times in the records of {context}"
                ));
            }
            let widest = self.data.records(context, 21_600);
            if widest != records[context] {
                self.add_violation(format!(
                    "differs: six hours of {context} hold {widest:?}, hours {:?}",
                    records[context]
                ));
            }
            self.check_days(context, &widest);
            if let Some(id) = minutes.keys().find(|id| !widest.contains_key(*id)) {
                self.add_violation(format!("differs: {id} of {context} was not rolled up"));
            }
            self.check_context(context, records[context].values().sum());
        }
        self.check_rankings();
        self.check_reports(&records);
        self.check_requests(&records);
        if !self.may_differ() {
            self.check_exceptions();
        }
    }

    /// Compares the days of a context with its slices of six hours. Requests may be missing in the days, unless all
    /// instances ask for a history.
    fn check_days(&mut self, context: &str, widest: &BTreeMap<usize, u64>) {
        let days = self.data.days(context);
        let is_part = days.iter().all(|(id, n)| widest.get(id) == Some(n));
        if !is_part || self.faults.history == AskForHistory::All && days != *widest {
            self.add_violation(format!(
                "differs: days of {context} hold {days:?}, six hours {widest:?}"
            ));
        }
    }

    fn check_rankings(&mut self) {
        for name in [RANKING, SHORT_RANKING] {
            let [totals, sums] = self.data.ranking(name);
            if totals != sums && !self.may_differ() {
                self.add_violation(format!(
                    "differs: the ranking {name} has {totals:?}, its slices {sums:?}"
                ));
            }
            if let Some((id, n)) = totals.iter().find(|(_, n)| **n != 1) {
                self.add_violation(format!(
                    "counted twice: {id} is {n} times in the ranking {name}"
                ));
            }
        }
    }

    /// Compares the minute reports and the marks with the records. Only a request whose parts were sent in the same
    /// calls must be in all of them.
    fn check_reports(&mut self, records: &BTreeMap<&str, BTreeMap<usize, u64>>) {
        let [instances, versions] = self.data.reported();
        // In Redis, reports expire by the server's own clock, and a run takes only seconds of real time.
        let may_expire = self.data.redis().is_none() && self.has_outlasted_reports();
        if instances != versions && !self.may_differ() && !may_expire {
            self.add_violation(format!(
                "differs: instances reported {instances:?}, versions {versions:?}"
            ));
        }
        let mut reported = instances.iter().chain(&versions);
        if let Some((id, n)) = reported.find(|(_, n)| **n > 1) {
            self.add_violation(format!("counted twice: {id} was reported {n} times"));
        }
        if self.may_differ() || self.has_outlasted_reports() {
            return;
        }
        let marked = self.data.marked();
        for (id, served) in self.ledger.served.clone().into_iter().enumerate() {
            let is_recorded = records[served.context].contains_key(&id);
            if served.is_whole() && is_recorded != versions.contains_key(&id) {
                self.add_violation(format!("differs: {id} is not in both records and reports"));
            }
            let is_mark_wrong = served.is_marked && is_recorded != marked.contains(&id);
            if served.is_whole() && is_mark_wrong {
                self.add_violation(format!("differs: {id} is not in both records and marks"));
            }
        }
    }

    fn check_requests(&mut self, records: &BTreeMap<&str, BTreeMap<usize, u64>>) {
        let [ranked, _] = self.data.ranking(RANKING);
        let (mut missing, mut unexplained, mut ahead, mut excused) = (0, 0, 0, 0);
        for (id, served) in self.ledger.served.clone().into_iter().enumerate() {
            let has = |context| records[context].get(&id).copied().unwrap_or(0);
            let (own, all) = (has(served.context), has(ALL));
            let sum = |precision| -> Vec<i64> {
                let slices = self.data.counter(precision, &format!("u{id}"));
                slices.into_values().collect()
            };
            let (hours, minutes) = (sum(3_600), sum(60));
            if hours.iter().sum::<i64>() > 1 || minutes.iter().sum::<i64>() > 1 {
                self.add_violation(format!("counted twice: u{id} is {hours:?} and {minutes:?}"));
            }
            // A dead instance may have sent the request without its wide part. An instance that replays few calls may
            // lose a call that has only counters, and counts no lost request for it.
            let replays_few_calls = self.instances[served.instance].replays_few_calls;
            let is_required = own > 0 && self.is_alive(served.instance) && !replays_few_calls;
            self.check_wide(id, served.is_wide, is_required);
            let is_comparable = served.is_whole() && !self.may_differ();
            let ranked = ranked.get(&id).copied().unwrap_or(0) as u64;
            let counts = [own, all, hours.len() as u64, minutes.len() as u64, ranked];
            if is_comparable && counts != [own; 5] {
                self.add_violation(format!(
                    "differs: {id} is in {counts:?} of context, all, hours, minutes, ranking"
                ));
            }
            let is_excused = self.ledger.excused.contains(&id);
            match own {
                0 => missing += 1,
                _ if is_excused => excused += 1,
                _ => {}
            }
            if own == 0 && !is_excused {
                self.log(format!("{id} is missing: {served:?}"));
                match served.hours_ahead {
                    ..1 => unexplained += 1,
                    _ => ahead += 1,
                }
            }
        }
        let lost = self.lost();
        if self.may_differ() {
            return;
        }
        if unexplained > lost {
            self.add_violation(format!(
                "lost: {unexplained} are missing, {lost} are counted as lost"
            ));
        }
        let skewed = self.data.counted("skewed");
        // A request in the future may be counted as late by its batch, and then is not counted as skewed.
        if unexplained + ahead > lost + skewed + self.expected.late_at_append {
            let absent = unexplained + ahead;
            self.add_violation(format!(
                "lost: {absent} are missing, {lost} lost, {skewed} skewed"
            ));
        }
        // An abandoned call may append requests that were already counted as lost.
        if !self.faults.delays_calls && lost > missing + excused {
            self.add_violation(format!(
                "counted too much: {lost} lost, {missing} missing, {excused} excused"
            ));
        }
    }

    /// Checks that all slices of a request's wide part are counted once, or none is.
    fn check_wide(&mut self, id: usize, is_wide: bool, is_required: bool) {
        if !is_wide {
            return;
        }
        let slices = self.data.counter(60, &format!("w{id}"));
        let is_one = slices.values().all(|n| *n == 1);
        if !is_one || !(slices.is_empty() || slices.len() as i64 == WIDTH) {
            let sum: i64 = slices.values().sum();
            self.add_violation(format!(
                "counted twice, or incomplete: w{id} is {sum} in {} slices",
                slices.len()
            ));
        }
        let may_be_lost = self.ledger.excused.contains(&id) || self.lost() > 0 || self.may_differ();
        if slices.is_empty() && is_required && !may_be_lost {
            self.add_violation(format!("lost: w{id}"));
        }
    }

    /// Compares the book's keys of a context with its records.
    fn check_context(&mut self, context: &str, recorded: u64) {
        let name = match context {
            ALL => "hits".to_owned(),
            context => format!("hits:{context}"),
        };
        let omitted = self.expected.omitted.get(context).copied().unwrap_or(0);
        for (precision, omitted) in [(60, 0), (3_600, omitted)] {
            let hits: i64 = self.data.counter(precision, &name).values().sum();
            let hits = hits as u64 + omitted;
            let is_wrong = match self.may_differ() {
                true => hits > self.ledger.served.len() as u64,
                false => hits != recorded,
            };
            if is_wrong {
                self.add_violation(format!(
                    "differs: {name} at {precision} is {hits} with {omitted} omitted, records have {recorded}"
                ));
            }
        }
        let hours = self.expected.hours.get(context);
        let expected = hours.cloned().unwrap_or_default();
        if let Some(actual) = self.data.statistics(context)
            && actual != (expected.current, expected.last)
        {
            self.add_violation(format!(
                "statistics of {context} are {actual:?}, not {expected:?}"
            ));
        }
        // A batch may merge hours that it cannot keep separate. Only the records have the requests of merged hours.
        let is_wrong = match self.expected.late_at_append {
            0 => expected.sum() != recorded,
            _ => expected.sum() > recorded,
        };
        if is_wrong && !self.may_differ() {
            self.add_violation(format!(
                "statistics of {context}: {expected:?}, {recorded} in records"
            ));
        }
    }

    fn check_exceptions(&mut self) {
        let expected = &self.expected;
        // In a fold, a sample can be late only for the exported statistics.
        let late = match self.data.statistics(ALL) {
            Some(_) => expected.late,
            None => expected.late_at_append,
        };
        let pairs = [
            ("late", late),
            ("skewed", expected.skewed),
            ("quarantined", expected.quarantined),
            ("set_aside", expected.newer),
            ("hole", 0),
            ("orphaned", 0),
        ];
        for (field, expected) in pairs {
            let actual = self.data.counted(field);
            if actual != expected {
                self.add_violation(format!("{field} is {actual}, not {expected}"));
            }
        }
    }
}
