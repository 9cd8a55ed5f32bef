//! The fields of log lines in each format, and lines that cannot be read.

use std::time::Duration;

use http::StatusCode;
use proptest::prelude::*;
use tower_pulse::{Outcome, RequestOutcome};

use super::line::{Ending, Format, Unreadable, format_of, parse};
use super::time::{decimal, rfc3339};

/// Second, context, microseconds and ending.
type Fields = (i64, String, u64, Ending);

fn fields(format: Format, line: impl AsRef<[u8]>) -> Result<Fields, Unreadable> {
    let mut context = "of the line before".to_owned();
    let line = parse(format, line.as_ref(), &mut context)?;
    let duration = line.duration.expect("the format has durations");
    let micros = u64::try_from(duration.as_micros()).unwrap();
    Ok((line.second, line.context.to_owned(), micros, line.ending))
}

pub fn status(code: u16) -> Ending {
    Ending::Responded(StatusCode::from_u16(code).unwrap())
}

#[test]
fn a_csv_line_is_split_from_both_ends() {
    for (line, context) in [
        ("1700000000,GET /,1500,200", "GET /"),
        ("1700000000,a,b,c,1500,200", "a,b,c"),
        // nginx's `$msec`.
        ("1700000000.123,GET /,1500,200", "GET /"),
        ("1700000000.999999999,GET /,001500,200", "GET /"),
    ] {
        let expected = (1_700_000_000, context.to_owned(), 1_500, status(200));
        assert_eq!(fields(Format::Csv, line), Ok(expected), "{line}");
    }
    let week = Duration::from_secs(7 * 86_400).as_micros();
    let longest = fields(Format::Csv, format!("0,a,{week},599")).unwrap();
    assert_eq!(u128::from(longest.2), week);
}

#[test]
fn csv_lines_that_cannot_be_read() {
    for (line, why) in [
        ("", "unix_seconds,context"),
        ("1700000000,5,200", "unix_seconds,context"),
        ("unix_seconds,context,micros,status", "microseconds"),
        ("-1,a,5,200", "time"),
        ("1700000000.,a,5,200", "time"),
        ("1700000000,a,0.005,200", "are these seconds"),
        ("1700000000000,a,5,200", "milliseconds"),
        ("1700000000,a,-5,200", "microseconds"),
        ("1700000000,a,604800000001,200", "7 days"),
        ("1700000000,a,5,99", "status"),
        ("1700000000,a,5,", "status"),
    ] {
        let unreadable = fields(Format::Csv, line).unwrap_err();
        assert!(unreadable.0.contains(why), "{line}: {}", unreadable.0);
    }
    let unreadable = fields(Format::Csv, b"1700000000,\xff,5,200").unwrap_err();
    assert!(unreadable.0.contains("UTF-8"));
}

fn nginx(time: &str, request: &str, status: &str, took: &str) -> String {
    format!(
        "203.0.113.7 - a [b] c [{time}] \"{request}\" {status} 1024 \"-\" \"x (\\x22y\\x22)\" {took}"
    )
}

#[test]
fn an_nginx_line_has_a_time_zone_and_fractions_of_seconds() {
    for (time, second) in [
        ("10/Oct/2000:13:55:36 -0700", 971_211_336),
        ("14/Nov/2023:22:13:20 +0000", 1_700_000_000),
        ("15/Nov/2023:03:43:20 +0530", 1_700_000_000),
        ("29/Feb/2024:00:00:00 +0000", 1_709_164_800),
        ("01/Jan/1970:00:00:00 +0000", 0),
    ] {
        for (took, micros) in [("2.5", 2_500_000), ("0.000001", 1), ("0.000", 0)] {
            let line = nginx(time, "GET / HTTP/1.1", "204", took);
            let expected = (second, "GET /".to_owned(), micros, status(204));
            assert_eq!(fields(Format::Combined, &line), Ok(expected), "{line}");
        }
    }
}

#[test]
fn the_context_of_an_nginx_line_has_no_query_and_no_ids() {
    for (request, context) in [
        ("GET /a/b.html?id=7 HTTP/2.0", "GET /a/b.html"),
        (
            "GET /users/42/posts/7 HTTP/1.1",
            "GET /users/{id}/posts/{id}",
        ),
        ("GET /o/3f2504e0-4f89-11d3-9a0c-0305e82c3301", "GET /o/{id}"),
        ("GET /o/DEADBEEFdeadbeef/ HTTP/1.1", "GET /o/{id}/"),
        ("GET /o/deadbeef/v2 HTTP/1.1", "GET /o/deadbeef/v2"),
        ("HEAD http://example.com/x?y HTTP/1.1", "HEAD /x"),
        ("GET /login?next=http://example.com/ HTTP/1.1", "GET /login"),
        ("PROPFIND /dav HTTP/1.1", "OTHER /dav"),
        ("GET /", "GET /"),
        ("GET //1 HTTP/1.1", "GET //{id}"),
        ("", "<unmatched>"),
        ("-", "<unmatched>"),
        ("\\x16\\x03\\x01\\x00 /", "<unmatched>"),
        ("CONNECT example.com:443 HTTP/1.1", "<unmatched>"),
        ("OPTIONS * HTTP/1.1", "<unmatched>"),
    ] {
        let line = nginx("14/Nov/2023:22:13:20 +0000", request, "200", "0.1");
        let found = fields(Format::Combined, &line).map(|fields| fields.1);
        assert_eq!(found.as_deref(), Ok(context), "{line}");
    }
}

#[test]
fn nginx_lines_that_cannot_be_read() {
    let time = "14/Nov/2023:22:13:20 +0000";
    let line = |time: &str, took: &str| nginx(time, "GET / HTTP/1.1", "200", took);
    let good = line(time, "0.1");
    assert_eq!(format_of(good.as_bytes()), Ok(Format::Combined));
    let mut bad = vec![
        // The combined format itself has no duration.
        good.trim_end_matches(" 0.1").to_owned(),
        // Either number could be the duration.
        format!("{good} 0.2"),
        good.replace(" 0.1", " \"-\" other=0.1"),
    ];
    for time in [
        "14/Nov/2023 22:13:20",
        "14/Foo/2023:22:13:20",
        "14/Nov/2023:24:13:20",
    ] {
        bad.push(line(&format!("{time} +0000"), "0.1"));
    }
    bad.push(line("31/Dec/1969:23:59:59 +0000", "0.1"));
    // `7` may be Apache's `%D`, in microseconds, or its `%T`, in seconds.
    bad.extend(["-", "-0.1", "7", "0.", "", "604800.001"].map(|took| line(time, took)));
    for line in bad {
        assert!(fields(Format::Combined, &line).is_err(), "{line}");
    }
}

#[test]
fn the_duration_in_an_nginx_line_may_have_a_name() {
    let time = "14/Nov/2023:22:13:20 +0000";
    let line = nginx(time, "GET / HTTP/1.1", "200", "");
    let line = line.trim_end();
    let head = line.split(" 1024 ").next().unwrap();
    for line in [
        format!("{line} 0.012"),
        format!("{line} \"10.0.0.9\" 0.012 "),
        format!("{line} 0.012 \"10.0.0.9\""),
        format!("{line} \"-\" rt=0.012 ut=\"0.010\" 7"),
        format!("{line} request_time=0.012 0.010"),
        format!("{line} sn=\"a \\\"b\\\"\" rt=\"0.012\""),
        format!("{head} 1024 0.012"),
        format!("{head} 1024 0.012 \"-\" \"curl\""),
    ] {
        assert_eq!(format_of(line.as_bytes()), Ok(Format::Combined), "{line}");
        let micros = fields(Format::Combined, &line).unwrap().2;
        assert_eq!(micros, 12_000, "{line}");
    }
    for line in [
        format!("{line} \"10.0.0.9\""),
        format!("{line} \"-\" cs=- sn=\"x\" "),
    ] {
        assert_eq!(format_of(line.as_bytes()), Ok(Format::Untimed), "{line}");
    }
}

#[test]
fn a_request_that_the_client_gave_up_is_cancelled() {
    // nginx writes 000 if it has no status. `programs.rs` tests the status 499.
    let line = nginx("14/Nov/2023:22:13:20 +0000", "GET / HTTP/1.1", "000", "0.1");
    let given_up = fields(Format::Combined, &line).unwrap().3;
    assert_eq!(given_up, Ending::GivenUp);
    let cancelled: RequestOutcome = Outcome::Cancelled.into();
    let outcome = given_up.outcome();
    assert_eq!(format!("{outcome:?}"), format!("{cancelled:?}"));
    assert!(!given_up.is_failure() && status(500).is_failure() && !status(404).is_failure());
}

#[test]
fn a_line_that_can_be_read_determines_the_format() {
    assert_eq!(format_of(b"1700000000,GET /,5,200"), Ok(Format::Csv));
    assert_eq!(format_of(b"1700000000,a [b] \"c\",5,200"), Ok(Format::Csv));
    // The error is about the format that the unreadable line seems to have.
    let time = "14/Nov/2023:22:13:20 +0000";
    for (line, why) in [
        ("unix_seconds,context,micros,status", "microseconds"),
        ("", "unix_seconds,context"),
        ("{", "Caddy"),
        ("[error] no", "unix_seconds,context"),
        (&nginx(time, "GET /", "200", "7"), "whole number"),
        (&nginx(time, "GET /", "200", "-"), "no number of seconds"),
    ] {
        let found = format_of(line.as_bytes()).unwrap_err();
        assert!(found.0.contains(why), "{line}: {}", found.0);
    }
}

/// Each of these ends makes a line of the common format unreadable. `programs.rs` tests lines that can be read.
#[test]
fn untimed_lines_that_cannot_be_read() {
    let common = "h - - [14/Nov/2023:23:13:20 +0100] \"GET /a?b HTTP/1.1\" 503 -";
    for end in [
        " \"-\"",
        " \"-\" \"x\" 0.1",
        " \"-\" \"x\" -",
        " \"-\"|\"x\"",
        " 0.1 \"-\" \"x\" y",
    ] {
        let line = format!("{common}{end}");
        let mut context = String::new();
        let read = parse(Format::Untimed, line.as_bytes(), &mut context);
        assert!(read.is_err(), "{line}");
    }
}

#[test]
fn json_lines_that_can_or_cannot_be_read() {
    let caddy = |ts: &str, took: &str, status: &str| {
        format!(
            "{{\"ts\":{ts},\"request\":{{\"method\":\"GET\",\"uri\":\"/\\u0061\"}},\"duration\":{took},\"status\":{status}}}"
        )
    };
    let good = (1_700_000_000, "GET /a".to_owned(), 1_500, status(200));
    for (ts, took) in [
        ("1700000000.9", "0.0015"),
        ("1700000000", "0.0015"),
        ("1.7e9", "1.5e-3"),
        ("1700000000123.4", "0.0015"),
        ("1700000000123456789", "0.0015"),
        ("\"2023-11-14T22:13:20.25Z\"", "0.0015"),
    ] {
        let line = caddy(ts, took, "200");
        assert_eq!(fields(Format::Caddy, &line), Ok(good.clone()), "{line}");
    }
    let gone = fields(Format::Caddy, caddy("1700000000.1", "0.5", "0")).unwrap();
    assert_eq!(gone.3, Ending::GivenUp);
    let mut bad: Vec<_> = ["-1.5", "9e10", "1e300", "null", "\"yesterday\""]
        .map(|ts| caddy(ts, "0.1", "200"))
        .into();
    // With `duration_format ms`, 0 is a duration below a millisecond.
    let durations = ["5", "0", "-0.1", "1e30", "604800.1", "\"1.5ms\""];
    bad.extend(durations.map(|took| caddy("1700000000.1", took, "200")));
    let codes = ["600", "70000", "\"200\""];
    bad.extend(codes.map(|status| caddy("1700000000.1", "0.1", status)));
    for line in bad {
        assert!(fields(Format::Caddy, &line).is_err(), "{line}");
    }
}

proptest! {
    #[test]
    fn a_line_of_any_bytes_can_be_parsed(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        quoted in "[-0-9a-zA-Z:/\"\\[\\] \\\\.+]{0,120}",
    ) {
        for format in [Format::Csv, Format::Combined, Format::Untimed, Format::Caddy] {
            let _ = parse(format, &bytes, &mut String::new());
            let _ = parse(format, quoted.as_bytes(), &mut String::new());
        }
        let _ = (format_of(&bytes), format_of(quoted.as_bytes()));
        let _ = (rfc3339(&bytes), decimal(&bytes));
        let request = nginx("14/Nov/2023:22:13:20 +0000", &quoted.replace(['"', '\\'], ""), "200", "0.1");
        prop_assert!(fields(Format::Combined, request).is_ok());
    }
}
