//! The goals of the table.

use std::fmt::Write as _;

use crate::http;
use crate::rows::{
    BODY_END, FLOOR, IDENTITY, IDENTITY_FIVE_POLLS, POLLS, PROMETHEUS, PULSE, PULSE_FIVE_POLLS,
    TRACE,
};
use crate::stats::Median;
use crate::table::Results;

struct Goal {
    what: &'static str,
    limit: Limit,
    measured: Option<f64>,
}

enum Limit {
    AtMost(f64),
    AtLeast(f64),
}
use Limit::{AtLeast, AtMost};

impl Goal {
    fn is_reached(&self, measured: f64) -> bool {
        match self.limit {
            AtMost(limit) => measured <= limit,
            AtLeast(limit) => measured >= limit,
        }
    }

    fn line(&self) -> String {
        let (sign, limit) = match self.limit {
            AtMost(limit) => ("<=", limit),
            AtLeast(limit) => (">=", limit),
        };
        let digits = if limit < 10.0 { 3 } else { 0 };
        let goal = format!("{sign} {limit}");
        let Some(measured) = self.measured else {
            return format!("| {} | {goal} | not measured | |", self.what);
        };
        let verdict = if self.is_reached(measured) {
            "reached".to_owned()
        } else if limit == 0.0 {
            format!("missed by {:.digits$}", measured - limit)
        } else {
            format!("missed by {:.0} %", 100.0 * (measured / limit - 1.0).abs())
        };
        format!(
            "| {} | {goal} | {measured:.digits$} | {verdict} |",
            self.what
        )
    }
}

/// The most instructions that the layer may add to the identity layer in CI: the measured number plus a margin for
/// other compilers. The goal in the table is lower.
const INSTRUCTIONS: f64 = 470.0;

/// The limit for each further poll of a request. Two reads of the clock take 26 of these instructions.
const INSTRUCTIONS_OF_A_POLL: f64 = 110.0;

fn instructions_of_a_poll(results: &Results) -> Option<f64> {
    let first = results.instructions_over(PULSE, IDENTITY)?;
    let all = results.instructions_over(PULSE_FIVE_POLLS, IDENTITY_FIVE_POLLS)?;
    Some((all - first) / (POLLS - 1) as f64)
}

/// Fails if allocations or instructions exceed their limits. The numbers of both are the same in every run.
pub(crate) fn check(results: &Results) -> Result<(), String> {
    let checks = [
        (
            "allocations beyond the identity layer",
            results.allocations_over(PULSE, IDENTITY),
            0.0,
        ),
        (
            "allocations beyond the identity layer, timed to the body's end",
            results.allocations_over(BODY_END, IDENTITY),
            1.0,
        ),
        (
            "instructions beyond the identity layer",
            results.instructions_over(PULSE, IDENTITY),
            INSTRUCTIONS,
        ),
        (
            "allocations beyond the identity layer, of requests that are polled five times",
            results.allocations_over(PULSE_FIVE_POLLS, IDENTITY_FIVE_POLLS),
            0.0,
        ),
        (
            "instructions beyond the identity layer, for each further poll",
            instructions_of_a_poll(results),
            INSTRUCTIONS_OF_A_POLL,
        ),
    ];
    for (what, measured, limit) in checks {
        match measured {
            Some(measured) if measured <= limit => {}
            Some(measured) => return Err(format!("{what}: {measured:.0}, the limit is {limit}")),
            None => return Err(format!("{what}: not measured. {}", results.notes.join(" "))),
        }
    }
    Ok(())
}

pub(crate) fn markdown(results: &Results) -> String {
    let goal = |what, limit, measured| Goal {
        what,
        limit,
        measured,
    };
    let (one_path, all_paths) = results.throughput(PULSE, FLOOR).unzip();
    let value = |median: Option<Median>| median.map(|median| median.value);
    let added = results.pauses.iter().map(|pause| pause.added.value);
    let goals = [
        goal(
            "overhead, ours / floor, median of the processes",
            AtMost(1.10),
            value(results.over_processes(|ratios| ratios.to_head)),
        ),
        goal(
            "… timed to the body's end",
            AtMost(1.5),
            value(results.over_processes(|ratios| ratios.to_body_end)),
        ),
        goal(
            "ours / axum-prometheus",
            AtMost(0.12),
            results.ratio(PULSE, PROMETHEUS),
        ),
        goal(
            "ours / TraceLayer",
            AtMost(0.45),
            results.ratio(PULSE, TRACE),
        ),
        goal(
            "allocations beyond the identity layer",
            AtMost(0.0),
            results.allocations_over(PULSE, IDENTITY),
        ),
        goal(
            "… timed to the body's end",
            AtMost(1.0),
            results.allocations_over(BODY_END, IDENTITY),
        ),
        goal(
            "instructions beyond the identity layer",
            AtMost(400.0),
            results.instructions_over(PULSE, IDENTITY),
        ),
        goal(
            "… for each further poll of a request: 39, plus 40 for timing the poll",
            AtMost(79.0),
            instructions_of_a_poll(results),
        ),
        goal(
            "two workers, one path: throughput, ours / floor",
            AtLeast(1.0),
            value(one_path),
        ),
        goal(
            "two workers, 20 paths: throughput, ours / floor",
            AtLeast(1.0),
            value(all_paths),
        ),
        goal(
            "requests/s over loopback / bare",
            AtLeast(0.97),
            value(http::fraction(&results.loopback, PULSE)),
        ),
        goal(
            "p99.9 of a request while 2,000 contexts are flushed: µs beyond p99.9 without flushes",
            AtMost(50.0),
            added.reduce(f64::max),
        ),
        goal(
            "memory per context with one live cell, in bytes",
            AtMost(3_072.0),
            results.bytes_per_context,
        ),
    ];
    let mut text = "| Goal | | measured | |\n|---|---|---|---|\n".to_owned();
    for goal in goals
        .iter()
        .filter(|goal| goal.measured.is_some() || results.has_all_rows)
    {
        let _ = writeln!(text, "{}", goal.line());
    }
    text
}
