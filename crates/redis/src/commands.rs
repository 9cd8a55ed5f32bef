//! The commands that this crate sends, or that its scripts call.

use redis::{Arg, Cmd};

/// Each command in a form that checks the permission when a connection is made. The commands change nothing: their
/// arguments are not numbers, or their key never exists (`P`). `C`, `K`, `S` and `W` stand for a counter, `known:`, a set
/// of statistics and the ranking. Without this check, a script would fail half-way at the first command that is not
/// permitted.
const COMMANDS: [&str; 52] = [
    "TIME",
    "GET P",
    "GETRANGE P 0 0",
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
    "HKEYS P",
    "HLEN P",
    "HSCAN P 0",
    "HGET P x",
    "HSET P x x x",
    "HMGET P x",
    "HGETALL P",
    "HSTRLEN P x",
    "MEMORY USAGE P",
    "ZADD P x x",
    "ZRANGE P 0 0",
    "ZSCORE P x",
    "ZMSCORE P x",
    "ZCARD P",
    "ZREM P x",
    "ZREMRANGEBYRANK P x x",
    "ZREMRANGEBYSCORE P x x",
    "ZRANGEBYLEX P - +",
    "ZRANGEBYSCORE P 0 0",
    "ZCOUNT P 0 0",
    "ZREVRANGE P 0 0",
    "ZREVRANK P x",
    "XADD P x x x",
    "XLEN P",
    "XRANGE P - +",
    "XTRIM P MINID x",
    "HINCRBY C 0 x",
    "EXPIRE C x",
    "ZADD K x x",
    "SET S x EX x",
    "ZADD S x x",
    "ZRANGE S 0 0",
    "ZMSCORE S x",
    "ZCARD S",
    "RENAME P S",
    "ZADD W x x",
    "ZREMRANGEBYRANK W x x",
    "EVAL return 0",
    "EVALSHA x 0",
];

/// Those that questions are answered with. They change nothing, whatever their arguments.
const READS: [&str; 19] = [
    "GETRANGE",
    "HKEYS",
    "HLEN",
    "HSCAN",
    "HGET",
    "HMGET",
    "HGETALL",
    "HSTRLEN",
    "MEMORY",
    "ZRANGE",
    "ZSCORE",
    "ZMSCORE",
    "ZCARD",
    "ZRANGEBYLEX",
    "ZRANGEBYSCORE",
    "ZCOUNT",
    "ZREVRANGE",
    "ZREVRANK",
    "XLEN",
];

/// The commands, with arguments, that a store sends.
pub(super) fn commands(is_read_only: bool) -> impl Iterator<Item = &'static str> {
    let name = |example: &'static str| example.split(' ').next();
    let is_read = move |example| name(example).is_some_and(|name| READS.contains(&name));
    let commands = COMMANDS.iter().copied();
    commands.filter(move |example| !is_read_only || is_read(example))
}

/// Whether a command is one of those that questions are answered with.
pub(super) fn is_read(command: &Cmd) -> bool {
    let Some(Arg::Simple(name)) = command.args_iter().next() else {
        return false;
    };
    READS.iter().any(|read| read.as_bytes() == name) || is_time(command)
}

/// Whether a command asks for the time. A user that only reads may do without that permission.
pub(super) fn is_time(command: &Cmd) -> bool {
    matches!(command.args_iter().next(), Some(Arg::Simple(b"TIME")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_only_reads_sends_no_command_that_writes() {
        let reads: Vec<_> = commands(true).collect();
        assert!(reads.contains(&"HSCAN P 0") && reads.contains(&"ZRANGE S 0 0"));
        let names = reads.iter().filter_map(|example| example.split(' ').next());
        for (example, name) in reads.iter().zip(names) {
            assert!(READS.contains(&name), "{example}");
        }
        let writes = commands(false).filter(|example| !reads.contains(example));
        for example in writes.filter(|example| *example != "TIME") {
            let name = example.split(' ').next().expect("a name");
            let mut command = redis::cmd(name);
            assert!(!is_read(command.arg("P")), "{example}");
        }
        assert!(is_read(redis::cmd("HGETALL").arg("P")));
    }
}
