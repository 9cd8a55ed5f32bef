//! The tables.

use std::fmt::Write as _;

use crate::goals;
use crate::http::{self, CONTROL, Loopback};
use crate::options::{Measure, Options};
use crate::pause::Pause;
use crate::processes::Ratios;
use crate::rows::{BARE, FLOOR, PROMETHEUS, PULSE, ROWS, Row, TRACE};
use crate::stats::Median;
use crate::workers::{Rate, Throughput};

#[derive(Debug, Default)]
pub(crate) struct Results {
    rounds: usize,
    /// Whether all rows were chosen, as without `--only`. If so, the table of goals also lists goals that were not
    /// measured.
    pub(crate) has_all_rows: bool,
    has_http: bool,
    /// Nanoseconds per request, by row and round.
    pub(crate) nanos: Vec<(&'static str, Vec<f64>)>,
    /// The overhead in the extra processes of `--processes`.
    pub(crate) processes: Vec<Ratios>,
    pub(crate) allocations: Vec<(&'static str, f64)>,
    pub(crate) instructions: Vec<(&'static str, f64)>,
    pub(crate) workers: Vec<Throughput>,
    pub(crate) pauses: Vec<Pause>,
    pub(crate) bytes_per_context: Option<f64>,
    pub(crate) loopback: Vec<Loopback>,
    /// Rows that are not available, and why.
    missing: Vec<(&'static str, String)>,
    pub(crate) notes: Vec<String>,
}

impl Results {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            rounds: options.rounds,
            has_all_rows: options.only.is_empty(),
            has_http: options.measures(Measure::Http),
            ..Self::default()
        }
    }

    pub(crate) fn add_missing(&mut self, row: &'static Row, why: String) {
        self.missing.push((row.id, why));
    }

    /// Nanoseconds beyond the bare request of the same round.
    pub(crate) fn overhead(&self, id: &str) -> Option<Median> {
        let (row, bare) = (self.nanos_of(id)?, self.nanos_of(BARE)?);
        Some(Median::of(
            row.iter().zip(bare).map(|(row, bare)| row - bare),
        ))
    }

    fn nanos_of(&self, id: &str) -> Option<&[f64]> {
        value_of(&self.nanos, id).map(Vec::as_slice)
    }

    /// A row's overhead as a multiple of another's.
    pub(crate) fn ratio(&self, id: &str, to: &str) -> Option<f64> {
        Some(self.overhead(id)?.value / self.overhead(to)?.value)
    }

    /// The median of a ratio over the extra processes.
    pub(crate) fn over_processes(&self, ratio: fn(&Ratios) -> f64) -> Option<Median> {
        let all = (!self.processes.is_empty()).then_some(&self.processes)?;
        Some(Median::of(all.iter().map(ratio)))
    }

    pub(crate) fn allocations_over(&self, id: &str, other: &str) -> Option<f64> {
        Some(value_of(&self.allocations, id)? - value_of(&self.allocations, other)?)
    }

    pub(crate) fn instructions_over(&self, id: &str, other: &str) -> Option<f64> {
        Some(value_of(&self.instructions, id)? - value_of(&self.instructions, other)?)
    }

    /// The throughput of two workers, as a fraction of the throughput of the row `to` in the same round: first on one
    /// path, then on all paths.
    pub(crate) fn throughput(&self, id: &str, to: &str) -> Option<(Median, Median)> {
        self.throughput_by(id, to, |rate| rate.wall)
    }

    fn throughput_by(&self, id: &str, to: &str, by: fn(&Rate) -> f64) -> Option<(Median, Median)> {
        let find = |id: &str| self.workers.iter().find(|row| row.id == id);
        let (row, other) = (find(id)?, find(to)?);
        let fraction = |row: &[Rate], other: &[Rate]| {
            Median::of(
                row.iter()
                    .zip(other)
                    .map(|(row, other)| by(row) / by(other)),
            )
        };
        Some((
            fraction(&row.same, &other.same),
            fraction(&row.all, &other.all),
        ))
    }

    pub(crate) fn markdown(&self) -> String {
        let mut text = String::new();
        self.write_head(&mut text);
        for row in ROWS {
            self.write_row(&mut text, row);
        }
        self.write_control(&mut text);
        for note in &self.notes {
            text += &format!("\n{note}\n");
        }
        self.write_processes(&mut text);
        self.write_two_workers(&mut text);
        self.write_pauses(&mut text);
        text += "\n";
        text += &goals::markdown(self);
        text
    }

    fn write_control(&self, text: &mut String) {
        if let Some(control) = http::fraction(&self.loopback, CONTROL) {
            let control = fraction(Some(control));
            let _ = writeln!(text, "| {CONTROL} | | | | | | | | | {control} |");
        }
    }

    fn write_processes(&self, text: &mut String) {
        let to_head = self.over_processes(|ratios| ratios.to_head);
        let to_body_end = self.over_processes(|ratios| ratios.to_body_end);
        if to_head.is_some() {
            let _ = writeln!(
                text,
                "\nOverhead / floor in {} processes: to the head {}, to the body's end {}.",
                self.processes.len(),
                fraction(to_head),
                fraction(to_body_end),
            );
        }
    }

    fn write_two_workers(&self, text: &mut String) {
        if self.workers.is_empty() {
            return;
        }
        if let Some((same, all)) = self.throughput(PULSE, FLOOR) {
            let (same, all) = (fraction(Some(same)), fraction(Some(all)));
            let _ = writeln!(
                text,
                "\nTwo workers, throughput of tower-pulse / floor: one path {same}, 20 paths {all}."
            );
        }
        let bare = self.workers.iter().find(|row| row.id == BARE);
        let rates = bare.map_or(&[][..], |bare| &bare.all);
        let _ = writeln!(
            text,
            "\nTwo workers, requests per CPU time (the work of other processes is excluded). Bare: {:.0} requests/s, \
             {:.2} cores busy.\n",
            Median::of(rates.iter().map(|rate| rate.wall)).value,
            Median::of(rates.iter().map(|rate| rate.wall / rate.cpu)).value,
        );
        *text += "| Layer | one path: throughput / bare | 20 paths: throughput / bare |\n|---|---|---|\n";
        for row in ROWS.iter().filter(|row| row.id != BARE) {
            if let Some((same, all)) = self.throughput_by(row.id, BARE, |rate| rate.cpu) {
                let (same, all) = (fraction(Some(same)), fraction(Some(all)));
                let _ = writeln!(text, "| {} | {same} | {all} |", row.name);
            }
        }
    }

    fn write_pauses(&self, text: &mut String) {
        if self.pauses.is_empty() {
            return;
        }
        *text += "\n| p99.9 of a request, µs | without | while flushing 2,000 contexts | added | flushes in 200 ms |\n|---|---|---|---|---|\n";
        for pause in &self.pauses {
            let _ = writeln!(
                text,
                "| into {} | {:.1} | {:.1} | {:.1} ({:.1}-{:.1}) | {:.1} |",
                pause.store,
                pause.without.value,
                pause.with.value,
                pause.added.value,
                pause.added.low,
                pause.added.high,
                pause.flushes
            );
        }
    }

    fn write_head(&self, text: &mut String) {
        let _ = writeln!(text, "{}\n", origin());
        if let Some(bare) = self.nanos_of(BARE) {
            let bare = Median::of(bare.iter().copied());
            let _ = writeln!(
                text,
                "Bare: {:.0} ns/request ({:.0}-{:.0}), {} allocations, {} instructions. Medians of {} interleaved rounds, with the middle half of the rounds in brackets.\n",
                bare.value,
                bare.low,
                bare.high,
                shown(value_of(&self.allocations, BARE).copied(), 0),
                shown(value_of(&self.instructions, BARE).copied(), 0),
                self.rounds,
            );
        }
        *text += "| Layer | ns over bare | / floor | / TraceLayer | / axum-prometheus | allocations over bare | instructions over bare | two workers, one path: throughput / bare | two workers, 20 paths: throughput / bare |";
        *text += if self.has_http {
            " loopback: requests/s / bare |\n"
        } else {
            "\n"
        };
        *text += "|---|---|---|---|---|---|---|---|---|";
        *text += if self.has_http { "---|\n" } else { "\n" };
    }

    fn write_row(&self, text: &mut String, row: &Row) {
        if row.id == BARE {
            return;
        }
        if let Some((_, why)) = self.missing.iter().find(|(id, _)| *id == row.id) {
            let _ = writeln!(text, "| {} | {why} | | | | | | | |", row.name);
            return;
        }
        if value_of(&self.nanos, row.id).is_none()
            && value_of(&self.allocations, row.id).is_none()
            && value_of(&self.instructions, row.id).is_none()
            && self.throughput(row.id, BARE).is_none()
            && http::fraction(&self.loopback, row.id).is_none()
        {
            return;
        }
        let overhead = self.overhead(row.id).map_or(String::new(), |ns| {
            format!("{:.0} ({:.0}-{:.0})", ns.value, ns.low, ns.high)
        });
        let (same, all) = self.throughput(row.id, BARE).unzip();
        let _ = write!(
            text,
            "| {} | {overhead} | {} | {} | {} | {} | {} | {} | {} |",
            row.name,
            shown(self.ratio(row.id, FLOOR), 2),
            shown(self.ratio(row.id, TRACE), 2),
            shown(self.ratio(row.id, PROMETHEUS), 2),
            shown(self.allocations_over(row.id, BARE), 0),
            shown(self.instructions_over(row.id, BARE), 0),
            fraction(same),
            fraction(all),
        );
        if self.has_http {
            let loopback = http::fraction(&self.loopback, row.id);
            let _ = write!(text, " {} |", fraction(loopback));
        }
        text.push('\n');
    }
}

/// The machine, the date and the command of a run.
fn origin() -> String {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find(|line| line.starts_with("model name"));
    let model = model.and_then(|line| line.split_once(": "));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let date = tower_pulse_model::slice::iso_hour(tower_pulse::Clock::system().now_seconds());
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    format!(
        "{}, {cores} cores, load {} at the end, {}, `pulse-peers {}`",
        model.map_or("unknown CPU", |(_, model)| model),
        load.split(' ').next().unwrap_or_default(),
        date.split('T').next().unwrap_or_default(),
        arguments.join(" ")
    )
}

fn value_of<'a, T>(rows: &'a [(&str, T)], id: &str) -> Option<&'a T> {
    rows.iter()
        .find(|(row_id, _)| *row_id == id)
        .map(|(_, value)| value)
}

/// A value with `digits` decimals, or an empty text. If `digits` is 0, a value below 100 with a fraction gets two
/// decimals.
fn shown(value: Option<f64>, digits: usize) -> String {
    value.map_or(String::new(), |value| {
        let digits = if digits == 0 && value.abs() < 100.0 && value.fract().abs() > 0.005 {
            2
        } else {
            digits
        };
        format!("{value:.digits$}")
    })
}

fn fraction(median: Option<Median>) -> String {
    median.map_or(String::new(), |median| {
        format!("{:.2} ({:.2}-{:.2})", median.value, median.low, median.high)
    })
}
