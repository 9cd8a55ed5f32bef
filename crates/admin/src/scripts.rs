//! The files of the page as they are served: without comments, and the modules of the first paint joined into one. The
//! build script includes this module.
//!
//! A browser would otherwise fetch one module after the other, as each names those that it imports, and many small files
//! compress worse than one. The modules share one scope when they are joined, so that no two of them may declare the
//! same name at their top. Run from the folder they work as they are.

use std::io;

/// The style that the page names.
pub(super) const STYLE: &str = "app.css";

/// The script that the page names.
pub(super) const FIRST_SCRIPT: &str = "app.js";

/// Styles that are served as [`STYLE`].
pub(super) const STYLES: &[&str] = &["app.css", "chart.css"];

/// The style of the screens other than the overview, which is loaded with them.
pub(super) const LATER_STYLES: &[&str] = &["screens.css"];

/// The modules of the first paint, each behind those that it imports. They are served as [`FIRST_SCRIPT`].
#[rustfmt::skip]
pub(super) const FIRST_MODULES: &[&str] = &[
    "dom.js", "format.js", "change.js", "state.js", "api.js", "poll.js", "problems.js", "context.js", "card.js",
    "tiles.js", "table.js", "attention.js", "axis.js", "slices.js", "chart.js", "trends.js", "fix_first.js",
    "overview.js", "app.js",
];

/// The modules that are loaded when they are needed.
#[rustfmt::skip]
pub(super) const LATER_MODULES: &[&str] = &[
    "advice.js", "burning.js", "chart_controls.js", "chart_pointer.js", "chart_readout.js", "chart_table.js",
    "choice.js", "empty.js", "export.js", "filter.js", "heatmap.js", "hist.js", "instances.js", "outcomes.js",
    "overview_more.js", "pager.js", "path_target.js", "requests.js", "run_by.js", "screen_counters.js",
    "screen_deploy.js", "screen_health.js", "screen_instance.js", "screen_path.js", "screen_paths.js",
    "screen_slowest.js", "screen_timers.js", "send.js", "spark.js", "taking.js", "time_goes.js", "trace.js",
    "verdict.js", "week.js",
];

/// How the last line of an import ends.
const IMPORT_END: &str = ".js';";

/// The files that are served, by name, from the text of each file of the folder.
///
/// # Errors
/// `read` fails.
pub(super) fn served(
    read: impl Fn(&str) -> io::Result<String>,
) -> io::Result<Vec<(&'static str, String)>> {
    let all = |names: &[&str]| {
        names
            .iter()
            .map(|name| read(name))
            .collect::<io::Result<Vec<_>>>()
    };
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

/// Joins modules into one, which exports what they export. Each stands behind those that it imports.
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

/// Joins styles into one, without the spaces around braces and behind semicolons.
fn style(styles: &[String]) -> String {
    let style = joined(styles).replace(" {", "{").replace("{ ", "{");
    style.replace(" }", "}").replace("; ", ";")
}

/// A module that is served by itself, and imports from the file `name` what the joined modules export.
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

/// Adds a line. It ends with a line break where the language may need one.
fn push(script: &mut String, line: &str) {
    script.push_str(line);
    if !line.ends_with(['{', '(', '[', ',', ';']) {
        script.push('\n');
    }
}

/// The lines of a script without indentation and comments.
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

/// A line without the comment at its end. What looks like one within a text stays.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_style_has_no_spaces_around_braces_and_its_texts_stay() {
        let text = "/* All. */\n.a, .b > c { d: e f; content: \" ✓\" }\n@media (x) {\n\t.g:hover { h: i }\n}\n";
        let expected = ".a, .b > c{d: e f;content: \" ✓\"}\n@media (x){.g:hover{h: i}\n}\n";
        assert_eq!(style(&[text.to_owned()]), expected);
    }

    const MODULES: [&str; 2] = [
        "// One.\n\nexport const one = ' // 1'; // one\n",
        "import {\n\tone,\n} from './one.js';\n\n/**\n * Two.\n */\nexport function two() {\n\treturn one + 1;\n}\n/** Three. */\nexport let three;\n",
    ];

    #[test]
    fn modules_share_a_scope() {
        let expected =
            "export const one = ' // 1';export function two() {return one + 1;}\nexport let three;";
        assert_eq!(joined(&MODULES.map(str::to_owned)), expected);
    }

    #[test]
    fn a_separate_module_imports_from_the_joined_file() {
        let text = "import {\n\tone,\n} from './one.js';\nimport { four } from './four.js';\nfour(one, \"from './two.js';\");\n";
        let expected = "import {one,} from './app.js';import { four } from './four.js';four(one, \"from './two.js';\");";
        assert_eq!(separate(text, &["one.js", "two.js"], "app.js"), expected);
    }
}
