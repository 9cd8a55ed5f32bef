//! Strict decoding of a request's parameters.

use percent_encoding::percent_decode_str;
use serde::de::value::{Error, MapDeserializer};
use serde::de::{DeserializeOwned, Deserializer, Error as _, IntoDeserializer, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};

use super::error::QueryError;
use super::window::Window;

/// The maximum length of a parameter, in bytes. Names that this crate writes have at most 256 bytes. Other programs
/// that write the book's keys may use longer names.
const MAX_TEXT: usize = 1_024;

/// The largest number that a parameter such as `limit` may have: all answers have fewer rows. Times may be larger.
const MAX_NUMBER: u64 = 1_000_000_000;

/// The end of the error's message if the question has no parameters.
pub(super) const NO_PARAMETER: &str = "no parameter is allowed";

/// Accepts no parameters.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

/// Reads the parameters of a query. Refuses parameters that `T` does not have. `from` and `to` are read as one
/// `window`. By default, `to` is the second after `now`.
pub fn parse<T: DeserializeOwned>(query: Option<&str>, now: i64) -> Result<T, QueryError> {
    let (pairs, is_renamed) = one_window(checked(query)?, now)?;
    let mut last = (String::new(), String::new());
    let each = pairs.into_iter().inspect(|pair| last.clone_from(pair));
    let values = each.map(|(name, value)| (name, Value(value)));
    let parsed = T::deserialize(MapDeserializer::new(values));
    // The error is about the parameter that was read last.
    parsed.map_err(|error| refused(&last, &error, is_renamed))
}

/// Decodes a query in the encoding of HTML forms: `+` is a space, `%41` is `A`. The result must be UTF-8.
pub fn pairs(query: Option<&str>) -> Result<Vec<(String, String)>, QueryError> {
    let pairs = query.unwrap_or_default().split('&');
    pairs
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let invalid = || {
                let message = "the parameter is not valid percent-encoded UTF-8";
                QueryError::parameter(shortened(name), message)
            };
            decode(name).zip(decode(value)).ok_or_else(invalid)
        })
        .collect()
}

/// Refuses repeated parameters, and values that are too long.
fn checked(query: Option<&str>) -> Result<Vec<(String, String)>, QueryError> {
    let pairs = pairs(query)?;
    for (at, (name, value)) in pairs.iter().enumerate() {
        let wrong = if pairs[..at].iter().any(|(other, _)| other == name) {
            "is given twice".to_owned()
        } else if value.len() > MAX_TEXT {
            format!("is longer than {MAX_TEXT} bytes")
        } else {
            continue;
        };
        let name = shortened(name);
        let message = format!("{name} {wrong}");
        return Err(QueryError::parameter(name, message));
    }
    Ok(pairs)
}

/// Replaces `from` and `to` by one `window`. Returns whether the question had `from` and `to`.
fn one_window(
    mut pairs: Vec<(String, String)>,
    now: i64,
) -> Result<(Vec<(String, String)>, bool), QueryError> {
    let mut time = |name: &'static str| {
        let at = pairs.iter().position(|(other, _)| other == name);
        let text = at.map(|at| pairs.remove(at).1);
        let time = |text: String| {
            let time = text.parse().ok().filter(|_| is_number(&text));
            time.ok_or_else(|| {
                let text = shortened(&text);
                let message = format!("{name} must be a time in Unix seconds, not {text}");
                QueryError::parameter(name, message)
            })
        };
        text.map(time).transpose()
    };
    let (from, to): (Option<i64>, _) = (time("from")?, time("to")?);
    let Some(from) = from else {
        return match to {
            Some(_) => Err(QueryError::parameter("to", "to needs from")),
            None => Ok((pairs, false)),
        };
    };
    if pairs.iter().any(|(name, _)| name == "window") {
        let message = "from and window exclude each other";
        return Err(QueryError::parameter("from", message));
    }
    let to = to.unwrap_or(now.saturating_add(1));
    if from > now {
        let message = "from must not be in the future";
        return Err(QueryError::parameter("from", message));
    }
    Window::between(from, to)?;
    pairs.push(("window".to_owned(), format!("{from}..{to}")));
    Ok((pairs, true))
}

/// The error of a parameter: names the parameter, the value, and the values that are allowed.
fn refused((name, value): &(String, String), error: &Error, is_renamed: bool) -> QueryError {
    let text = error.to_string();
    let name = match is_renamed && name == "window" {
        true => "from".to_owned(),
        false => shortened(name),
    };
    let is_unknown = text.starts_with("unknown field `");
    let message = match text.strip_prefix(&format!("unknown variant `{value}`, expected ")) {
        Some(allowed) => format!("{name} must be {allowed}"),
        None if is_unknown && text.ends_with(", there are no fields") => {
            format!("{name} is unknown here: {NO_PARAMETER}")
        }
        None if is_unknown => {
            let allowed = text.rsplit(", expected ").next().unwrap_or_default();
            let allowed = allowed.trim_start_matches("one of ");
            let allowed = allowed.replace("`window`", "window (or from and to)");
            format!("{name} is unknown here: allowed are {allowed}")
        }
        None if text.starts_with(&name) => text,
        None => format!("{name} {text}"),
    };
    let mut message = message.replace('`', "");
    let value = shortened(value);
    if !is_unknown && !is_renamed && !message.contains(&value) {
        message.push_str(&format!(", not {value}"));
    }
    QueryError::parameter(name, message)
}

/// The value of a parameter, which deserializes as the requested type.
struct Value(String);

impl<'de> IntoDeserializer<'de, Error> for Value {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Value {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_string(self.0)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match &*self.0 {
            "" => Err(Error::custom("is empty")),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let flag = self.0.parse();
        visitor.visit_bool(flag.map_err(|_| Error::custom("must be true or false"))?)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if !is_number(&self.0) {
            return Err(Error::custom("must be a whole number"));
        }
        let number = self.0.parse().ok().filter(|number| *number <= MAX_NUMBER);
        let beyond = || {
            let text = shortened(&self.0);
            Error::custom(format!("is {text}: allowed are 0 to {MAX_NUMBER}"))
        };
        visitor.visit_u64(number.ok_or_else(beyond)?)
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_u64(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_enum(self.0.into_deserializer())
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u128 f32 f64 char str string bytes byte_buf unit unit_struct newtype_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

/// Whether the text consists of digits. `parse` would also accept a sign.
fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Decodes a name or a value. Returns `None` if the text is not percent-encoded UTF-8.
fn decode(text: &str) -> Option<String> {
    let text = text.replace('+', " ");
    let is_hex = |escape: &str| {
        let digits = escape.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    let is_whole = text.split('%').skip(1).all(is_hex);
    let decoded = percent_decode_str(&text).decode_utf8().ok();
    Some(decoded.filter(|_| is_whole)?.into_owned())
}

/// The beginning of a text that a client has chosen, for an error message.
fn shortened(text: &str) -> String {
    text.chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Asked {
        q: String,
        context: Option<String>,
        limit: Option<usize>,
        flag: bool,
    }

    fn asked(query: &str) -> Result<Asked, String> {
        let asked = parse(Some(query), 1_000);
        asked.map_err(|error| format!("{error:?}"))
    }

    #[test]
    fn plus_signs_and_percent_signs_are_decoded() {
        let given = asked("q=a+b%2Bc%20%C3%A9&&context=GET+/users/{id}&flag=true").expect("valid");
        assert_eq!(given.q, "a b+c é");
        assert_eq!(given.context.as_deref(), Some("GET /users/{id}"));
        assert!(given.flag);
        assert!(asked("q=&q").is_err(), "given twice");
        assert_eq!(asked("q").expect("valid"), Asked::default());
        assert!(asked("context=").is_err());
        for query in ["q=%", "q=%4", "q=%4g", "q=%ff", "%=1", "q=%C3", "q=%+1"] {
            assert!(asked(query).is_err(), "{query}");
        }
    }

    #[test]
    fn numbers_within_their_range_are_read() {
        for (query, number) in [("", None), ("limit=0", Some(0)), ("limit=007", Some(7))] {
            assert_eq!(asked(query).expect("valid").limit, number);
        }
        let refused = "1000000001 99999999999999999999999 -1 %2B1 +1 1e3 ١ 1&limit=1";
        for limit in refused.split(' ').chain([""]) {
            let refused = asked(&format!("limit={limit}")).expect_err(limit);
            assert!(refused.contains(r#"name: "limit""#), "{refused}");
        }
    }

    proptest! {
        #[test]
        fn no_query_panics(query in "[%a-f0-9=&+éqlimt]{0,40}") {
            let _ = asked(&query);
        }

        #[test]
        fn an_encoded_text_is_decoded(text in "\\PC{1,60}") {
            let query: String = text.bytes().map(|byte| format!("%{byte:02x}")).collect();
            prop_assert_eq!(asked(&format!("q={query}")).expect("valid").q, text);
        }
    }
}
