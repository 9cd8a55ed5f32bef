//! Finds the keys of a call to the server, for the texts of errors.

use redis::{Arg, Cmd, Pipeline};

use super::value::shown;

/// The most keys that an error names.
const MAX_NAMED: usize = 10;

pub(super) fn words(command: &Cmd) -> Vec<&[u8]> {
    let words = command.args_iter().filter_map(|word| match word {
        Arg::Simple(word) => Some(word),
        _ => None,
    });
    words.collect()
}

/// The keys of a command that this crate sends: the keys of a script, the argument after MEMORY USAGE, or the first
/// argument of any other command.
pub(super) fn keys_of(command: &Cmd) -> Vec<&[u8]> {
    let words = words(command);
    let (first, keys) = match words[..] {
        [b"EVAL" | b"EVALSHA", _, keys, ..] => {
            (3, String::from_utf8_lossy(keys).parse().unwrap_or(0))
        }
        [b"MEMORY", ..] => (2, 1),
        _ => (1, 1),
    };
    words.into_iter().skip(first).take(keys).collect()
}

pub(super) fn is_script(pipeline: &Pipeline) -> bool {
    let first = pipeline.cmd_iter().next().map(words);
    matches!(first.as_deref(), Some([b"EVAL" | b"EVALSHA", ..]))
}

pub(super) fn distinct_keys(pipeline: &Pipeline) -> Vec<&[u8]> {
    let mut keys = Vec::new();
    for key in pipeline.cmd_iter().flat_map(keys_of) {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys
}

pub(super) fn named(keys: &[&[u8]]) -> String {
    let first: Vec<_> = keys.iter().take(MAX_NAMED).map(|key| shown(key)).collect();
    match keys.len().saturating_sub(MAX_NAMED) {
        0 => first.join(", "),
        more => format!("{} and {more} more keys", first.join(", ")),
    }
}
