//! The scripts of cleaning, called directly: data may have changed, and the lease may have been lost, between the
//! commands by which the cleaner looks at data and the script that removes it.

use redis::aio::MultiplexedConnection;
use redis::cmd;

use crate::raw_redis::{KNOWN, LEASE, ask, key, known_members, slices, write};
use crate::rig::lua::script;
use crate::rig::server::RedisServer;

const TOKEN: &str = "7:a";
const CONTEXTS: &str = "pulse:pulse:contexts";
const TIMERS: &str = "pulse:pulse:timers";
const SLOWEST: &str = "pulse:slowest:AccessTime";
/// The last-seen time up to which contexts are forgotten.
const CUT_OFF: i64 = 1_000;

/// A server whose lease to clean instance `a` holds for five seconds more.
async fn held_lease() -> (RedisServer, MultiplexedConnection) {
    let server = RedisServer::start().await;
    let mut conn = server.connection().await;
    let _: () = ask(&mut conn, "SET", (LEASE, TOKEN, "EX", 5)).await;
    (server, conn)
}

/// Calls a script. Returns the word and the numbers of its answer.
async fn call(
    conn: &mut MultiplexedConnection,
    name: &str,
    keys: &[&str],
    args: &[&str],
) -> (String, Vec<i64>) {
    let mut eval = cmd("EVAL");
    eval.arg(script(name)).arg(keys.len()).arg(keys).arg(args);
    let reply: redis::Value = eval.query_async(conn).await.unwrap();
    let redis::Value::Array(mut reply) = reply else {
        panic!("{reply:?}");
    };
    let numbers = reply.split_off(1);
    let numbers = numbers.into_iter().map(redis::from_redis_value);
    let word = redis::from_redis_value(reply.remove(0));
    (word.unwrap(), numbers.map(Result::unwrap).collect())
}

/// Drops slices 1 and 2 of some counters of one second.
async fn drop_two(
    conn: &mut MultiplexedConnection,
    token: &str,
    names: &[&str],
) -> (String, Vec<i64>) {
    let counters: Vec<String> = names.iter().map(|name| key(1, name)).collect();
    let members: Vec<String> = names.iter().map(|name| format!("1:{name}")).collect();
    let mut keys = vec![LEASE, KNOWN];
    keys.extend(counters.iter().map(String::as_str));
    let mut args = vec![token, "15"];
    for member in &members {
        args.extend([member, "", "2", "1", "2"]);
    }
    call(conn, "clean", &keys, &args).await
}

/// Calls `forget.lua` for contexts, each of which has one key and one member of `known:`.
async fn forget(
    conn: &mut MultiplexedConnection,
    token: &str,
    mode: &str,
    names: &[&str],
) -> (String, Vec<i64>) {
    let counters: Vec<String> = names.iter().map(|name| key(1, name)).collect();
    let members: Vec<String> = names.iter().map(|name| format!("1:{name}")).collect();
    let mut keys = vec![LEASE, CONTEXTS, TIMERS, SLOWEST, KNOWN];
    keys.extend(counters.iter().map(String::as_str));
    let cut_off = CUT_OFF.to_string();
    let mut args = vec![token, "15", &cut_off, mode];
    for (name, member) in names.iter().zip(&members) {
        args.extend([name, "1", "1", member]);
    }
    call(conn, "forget", &keys, &args).await
}

/// Writes a counter, the rank, and if there is an index, the last-seen time of a context.
async fn write_context(conn: &mut MultiplexedConnection, name: &str, seen: &[(&str, i64)]) {
    write(conn, 1, name, &[(1, 1)].into()).await;
    let _: i64 = ask(conn, "ZADD", (SLOWEST, 1, name)).await;
    for (index, at) in seen {
        let _: i64 = ask(conn, "ZADD", (*index, *at, name)).await;
    }
}

/// Whether the counter, the member of `known:` and the rank of a context exist.
async fn parts(conn: &mut MultiplexedConnection, name: &str) -> (bool, bool, bool) {
    let counter: bool = ask(conn, "EXISTS", key(1, name)).await;
    let listed: Option<f64> = ask(conn, "ZSCORE", (KNOWN, format!("1:{name}"))).await;
    let rank: Option<f64> = ask(conn, "ZSCORE", (SLOWEST, name)).await;
    (counter, listed.is_some(), rank.is_some())
}

#[tokio::test]
async fn a_script_prolongs_the_lease() {
    let (_server, mut conn) = held_lease().await;
    for mode in ["clean", "forget"] {
        let _: bool = ask(&mut conn, "EXPIRE", (LEASE, 5)).await;
        match mode {
            "clean" => drop_two(&mut conn, TOKEN, &[]).await,
            _ => forget(&mut conn, TOKEN, "ALL", &[]).await,
        };
        let left: i64 = ask(&mut conn, "TTL", LEASE).await;
        assert!((6..=15).contains(&left), "{mode}: {left}");
    }
}

#[tokio::test]
async fn a_script_does_nothing_when_another_instance_holds_the_lease() {
    let (_server, mut conn) = held_lease().await;
    write_context(&mut conn, "old", &[(CONTEXTS, CUT_OFF)]).await;
    let lost = ("LOST".to_owned(), vec![]);
    assert_eq!(drop_two(&mut conn, "6:a", &["old"]).await, lost);
    assert_eq!(forget(&mut conn, "7:b", "ALL", &["old"]).await, lost);
    assert_eq!(parts(&mut conn, "old").await, (true, true, true));
    let left: i64 = ask(&mut conn, "TTL", LEASE).await;
    assert!(left <= 5, "the lease of another instance is prolonged");
    let _: i64 = ask(&mut conn, "DEL", LEASE).await;
    assert_eq!(drop_two(&mut conn, TOKEN, &["old"]).await, lost);
    assert_eq!(forget(&mut conn, TOKEN, "ALL", &["old"]).await, lost);
    assert_eq!(parts(&mut conn, "old").await, (true, true, true));
}

#[tokio::test]
async fn a_counter_stays_listed_while_it_has_slices() {
    let (_server, mut conn) = held_lease().await;
    write(&mut conn, 1, "empty", &[(1, 1), (2, 1)].into()).await;
    // A sample has arrived since the cleaner looked.
    write(&mut conn, 1, "live", &[(1, 1), (2, 1), (3, 7)].into()).await;
    let cleaned = drop_two(&mut conn, TOKEN, &["empty", "live"]).await;
    assert_eq!(cleaned, ("CLEANED".to_owned(), vec![4, 1]));
    assert_eq!(known_members(&mut conn).await, [b"1:live"]);
    assert_eq!(slices(&mut conn, 1, "live").await, [(3, 7)].into());
}

#[tokio::test]
async fn a_counter_that_has_changed_its_type_is_left_alone() {
    let (_server, mut conn) = held_lease().await;
    write(&mut conn, 1, "typed", &[].into()).await;
    let _: () = ask(&mut conn, "SET", (key(1, "typed"), "x")).await;
    write(&mut conn, 1, "after", &[(1, 1), (2, 1)].into()).await;
    let cleaned = drop_two(&mut conn, TOKEN, &["typed", "after"]).await;
    assert_eq!(cleaned, ("CLEANED".to_owned(), vec![2, 1]));
    assert_eq!(known_members(&mut conn).await, [b"1:typed"]);
    let value: String = ask(&mut conn, "GET", key(1, "typed")).await;
    assert_eq!(value, "x");
}

#[tokio::test]
async fn contexts_with_samples_since_the_cleaner_looked_stay() {
    let (_server, mut conn) = held_lease().await;
    let recent = CUT_OFF + 1;
    write_context(&mut conn, "visited", &[(CONTEXTS, recent)]).await;
    write_context(&mut conn, "job", &[(CONTEXTS, CUT_OFF), (TIMERS, recent)]).await;
    write_context(&mut conn, "page", &[(CONTEXTS, recent), (TIMERS, CUT_OFF)]).await;
    write_context(&mut conn, "old", &[(CONTEXTS, CUT_OFF)]).await;
    write_context(&mut conn, "old job", &[(TIMERS, CUT_OFF)]).await;
    let names = ["visited", "old", "job", "old job", "page"];
    let forgotten = forget(&mut conn, TOKEN, "ALL", &names).await;
    assert_eq!(forgotten, ("FORGOTTEN".to_owned(), vec![2]));
    for name in ["visited", "job", "page"] {
        assert_eq!(parts(&mut conn, name).await, (true, true, true), "{name}");
    }
    for name in ["old", "old job"] {
        assert_eq!(
            parts(&mut conn, name).await,
            (false, false, false),
            "{name}"
        );
    }
    let contexts: Vec<String> = ask(&mut conn, "ZRANGE", (CONTEXTS, 0, -1)).await;
    let timers: Vec<String> = ask(&mut conn, "ZRANGE", (TIMERS, 0, -1)).await;
    assert_eq!((contexts.len(), timers.len()), (3, 2));
}

/// A context that no index lists any more was forgotten already, or is another program's.
#[tokio::test]
async fn a_context_without_an_index_loses_its_rank_only() {
    let (_server, mut conn) = held_lease().await;
    write_context(&mut conn, "unlisted", &[]).await;
    let forgotten = forget(&mut conn, TOKEN, "ALL", &["unlisted"]).await;
    assert_eq!(forgotten, ("FORGOTTEN".to_owned(), vec![0]));
    assert_eq!(parts(&mut conn, "unlisted").await, (true, true, false));
    write_context(&mut conn, "old", &[(CONTEXTS, CUT_OFF)]).await;
    let unranked = forget(&mut conn, TOKEN, "RANK", &["old"]).await;
    assert_eq!(unranked, ("FORGOTTEN".to_owned(), vec![1]));
    assert_eq!(parts(&mut conn, "old").await, (true, true, false));
}
