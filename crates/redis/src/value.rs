//! Reads replies without trusting them.

use redis::Value;

use tower_pulse_model::access_time::AccessTimeStats;
use tower_pulse_model::snapshot::Problem;

pub(super) fn bytes(value: &Value) -> Option<&[u8]> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.as_bytes()),
        _ => None,
    }
}

pub(super) fn into_bytes(value: Value) -> Option<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.into_bytes()),
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

/// A number; 0 if the value is not a number, or is negative.
pub(super) fn number(value: &Value) -> u64 {
    int(value).map_or(0, |n| n.max(0).unsigned_abs())
}

pub(super) fn count(value: &Value) -> Option<usize> {
    usize::try_from(int(value)?).ok()
}

pub(super) fn float(value: &Value) -> Option<f64> {
    text(value)?.parse().ok()
}

pub(super) fn items(value: &Value) -> &[Value] {
    value.as_sequence().unwrap_or_default()
}

pub(super) fn into_items(value: Value) -> Vec<Value> {
    value.into_sequence().unwrap_or_default()
}

#[cfg(feature = "row-cache")]
pub(super) fn unix_seconds(value: &Value) -> f64 {
    let part = |at: usize| items(value).get(at).and_then(int).unwrap_or(0) as f64;
    part(0) + part(1) / 1e6
}

/// The pairs of a hash, or of a sorted set with its scores.
pub(super) fn pairs(value: &Value) -> impl Iterator<Item = (&Value, &Value)> {
    let pairs = items(value).chunks_exact(2);
    pairs.map(|pair| (&pair[0], &pair[1]))
}

pub(super) fn into_pairs(value: Value) -> impl Iterator<Item = (Value, Value)> {
    let mut items = into_items(value).into_iter();
    std::iter::from_fn(move || Some((items.next()?, items.next()?)))
}

pub(super) const STATISTICS: [&str; 5] = ["count", "sum", "sumsq", "min", "max"];

pub(super) fn has_scores(scores: &Value) -> bool {
    items(scores).iter().any(|score| *score != Value::Nil)
}

/// Reads a set of statistics from the scores of [`STATISTICS`]; `None` if all scores are missing. Fails if some scores
/// are missing or are not finite numbers.
pub(super) fn access_time(scores: &Value) -> Result<Option<AccessTimeStats>, &'static str> {
    let [count, sum, sumsq, min, max] = items(scores) else {
        return Ok(None);
    };
    if !has_scores(scores) {
        return Ok(None);
    }
    let score = |score: &Value| match float(score) {
        Some(score) if score.is_finite() => Ok(score),
        Some(_) => Err("a score is not a finite number; repair it with ZADD, or delete the key"),
        None => Err("a member of min, max, count, sum and sumsq is missing; delete the key"),
    };
    Ok(Some(AccessTimeStats {
        count: score(count)?,
        sum: score(sum)?,
        sumsq: score(sumsq)?,
        min: score(min)?,
        max: score(max)?,
    }))
}

/// The length of an hour in ISO form, in bytes. Reads ask for one more byte, which shows whether the text is longer.
pub(super) const ISO_HOUR_LEN: isize = 19;
const MAX_SHOWN: usize = 300;

/// Makes a text from the server safe to log and show: one line of at most 300 characters, in which unprintable
/// characters are escaped. A text that was made safe stays as it is.
pub(super) fn shown(bytes: &[u8]) -> String {
    let chars = bytes.utf8_chunks().flat_map(|chunk| {
        // Quotes and backslashes are printable, and escaping them would make the text longer at each call.
        let bare = |c| usize::from(matches!(c, '\\' | '"' | '\''));
        let valid = chunk.valid().chars();
        let valid = valid.flat_map(move |c| c.escape_debug().skip(bare(c)));
        valid.chain(chunk.invalid().escape_ascii().map(char::from))
    });
    let mut text: String = chars.take(MAX_SHOWN + 1).collect();
    if text.chars().nth(MAX_SHOWN).is_some() {
        let end = text.char_indices().nth(MAX_SHOWN - 1);
        text.truncate(end.map_or(0, |(at, _)| at));
        text.push('…');
    }
    text
}

/// A problem with a key, safe to log and show.
pub(super) fn problem(key: &[u8], reason: &str) -> Problem {
    Problem::new(shown(key), shown(reason.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shown_text_is_short_and_on_one_line() {
        let forged = "count:60:zz\r\nFORGED \u{1b}[31mline\u{2028}\u{202e}\u{0}".as_bytes();
        let text = shown(forged);
        let escaped = r"count:60:zz\r\nFORGED \u{1b}[31mline\u{2028}\u{202e}\0";
        assert_eq!(text, escaped);
        assert_eq!(shown(text.as_bytes()), text);
        assert_eq!(shown("GET /café \\ \"x'".as_bytes()), "GET /café \\ \"x'");
        assert_eq!(shown(b"a\xff\xfeb"), r"a\xff\xfeb");
        let long = shown("ä".repeat(301).as_bytes());
        assert_eq!(long, "ä".repeat(299) + "…");
        assert_eq!(shown(long.as_bytes()), long);
        assert_eq!(shown(&[b'\n'; 1_000]).chars().count(), 300);
        assert_eq!(shown("ä".repeat(300).as_bytes()), "ä".repeat(300));
    }
}
