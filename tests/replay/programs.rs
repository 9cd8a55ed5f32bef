//! Access logs of real programs: nginx 1.22.1, Caddy 2.6.2 and Caddy 2.11.7 wrote the files in `logs`. Each program was
//! a proxy in front of the same service.
//!
//! Most files begin with the same eleven requests, which `assert_requests` lists: a slow page (0.3 s), a failing page,
//! a missing page, a rare method, a request that the client gave up after 0.5 s, quotes, a user `bob "x" [y]`, and
//! others. Some files also have bytes that are not a request.

use std::path::Path;

use super::formats::status;
use super::line::{Ending, Format, Line, Unreadable, format_of, parse};

/// Second, context, microseconds and ending.
type Fields = (i64, String, Option<u64>, Ending);

/// The lines of a file, in the format of the first line that can be read.
fn read(name: &str) -> (Format, Vec<Result<Fields, Unreadable>>) {
    let path = Path::new("tests/replay/logs").join(name);
    let text = std::fs::read(path).unwrap();
    let text = text.strip_suffix(b"\n").unwrap();
    let lines = || text.split(|byte| *byte == b'\n');
    let format = lines().find_map(|line| format_of(line).ok()).unwrap();
    let fields = |line| {
        let mut context = "of the line before".to_owned();
        parse(format, line, &mut context).map(fields_of)
    };
    (format, lines().map(fields).collect())
}

fn fields_of(line: Line<'_>) -> Fields {
    let micros = line.duration.map(|took| took.as_micros() as u64);
    (line.second, line.context.to_owned(), micros, line.ending)
}

/// The lines of a file, all of which can be read.
fn read_all(name: &str, format: Format) -> Vec<Fields> {
    let (found, lines) = read(name);
    assert_eq!(found, format, "{name}");
    lines.into_iter().map(|line| line.unwrap()).collect()
}

/// Checks that the first eleven lines are the eleven requests.
fn assert_requests(name: &str, lines: &[Fields]) {
    let has_quotes = |context: &str| {
        let quotes = ["\"q\"", "\\x22q\\x22", "%22q%22"];
        let is_below = |cafe: &str| quotes.iter().any(|q| context == format!("GET /{cafe}/{q}"));
        is_below("caf%C3%A9") || is_below("caf\\xC3\\xA9")
    };
    let expected = [
        ("GET /", status(200)),
        ("GET /users/{id}", status(200)),
        ("POST /orders", status(200)),
        ("GET /slow", status(200)),
        ("GET /fail", status(503)),
        ("HEAD /none", status(404)),
        ("OTHER /dav", status(200)),
        ("GET /verys", Ending::GivenUp),
        ("", status(200)),
        ("GET /auth", status(200)),
        ("GET //a//b", status(200)),
    ];
    for (at, ((second, context, micros, ending), expected)) in
        lines.iter().zip(expected).enumerate()
    {
        let line = format!("{name}: {second} {context} {micros:?} {ending:?}");
        match at {
            8 => assert!(has_quotes(context), "{line}"),
            // Some programs merge slashes.
            10 => assert!([expected.0, "GET /a/b"].contains(&&**context), "{line}"),
            _ => assert_eq!(context, expected.0, "{line}"),
        }
        assert_eq!(*ending, expected.1, "{line}");
        let seconds = lines[0].0..=lines[0].0 + 4;
        assert!(seconds.contains(second), "{line}");
        let Some(micros) = micros else { continue };
        let likely = match at {
            3 => 290_000..=450_000,
            7 => 490_000..=600_000,
            _ => 0..=100_000,
        };
        assert!(likely.contains(micros), "{line}");
    }
    assert!(lines.len() >= expected.len(), "{name}");
}

/// Unix seconds of the first request.
const AT: i64 = 1_795_639_212;

#[test]
fn logs_of_nginx() {
    let lines = read_all("nginx_timed.log", Format::Combined);
    assert_requests("nginx_timed.log", &lines);
    assert_eq!(lines[0], (AT, "GET /".into(), Some(8_000), status(200)));
    assert_eq!(lines[7].2, Some(493_000));
    // The other lines are of `OPTIONS *`, and of the first bytes of a TLS connection.
    for line in &lines[11..] {
        assert_eq!((&*line.1, line.3), ("<unmatched>", status(400)));
    }
    for name in ["nginx_combined.log", "nginx_common.log"] {
        let lines = read_all(name, Format::Untimed);
        assert_requests(name, &lines);
        assert!(lines.iter().all(|line| line.2.is_none()), "{name}");
        assert!(!Format::Untimed.has_durations());
    }
}

#[test]
fn logs_of_nginx_as_csv() {
    // The file has the `log_format` in the docs of the example's module `line`, but with raw paths instead of
    // templates. nginx measures milliseconds, and this format writes them as microseconds.
    let (format, lines) = read("nginx.csv");
    let lines: Vec<_> = lines.into_iter().map(Result::unwrap).collect();
    assert_eq!((format, lines.len()), (Format::Csv, 16));
    let slow = (AT + 203, "GET /slow".into(), Some(301_000), status(200));
    assert_eq!(lines[3], slow);
    assert_eq!(lines[1].1, "GET /users/42");
    assert_eq!(lines[7].3, Ending::GivenUp);
}

#[test]
fn logs_of_caddy() {
    for name in ["caddy_2_6.log", "caddy_2_11.log"] {
        let lines = read_all(name, Format::Caddy);
        assert_requests(name, &lines);
    }
    let lines = read_all("caddy_2_11.log", Format::Caddy);
    assert_eq!(lines[0], (AT, "GET /".into(), Some(3_657), status(200)));
}

/// Caddy 2.6.2 writes two lines about a failed request to standard error.
#[test]
fn logs_of_caddy_among_its_errors() {
    let (format, lines) = read("caddy_stderr.log");
    assert_eq!((format, lines.len()), (Format::Caddy, 4));
    assert!(lines[0].is_err());
    let ok = lines[1].as_ref().unwrap();
    assert_eq!((&*ok.1, ok.3), ("GET /ok", status(200)));
    let why = lines[2].clone().unwrap_err().0;
    assert!(why.contains("whose request has a line of its own"), "{why}");
    let failed = lines[3].as_ref().unwrap();
    assert_eq!((&*failed.1, failed.3), ("GET /api/{id}", status(502)));
}

#[test]
fn logs_of_caddy_with_other_settings() {
    let (format, lines) = read("caddy_settings.log");
    assert_eq!(format, Format::Caddy);
    let slow = |second, micros| Ok((second, "GET /slow".to_owned(), Some(micros), status(200)));
    // Written with `time_format iso8601` in the time zone of India, and with `time_format rfc3339_nano`.
    assert_eq!(lines[2], slow(AT + 201, 302_992));
    assert_eq!(lines[3], slow(AT + 202, 301_669));
    for (line, why) in [
        (0, "`duration_format`"), // `duration_format string`
        (1, "`duration_format`"), // `duration_format string`
        (4, "with a zone"),       // `time_format common_log`
        (5, "`duration_format`"), // `duration_format ms`
        (6, "`duration_format`"), // `duration_format nano`
        (7, "with a zone"),       // `time_format wall`, which has no zone
    ] {
        let unreadable = lines[line].clone().unwrap_err().0;
        assert!(unreadable.contains(why), "{line}: {unreadable}");
    }
}
