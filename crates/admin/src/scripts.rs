//! The files of the dashboard as they are served: without comments, and the modules of the first paint joined into one.
//! The build script includes this module.
//!
//! A browser learns the imports of a module only when the module has arrived, so it would fetch separate modules one
//! after the other. Many small files also compress worse than one. Joined modules share one scope, so no two of them
//! may declare the same name at their top level. The files in the folder also work as separate modules.

use std::io;

/// The stylesheet that the HTML names.
pub(super) const STYLE: &str = "app.css";

/// The script that the HTML names.
pub(super) const FIRST_SCRIPT: &str = "app.js";

/// The stylesheets that are joined into [`STYLE`].
pub(super) const STYLES: &[&str] = &["app.css", "chart.css"];

/// The stylesheet of the screens other than the overview. The dashboard loads it after the first paint.
pub(super) const LATER_STYLES: &[&str] = &["screens.css"];

/// The modules of the first paint, each after its imports. They are served as [`FIRST_SCRIPT`].
#[rustfmt::skip]
pub(super) const FIRST_MODULES: &[&str] = &[
    "dom.js", "format.js", "change.js", "state.js", "api.js", "poll.js", "problems.js", "context.js", "card.js",
    "tiles.js", "table.js", "attention.js", "axis.js", "slices.js", "chart.js", "trends.js", "fix_first.js",
    "overview.js", "app.js",
];

/// The modules that are loaded on demand.
#[rustfmt::skip]
pub(super) const LATER_MODULES: &[&str] = &[
    "acknowledge.js", "against.js", "chart_controls.js", "chart_pointer.js", "chart_readout.js", "export.js", "heatmap.js",
    "hist.js", "instances.js", "keys.js", "overview_more.js", "pager.js", "path_target.js", "requests.js",
    "screen_counters.js", "screen_deploy.js", "screen_errors.js", "screen_health.js", "screen_instance.js",
    "screen_path.js", "screen_paths.js", "screen_slowest.js", "spark.js", "time_goes.js", "trace.js", "verdict.js",
    "week.js",
];

/// The end of the last line of an import.
const IMPORT_END: &str = ".js';";

/// Makes the files that are served, each with its name. `read` returns the text of a file of the folder.
///
/// # Errors
/// Fails if `read` fails.
pub(super) fn served(
    read: impl Fn(&str) -> io::Result<String>,
) -> io::Result<Vec<(&'static str, String)>> {
    let all =
        |names: &[&str]| -> io::Result<Vec<_>> { names.iter().map(|name| read(name)).collect() };
    let mut served = vec![
        (STYLE, style(&all(STYLES)?)),
        (FIRST_SCRIPT, joined(&all(FIRST_MODULES)?)),
    ];
    for name in LATER_STYLES {
        served.push((*name, style(&[read(name)?])));
    }
    for name in LATER_MODULES {
        served.push((*name, separate(&read(name)?, FIRST_MODULES, FIRST_SCRIPT)));
    }
    Ok(served)
}

/// Joins modules into one, which exports all their exports. Each module must follow its imports.
fn joined(modules: &[String]) -> String {
    let mut joined = String::new();
    for text in modules {
        let mut is_import = false;
        for line in lines(text) {
            is_import |= line.starts_with("import ");
            if !is_import {
                push(&mut joined, line);
            }
            is_import &= !line.ends_with(IMPORT_END);
        }
    }
    joined
}

/// Joins styles into one, without spaces around braces and after semicolons.
fn style(styles: &[String]) -> String {
    let style = joined(styles).replace(" {", "{").replace("{ ", "{");
    style.replace(" }", "}").replace("; ", ";")
}

/// A module that is served by itself, and imports the exports of the joined modules from the file `name`.
fn separate(text: &str, joined: &[&str], name: &str) -> String {
    let mut separate = String::new();
    for line in lines(text) {
        let imported = line.strip_suffix("';").and_then(|line| {
            let (names, module) = line.split_once("from './")?;
            let is_joined = joined.contains(&module);
            is_joined.then_some(names)
        });
        match imported {
            Some(names) => push(&mut separate, &format!("{names}from './{name}';")),
            None => push(&mut separate, line),
        }
    }
    separate
}

/// Adds a line, with a line break where the language may need one.
fn push(script: &mut String, line: &str) {
    script.push_str(line);
    if !line.ends_with(['{', '(', '[', ',', ';']) {
        script.push('\n');
    }
}

/// The lines of a script, without indentation and comments.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let mut is_comment = false;
    let lines = text.lines().map(str::trim).filter(move |line| {
        let begins = line.starts_with("/*");
        let was_comment = is_comment || begins;
        is_comment = was_comment && !line.ends_with("*/");
        !was_comment && !line.is_empty() && !line.starts_with("//")
    });
    lines.map(without_comment)
}

/// A line without its trailing comment. A ` // ` within a string does not begin a comment.
fn without_comment(line: &str) -> &str {
    let Some((code, _)) = line.rsplit_once(" // ") else {
        return line;
    };
    let is_closed = |quote| code.matches(quote).count() % 2 == 0;
    if ['\'', '"', '`'].into_iter().all(is_closed) {
        code.trim_end()
    } else {
        line
    }
}
