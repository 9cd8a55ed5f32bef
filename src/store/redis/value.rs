//! Reading replies without trusting them.

use redis::Value;

use crate::model::access_time::AccessTimeStats;

pub(super) fn bytes(value: &Value) -> Option<&[u8]> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.as_bytes()),
        _ => None,
    }
}

pub(super) fn text(value: &Value) -> Option<&str> {
    bytes(value).and_then(|bytes| std::str::from_utf8(bytes).ok())
}

pub(super) fn int(value: &Value) -> Option<i64> {
    match value {
        Value::Int(n) => Some(*n),
        _ => text(value)?.parse().ok(),
    }
}

pub(super) fn float(value: &Value) -> Option<f64> {
    text(value)?.parse().ok()
}

pub(super) fn items(value: &Value) -> &[Value] {
    match value {
        Value::Array(items) => items,
        _ => &[],
    }
}

/// The pairs of a hash, or of a sorted set with its scores.
pub(super) fn pairs(value: &Value) -> impl Iterator<Item = (&Value, &Value)> {
    let pairs = items(value).chunks_exact(2);
    pairs.map(|pair| (&pair[0], &pair[1]))
}

/// A set of statistics; `None` when there is none, an error when its figures are no figures.
pub(super) fn access_time(set: &Value) -> Result<Option<AccessTimeStats>, String> {
    let (mut times, mut found) = (AccessTimeStats::default(), 0);
    for (member, score) in pairs(set) {
        let into = match bytes(member) {
            Some(b"count") => &mut times.count,
            Some(b"sum") => &mut times.sum,
            Some(b"sumsq") => &mut times.sumsq,
            Some(b"min") => &mut times.min,
            Some(b"max") => &mut times.max,
            _ => continue,
        };
        *into = float(score)
            .filter(|score| score.is_finite())
            .ok_or("a score is not a finite number; mend it with ZADD, or delete the key")?;
        found += 1;
    }
    match (found, items(set).is_empty()) {
        (_, true) => Ok(None),
        (5, _) => Ok(Some(times)),
        _ => Err("not all of min, max, count, sum and sumsq are there; delete the key".to_owned()),
    }
}

/// A name that may hold anything, to be shown.
pub(super) fn shown(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}
