//! Compares all keys of a Redis, and the answers from them, with the fixtures.

use std::sync::Arc;

use tower_pulse::store::Store as StoreHandle;

use crate::frozen::mask::masked;
use crate::frozen::past::{START, Time};
use crate::frozen::redis_keys::{self, Keys};
use crate::frozen::{LAST, answers, assert_stored, fixture, is_freezing, past, write_fixture};
use crate::rig::server::RedisServer;
use crate::stores::fixture::redis_store;

const KEYS: &str = "redis.txt";
const ANSWERS: &str = "redis.json";

fn store(server: &RedisServer, time: &Time) -> StoreHandle {
    let store = redis_store(&server.url(), "pulse:");
    StoreHandle::from(Arc::new(store.with_clock(time.clock.clone())))
}

async fn record_past() -> (RedisServer, Keys) {
    let (server, time) = (RedisServer::start().await, Time::new(START));
    past::record(&store(&server, &time), &time).await;
    let mut conn = server.connection().await;
    let mut keys = redis_keys::read(&mut conn).await;
    // Leaves out leases, which expire by the server's own clock.
    keys.retain(|name, _| !name.starts_with(b"pulse:pulse:lease:"));
    (server, keys)
}

fn frozen() -> Keys {
    let text = std::fs::read_to_string(fixture(LAST, KEYS)).unwrap();
    redis_keys::from_text(&text)
}

#[tokio::test]
async fn a_redis_of_0_1_0_is_read_and_continued() {
    let (server, time) = (RedisServer::start().await, Time::to_read());
    redis_keys::restore(&mut server.connection().await, &frozen()).await;
    let answers = answers::ask(ANSWERS, &store(&server, &time), &time).await;
    answers::assert_as_before(ANSWERS, &answers);
}

#[tokio::test]
async fn this_version_stores_the_same_keys_as_0_1_0() {
    let (server, now) = record_past().await;
    if is_freezing() {
        write_fixture(KEYS, redis_keys::to_text(&now).as_bytes());
        let time = Time::to_read();
        let answers = answers::ask(ANSWERS, &store(&server, &time), &time).await;
        return write_fixture(ANSWERS, answers::to_lines(&answers).as_bytes());
    }
    assert_stored(&lines(&frozen()), &lines(&now));
}

/// The fields with their keys, sorted, one per line. Masks random names, digests of positions in the journal, and the
/// duration of the last step of a fold. Writes each score in the same form.
fn lines(keys: &Keys) -> Vec<String> {
    let text = redis_keys::to_text(keys);
    let (mut lines, mut key) = (Vec::new(), "");
    for line in text.lines() {
        match line.starts_with(' ') {
            true if line.starts_with("  took\t") => lines.push(format!("{key}  took")),
            true if key.contains("\tzset\t") => {
                let (member, score) = line.rsplit_once('\t').unwrap();
                let score: f64 = score.parse().unwrap();
                lines.push(format!("{key}{}\t{score}", without_names(member)));
            }
            true => lines.push(format!("{key}{}", without_names(line))),
            false => key = line,
        }
    }
    lines.sort();
    lines
}

fn without_names(line: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    for word in line.split_inclusive([' ', '\t']) {
        let digest = word.split_once('-').filter(|(offset, digest)| {
            let is_number =
                |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            is_number(offset) && is_number(digest.trim_end())
        });
        words.push(match digest {
            Some((offset, _)) => format!("{offset}-digest "),
            None => word.to_owned(),
        });
    }
    String::from_utf8(masked(words.concat().as_bytes())).unwrap()
}
