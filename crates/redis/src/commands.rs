//! The commands that this crate sends, or that its scripts call.

use redis::{Arg, Cmd};

use super::call_keys::words;

/// The commands that only a writing process needs. Each new connection for writing sends them in this form to check the
/// permissions. They change nothing, because their arguments are invalid, or because the key `P` never exists. `C`,
/// `K`, `S` and `W` stand for the keys of a counter, of `known:`, of a context's statistics, and of the slowest
/// contexts.
const WRITES: [&str; 30] = [
    "TIME",
    "GET P",
    "SET P x EX x",
    "EXISTS P",
    "RENAME P P",
    "DEL P",
    "EXPIRE P x",
    "PERSIST P",
    "TTL P",
    "PTTL P",
    "HINCRBY P 0 x",
    "HDEL P x",
    "HSET P x x x",
    "ZADD P x x",
    "ZREM P x",
    "ZREMRANGEBYRANK P x x",
    "ZREMRANGEBYSCORE P x x",
    "XADD P x x x",
    "XRANGE P - +",
    "XTRIM P MINID x",
    "HINCRBY C 0 x",
    "EXPIRE C x",
    "ZADD K x x",
    "SET S x EX x",
    "ZADD S x x",
    "RENAME P S",
    "ZADD W x x",
    "ZREMRANGEBYRANK W x x",
    "EVAL return 0",
    "EVALSHA x 0",
];

/// The commands that only read. They change nothing with any argument.
const READS: [&str; 22] = [
    "GETRANGE P 0 0",
    "HKEYS P",
    "HLEN P",
    "HSCAN P 0",
    "HGET P x",
    "HMGET P x",
    "HGETALL P",
    "HSTRLEN P x",
    "MEMORY USAGE P",
    "ZRANGE P 0 0",
    "ZSCORE P x",
    "ZMSCORE P x",
    "ZCARD P",
    "ZRANGEBYLEX P - +",
    "ZRANGEBYSCORE P 0 0",
    "ZCOUNT P 0 0",
    "ZREVRANGE P 0 0",
    "ZREVRANK P x",
    "XLEN P",
    "ZRANGE S 0 0",
    "ZMSCORE S x",
    "ZCARD S",
];

pub(super) fn commands(is_read_only: bool) -> impl Iterator<Item = &'static str> {
    let writes: &[_] = if is_read_only { &[] } else { &WRITES };
    READS.iter().chain(writes).copied()
}

pub(super) fn is_read(command: &Cmd) -> bool {
    let name = words(command).first().copied();
    let has_name = |read: &str| read.split(' ').next().map(str::as_bytes) == name;
    READS.into_iter().any(has_name) || is_time(command)
}

/// [`READS`] does not have TIME, because the user of a process that only reads may lack the permission for TIME.
pub(super) fn is_time(command: &Cmd) -> bool {
    matches!(command.args_iter().next(), Some(Arg::Simple(b"TIME")))
}
