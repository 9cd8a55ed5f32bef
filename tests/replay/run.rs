//! The output of the example, and the arguments that it refuses.

use std::process::Stdio;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::exact::serve;
use crate::rig::demo::built_example;
use crate::rig::server::RedisServer;

/// Runs the example to its end, with `input` as its standard input. Returns whether it succeeded, its standard output
/// and its standard error.
async fn run(args: &[&str], env: &[(&str, &str)], input: &[u8]) -> (bool, String, String) {
    let mut command = Command::new(built_example("replay"));
    command.args(args).env("REDIS_URL", "");
    command.envs(env.iter().copied()).kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    // A run that refuses its arguments does not read its input.
    let _ = child.stdin.take().unwrap().write_all(input).await;
    let output = child.wait_with_output().await.unwrap();
    let [out, error] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    (output.status.success(), out, error)
}

#[tokio::test]
async fn lines_that_cannot_be_read_are_counted_and_the_first_is_shown() {
    let input = b"unix_seconds,context,micros,status\r\n1700000000,GET /,5,200\r\n1700000001,\x1b[2J\x07,5,\n1700000001,POST /,5,200";
    let (has_succeeded, stdout, stderr) = run(&["-"], &[], input).await;
    assert!(has_succeeded, "{stderr}");
    assert!(stdout.starts_with("2 lines of 2 contexts in "), "{stdout}");
    let unread = " lines/s\n2 lines could not be read\nthe first is line 1 (";
    assert!(stdout.contains(unread), "{stdout}");
    assert!(stdout.contains("unix_seconds,context,micros,status"));

    let (_, stdout, _) = run(&["-"], &[], &input[input.len() - 63..]).await;
    assert!(stdout.contains("\\u{1b}[2J\\u{7}"), "{stdout}");
    assert!(!stdout.contains('\x1b'), "{stdout}");
}

#[tokio::test]
async fn files_without_a_line_and_files_without_a_readable_line() {
    let (_, stdout, stderr) = run(&["-"], &[], b"").await;
    assert_eq!(stdout.as_str(), "");
    assert_eq!(stderr.as_str(), "no line could be read\n");
    let (has_succeeded, stdout, stderr) = run(&["-"], &[], &[b'x'; 200_000]).await;
    assert!(!has_succeeded);
    assert!(stdout.starts_with("1 line could not be read\n"), "{stdout}");
    assert!(stdout.len() < 500, "{stderr}");
    assert!(stderr.contains("no line could be read"), "{stderr}");
}

#[tokio::test]
async fn a_file_with_many_contexts_reaches_no_limit() {
    let line = |n: u32| format!("{},GET /{n},5,200\n", 1_700_000_000 + n / 1_000);
    let input: String = (0..3_000).map(line).collect();
    let (_, stdout, stderr) = run(&["-"], &[], input.as_bytes()).await;
    assert!(stdout.starts_with("3000 lines of 3000 contexts"));
    assert!(!stderr.contains("WARN"), "{stderr}");
}

#[tokio::test]
async fn an_nginx_log_is_shown() {
    let line = |n| {
        let time = format!("14/Nov/2023:23:30:{:02} +0100", n % 60);
        format!(
            "10.0.0.1 - - [{time}] \"GET /users/{n}?tab=posts HTTP/1.1\" 200 7 \"-\" \"curl\" 0.250\n"
        )
    };
    let log: String = (0..100).map(line).collect();
    let (_replay, mut client) = serve(&log, "").await;
    let paths = client.json("/admin/pulse/api/paths").await;
    assert_eq!(paths["total"], 1);
    let row = &paths["paths"][0];
    assert_eq!(row["context"], "GET /users/{id}");
    assert_eq!(row["count"], 100);
    assert_eq!(row["max"], 0.25);
    assert_eq!(client.get("/admin/pulse").await.status, 200);
}

#[tokio::test]
async fn a_log_without_durations_is_counted_and_the_output_says_so() {
    let line = |n| {
        let status = if n % 10 == 0 { 503 } else { 200 };
        let time = format!("14/Nov/2023:22:30:{:02} +0000", n % 60);
        format!("::1 - - [{time}] \"GET /users/{n} HTTP/1.1\" {status} 7\n")
    };
    let mut log: String = (0..100).map(line).collect();
    log.push_str("::1 - - [14/Nov/2023:22:30:59 +0000] \"GET /ok HTTP/1.1\" 200 7\n");
    let redis = RedisServer::start().await;
    for url in ["", &redis.url()] {
        let (replay, mut client) = serve(&log, url).await;
        let stdout = replay.stdout();
        assert!(stdout.starts_with("101 lines of 2 contexts"), "{stdout}");
        let untimed = "does not say how long requests took";
        assert!(stdout.contains(untimed), "{stdout}");
        let paths = client.json("/admin/pulse/api/paths?window=24h").await;
        assert_eq!(paths["total"], 0, "no page without durations: {paths}");
        let counters = client.json("/admin/pulse/api/counters").await;
        assert_eq!(counters["total"], 5, "{counters}");
        for (name, expected) in [
            ("requests", 101),
            ("5xx", 10),
            ("requests:GET%20/users/%7Bid%7D", 100),
            ("5xx:GET%20/users/%7Bid%7D", 10),
            ("requests:GET%20/ok", 1),
        ] {
            let path = format!("/admin/pulse/api/counters?name={name}&precision=60");
            let counter = client.json(&path).await;
            let expected = serde_json::json!([[1_700_001_000, expected]]);
            assert_eq!(counter["samples"], expected, "{name}");
        }
    }
    let env = [("REDIS_URL", &*redis.url())];
    let (_, _, stderr) = run(&["-"], &env, log.as_bytes()).await;
    assert!(stderr.contains("PULSE_PREFIX"), "{stderr}");
}

#[tokio::test]
async fn wrong_arguments_are_refused_before_the_log_is_read() {
    for (args, env, why) in [
        ("--verbose -", ("LISTEN", ""), "allowed are --serve, --help"),
        ("", ("LISTEN", ""), "usage: replay"),
        ("/no/such/file", ("LISTEN", ""), "/no/such/file"),
        ("/tmp", ("LISTEN", ""), "/tmp"),
        ("--serve -", ("LISTEN", "0.0.0.0:0"), "PULSE_TOKEN"),
        ("--serve -", ("LISTEN", "here"), "must be an IP address"),
        ("-", ("REDIS_URL", "http://x"), "redis://"),
    ] {
        let args: Vec<_> = args.split_whitespace().collect();
        let (has_succeeded, _, stderr) = run(&args, &[env], b"1700000000,GET /,5,200").await;
        assert!(!has_succeeded, "{args:?}: {stderr}");
        assert!(stderr.contains(why), "{args:?}: {stderr}");
    }
}

#[tokio::test]
async fn a_byte_order_mark_is_skipped() {
    let line = b"1700000000,GET /,5,200\n";
    let input = [b"\xef\xbb\xbf", &line[..]].concat();
    let (_, stdout, stderr) = run(&["-"], &[], &input).await;
    let read = "1 line of 1 context in ";
    assert!(stdout.starts_with(read), "{stdout}{stderr}");
    assert!(!stdout.contains("could not be read"), "{stdout}");
}

#[tokio::test]
async fn lines_out_of_order_are_reported() {
    let line = |second: i64| format!("{second},GET /,5,200\n");
    let day = 86_400;
    let log: String = (0..20).map(|n| line(1_700_000_000 + n)).collect();
    let in_order = log.clone() + &line(1_700_000_000 + 300 * day);
    let (_, stdout, _) = run(&["-"], &[], in_order.as_bytes()).await;
    assert!(!stdout.contains("older than"), "{stdout}");
    let first = line(1_700_000_000 + 300 * day) + &log;
    let (_, stdout, _) = run(&["-"], &[], first.as_bytes()).await;
    let warning = "\n20 lines are more than an hour older than an earlier line: sort";
    assert!(stdout.contains(warning), "{stdout}");
}
