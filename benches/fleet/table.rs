//! The tables in Markdown, with goals: first the fleets, then single operations.

use std::fmt::Write;
use std::time::Duration;

use crate::meter::quantile;
use crate::micro::Micro;
use crate::probe::Freshness;
use crate::rows::Row;

#[derive(Debug, Default)]
pub(crate) struct Measurements {
    pub(crate) micro: Option<Micro>,
    pub(crate) rows: Vec<Row>,
    pub(crate) takeovers: Vec<Freshness>,
}

fn goal(text: &str, is_reached: bool) -> String {
    let verdict = if is_reached { "ok" } else { "**MISSED**" };
    format!("{text}: {verdict}")
}

fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

fn seconds(duration: Duration) -> String {
    format!("{:.2} s", duration.as_secs_f64())
}

fn millis(duration: Duration) -> String {
    format!("{:.2} ms", duration.as_secs_f64() * 1e3)
}

pub(crate) fn markdown(measured: &Measurements) -> String {
    let mut out = String::new();
    fleets(measured, &mut out).unwrap();
    micro_benches(measured, &mut out).unwrap();
    out
}

fn fleets(measured: &Measurements, out: &mut String) -> std::fmt::Result {
    writeln!(
        out,
        "| Instances x 200 contexts | server CPU, share of one core | commands/s | kB/s | folder CPU, share of one core | flushed every | fresh in the store p50, p99 | in the API p50, p99 | goals |"
    )?;
    writeln!(out, "|---|---:|---:|---:|---:|---:|---:|---:|---|")?;
    for row in &measured.rows {
        let instances = row.size.full + row.size.flush_only;
        let flush_only = match row.size.flush_only {
            0 => String::new(),
            count => format!(" ({count} flush-only)"),
        };
        let (in_store, in_api) = (&row.freshness.store, &row.freshness.api);
        let mut goals = Vec::new();
        let mut server = |most: f64| {
            let text = format!("server <= {:.0} %", most * 100.0);
            goals.push(goal(&text, row.server.cpu <= most));
        };
        match instances {
            20 => server(0.03),
            1_000 => server(0.12),
            _ => {}
        }
        if instances == 20 {
            goals.push(goal("folder <= 2 %", row.folder_cpu <= 0.02));
        }
        let most = match instances {
            ..1_000 => 2.5,
            1_000 => 5.0,
            // Ten seconds between flushes, a round of folding, and a second for which an answer is cached.
            _ => 15.0,
        };
        let is_fresh = quantile(in_api, 0.99).as_secs_f64() <= most;
        goals.push(goal(&format!("API p99 <= {most} s"), is_fresh));
        writeln!(
            out,
            "| {instances}{flush_only} | {} | {:.0} | {:.0} | {} | {:.0} s | {}, {} | {}, {} | {} |",
            percent(row.server.cpu),
            row.server.commands,
            row.server.bytes / 1e3,
            percent(row.folder_cpu),
            row.interval,
            seconds(quantile(in_store, 0.5)),
            seconds(quantile(in_store, 0.99)),
            seconds(quantile(in_api, 0.5)),
            seconds(quantile(in_api, 0.99)),
            goals.join("; "),
        )?;
    }
    Ok(())
}

fn micro_benches(measured: &Measurements, out: &mut String) -> std::fmt::Result {
    writeln!(out, "\n| Part | figure | goal |\n|---|---:|---|")?;
    let mut row =
        |what: &str, figure: String, goal: String| writeln!(out, "| {what} | {figure} | {goal} |");
    if let Some(micro) = &measured.micro {
        for (what, micros) in [
            ("an append", micro.append_call),
            ("each context of an append", micro.append_context),
            (
                "an append of 201 contexts and 3 s",
                micro.append_of_3_seconds,
            ),
            ("a heartbeat with the store's status", micro.heartbeat),
            ("folding a context, in rounds of 40", micro.fold_40),
            ("folding a context, in rounds of 201", micro.fold_201),
        ] {
            let figure = format!("{micros:.2} µs");
            row(&format!("server, {what}"), figure, String::new())?;
        }
        row(
            "folder, context records per second and core, from a backlog",
            format!("{:.0}", micro.records_per_cpu_second),
            goal(">= 300,000", micro.records_per_cpu_second >= 300_000.0),
        )?;
        row_of_polls("folding a backlog of 2,000 entries", &micro.polls, &mut row)?;
        row_of_polls(
            "folding the backlog and reading replies",
            &micro.holds,
            &mut row,
        )?;
    }
    for measured in &measured.rows {
        let instances = measured.size.full + measured.size.flush_only;
        row_of_polls(
            &format!("folding for {instances} instances"),
            &measured.polls,
            &mut row,
        )?;
    }
    if !measured.takeovers.is_empty() {
        let longest = |times: fn(&Freshness) -> &Vec<Duration>| {
            let all = measured
                .takeovers
                .iter()
                .filter_map(|freshness| times(freshness).last());
            all.max().copied().unwrap_or_default()
        };
        let (store, api) = (longest(|f| &f.store), longest(|f| &f.api));
        row(
            &format!(
                "after the folder was killed ({} times), longest time until readable: store, API",
                measured.takeovers.len()
            ),
            format!("{}, {}", seconds(store), seconds(api)),
            goal("<= 8 s", api.as_secs_f64() <= 8.0),
        )?;
    }
    Ok(())
}

fn row_of_polls(
    what: &str,
    polls: &[Duration],
    row: &mut impl FnMut(&str, String, String) -> std::fmt::Result,
) -> std::fmt::Result {
    let (longest, p999) = (quantile(polls, 1.0), quantile(polls, 0.999));
    row(
        &format!("{what}: longest time a worker was held, and p99.9"),
        format!("{}, {}", millis(longest), millis(p999)),
        goal("<= 1 ms", longest.as_secs_f64() <= 1e-3),
    )
}
