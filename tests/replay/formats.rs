//! Lines of both formats: what they say, and which cannot be read.

use std::time::Duration;

use http::StatusCode;
use proptest::prelude::*;
use tower_pulse::{Outcome, RequestOutcome};

use super::line::{Format, Unreadable, format_of, parse};

/// Second, context, microseconds and outcome.
type Fields = (i64, String, u64, RequestOutcome);

fn fields(format: Format, line: impl AsRef<[u8]>) -> Result<Fields, Unreadable> {
    let mut context = "of the line before".to_owned();
    let line = parse(format, line.as_ref(), &mut context)?;
    let micros = u64::try_from(line.duration.as_micros()).unwrap();
    Ok((line.second, line.context.to_owned(), micros, line.outcome))
}

fn status(code: u16) -> RequestOutcome {
    StatusCode::from_u16(code).unwrap().into()
}

#[test]
fn a_csv_line_is_split_from_both_ends() {
    for (line, context) in [
        ("1700000000,GET /,1500,200", "GET /"),
        ("1700000000,,1500,200", ""),
        ("1700000000,a,b,c,1500,200", "a,b,c"),
        ("1700000000,,,,1500,200", ",,"),
        ("1700000000, \"ü\" ,1500,200", " \"ü\" "),
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
        ("garbage", "unix_seconds,context"),
        ("1700000000,5,200", "unix_seconds,context"),
        ("unix_seconds,context,micros,status", "microseconds"),
        ("-1,a,5,200", "time"),
        ("1700000000.5,a,5,200", "time"),
        ("1700000000000,a,5,200", "milliseconds"),
        ("99999999999999999999999,a,5,200", "time"),
        ("1700000000,a,-5,200", "microseconds"),
        ("1700000000,a,,200", "microseconds"),
        ("1700000000,a,18446744073709551616,200", "microseconds"),
        ("1700000000,a,604800000001,200", "7 days"),
        ("1700000000,a,5,99", "status"),
        ("1700000000,a,5,600", "status"),
        ("1700000000,a,5,0200", "status"),
        ("1700000000,a,5,-200", "status"),
        ("1700000000,a,5,", "status"),
        ("1700000000,a,5,200 ", "status"),
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
    for (time, took, second, micros) in [
        ("10/Oct/2000:13:55:36 -0700", "0.001", 971_211_336, 1_000),
        (
            "14/Nov/2023:22:13:20 +0000",
            "12.345",
            1_700_000_000,
            12_345_000,
        ),
        ("15/Nov/2023:03:43:20 +0530", "7", 1_700_000_000, 7_000_000),
        ("29/Feb/2024:00:00:00 +0000", "0.000001", 1_709_164_800, 1),
        ("01/Jan/1970:00:00:00 +0000", "0.000", 0, 0),
    ] {
        let line = nginx(time, "GET / HTTP/1.1", "204", took);
        let expected = (second, "GET /".to_owned(), micros, status(204));
        assert_eq!(fields(Format::Nginx, &line), Ok(expected), "{line}");
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
        (
            "GET /o/3f2504e0-4f89-11d3-9a0c-0305e82c3301 HTTP/1.1",
            "GET /o/{id}",
        ),
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
        let found = fields(Format::Nginx, &line).map(|fields| fields.1);
        assert_eq!(found.as_deref(), Ok(context), "{line}");
    }
}

#[test]
fn nginx_lines_that_cannot_be_read() {
    let time = "14/Nov/2023:22:13:20 +0000";
    let good = nginx(time, "GET / HTTP/1.1", "200", "0.1");
    assert_eq!(format_of(good.as_bytes()), Ok(Format::Nginx));
    for line in [
        nginx("14/Nov/2023 22:13:20 +0000", "GET / HTTP/1.1", "200", "0.1"),
        nginx("14/Foo/2023:22:13:20 +0000", "GET / HTTP/1.1", "200", "0.1"),
        nginx("14/Nov/2023:24:13:20 +0000", "GET / HTTP/1.1", "200", "0.1"),
        nginx("31/Dec/1969:23:59:59 +0000", "GET / HTTP/1.1", "200", "0.1"),
        nginx(time, "GET / HTTP/1.1", "000", "0.1"),
        nginx(time, "GET / HTTP/1.1", "200", "-"),
        nginx(time, "GET / HTTP/1.1", "200", "-0.1"),
        nginx(time, "GET / HTTP/1.1", "200", "0.1234567"),
        nginx(time, "GET / HTTP/1.1", "200", ""),
        nginx(time, "GET / HTTP/1.1", "200", "604800.001"),
        // The combined format alone has no time.
        good.trim_end_matches(" 0.1").to_owned(),
        format!("{good} \"more\""),
    ] {
        assert!(fields(Format::Nginx, &line).is_err(), "{line}");
    }
}

#[test]
fn a_request_that_the_client_gave_up_is_cancelled() {
    let csv = fields(Format::Csv, "1700000000,GET /,1500,499").unwrap();
    let line = nginx("14/Nov/2023:22:13:20 +0000", "GET / HTTP/1.1", "499", "0.1");
    let nginx = fields(Format::Nginx, line).unwrap();
    assert_eq!([csv.3, nginx.3], [Outcome::Cancelled.into(); 2]);
}

#[test]
fn the_first_line_that_can_be_read_has_a_format() {
    assert_eq!(format_of(b"1700000000,GET /,5,200"), Ok(Format::Csv));
    assert!(format_of(b"unix_seconds,context,micros,status").is_err());
    assert!(format_of(b"").is_err());
}

proptest! {
    #[test]
    fn any_bytes_may_stand_in_a_line(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        quoted in "[-0-9a-zA-Z:/\"\\[\\] \\\\.+]{0,120}",
    ) {
        for format in [Format::Csv, Format::Nginx] {
            let _ = fields(format, &bytes);
            let _ = fields(format, &quoted);
        }
        let request = nginx("14/Nov/2023:22:13:20 +0000", &quoted.replace(['"', '\\'], ""), "200", "0.1");
        prop_assert!(fields(Format::Nginx, request).is_ok());
    }

    #[test]
    fn csv_comes_back_as_it_was_written(
        second in 0i64..9_000_000_000, context in "[^\r\n]{0,40}", micros in 0u64..604_800_000_000, code in 100u16..499,
    ) {
        let line = format!("{second},{context},{micros},{code}");
        prop_assert_eq!(fields(Format::Csv, &line), Ok((second, context, micros, status(code))));
    }
}
