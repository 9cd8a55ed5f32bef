//! The webhook of the example.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;

use serde_json::Value;
use tower_pulse::Change;

use crate::notify;

/// A change as it is answered and stored.
fn change() -> Change {
    let change = serde_json::json!({
        "id": "1", "kind": "slower", "context": "GET /search", "instance": null,
        "since": 1_700_000_000, "detected": 1_700_000_240, "ended": null,
        "then": 0.1, "now": 0.152, "ratio": 1.52, "confidence": 0.999_99, "requests": 400,
        "extra_seconds_per_minute": 5.2, "from_traffic": 0.0, "from_code": 5.2,
        "suspects": [], "yesterday": null, "week_ago": null,
    });
    serde_json::from_value(change).unwrap()
}

#[test]
fn a_change_is_posted_as_json() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let posted = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream);
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            let lower = line.to_ascii_lowercase();
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                break;
            }
            head.push_str(&lower);
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";
        reader.get_mut().write_all(answer).unwrap();
        (head, serde_json::from_slice::<Value>(&body).unwrap())
    });
    notify::post(&url, &change()).unwrap();
    let (head, body) = posted.join().unwrap();
    assert!(head.starts_with("post /hook "), "{head}");
    assert!(head.contains("content-type: application/json"), "{head}");
    let text = "GET /search is slower: 1.52 times as before";
    assert_eq!(body["text"], text);
    assert_eq!(body["change"]["since"], 1_700_000_000);
}

#[test]
fn a_webhook_that_is_away_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    drop(listener);
    assert!(notify::post(&url, &change()).is_err());
}
