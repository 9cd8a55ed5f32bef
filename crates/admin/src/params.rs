//! The parameters of a query, decoded strictly.

use std::cell::RefCell;
use std::ops::RangeInclusive;

use super::response::ApiError;
use tower_pulse_core::query::out_of_range;

/// The longest text of a parameter, in bytes. Names that this crate writes have at most 256; other writers
/// of the book's keys may use longer ones.
const MAX_TEXT: usize = 1_024;

/// The parameters of a query.
#[derive(Debug, Default)]
pub(super) struct Params {
    given: Vec<(String, String)>,
    /// Those that were asked for, which are those that the endpoint has.
    known: RefCell<Vec<&'static str>>,
}

impl Params {
    /// Reads the parameters of a query. Refuses all that `read` does not ask for, as one that is misspelt would otherwise be
    /// left out in silence.
    pub(super) fn read<T>(
        query: Option<&str>,
        read: impl FnOnce(&Self) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let params = Self::parse(query)?;
        let value = read(&params)?;
        let known = params.known.into_inner();
        let mut given = params.given.iter().map(|(name, _)| name);
        let Some(unknown) = given.find(|name| !known.contains(&name.as_str())) else {
            return Ok(value);
        };
        let (unknown, known) = (shortened(unknown), known.join(", "));
        let message = match known.is_empty() {
            true => format!("{unknown} is unknown here: no parameter is allowed"),
            false => format!("{unknown} is unknown here: allowed are {known}"),
        };
        Err(ApiError::parameter(unknown, message))
    }

    /// Refuses any parameter.
    pub(super) fn none(query: Option<&str>) -> Result<(), ApiError> {
        Self::read(query, |_| Ok(()))
    }

    /// Decodes a query as HTML forms write it: `+` is a space, `%41` is `A`. The result must be UTF-8.
    fn parse(query: Option<&str>) -> Result<Self, ApiError> {
        let pairs = query.unwrap_or_default().split('&');
        pairs
            .filter(|pair| !pair.is_empty())
            .map(|pair| {
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                let invalid = || {
                    let message = "the parameter is not valid percent-encoded UTF-8";
                    ApiError::parameter(shortened(name), message)
                };
                let decoded = decode(name).zip(decode(value));
                decoded.ok_or_else(invalid)
            })
            .collect::<Result<_, _>>()
            .map(|given| Self {
                given,
                ..Self::default()
            })
    }

    /// The values of a parameter.
    fn values(&self, name: &'static str) -> impl Iterator<Item = &str> {
        let mut known = self.known.borrow_mut();
        if !known.contains(&name) {
            known.push(name);
        }
        let given = self.given.iter().filter(move |(n, _)| n == name);
        given.map(|(_, value)| value.as_str())
    }

    /// The value of a parameter, which may be given only once.
    fn get(&self, name: &'static str) -> Result<Option<&str>, ApiError> {
        let mut given = self.values(name);
        match (given.next(), given.next()) {
            (_, Some(_)) => Err(ApiError::parameter(name, format!("{name} is given twice"))),
            (Some(value), _) if value.len() > MAX_TEXT => Err(ApiError::parameter(
                name,
                format!("{name} is longer than {MAX_TEXT} bytes"),
            )),
            (first, None) => Ok(first),
        }
    }

    /// All values of a parameter that may be given several times, of any length.
    pub(super) fn all(&self, name: &'static str) -> Vec<String> {
        self.values(name).map(str::to_owned).collect()
    }

    /// Any text, which may be empty.
    pub(super) fn text(&self, name: &'static str) -> Result<&str, ApiError> {
        Ok(self.get(name)?.unwrap_or_default())
    }

    /// An optional name, which must not be empty.
    pub(super) fn name(&self, name: &'static str) -> Result<Option<&str>, ApiError> {
        match self.get(name)? {
            Some("") => Err(ApiError::parameter(name, format!("{name} is empty"))),
            given => Ok(given),
        }
    }

    /// A required name, which must not be empty.
    pub(super) fn required(&self, name: &'static str) -> Result<&str, ApiError> {
        let missing = || ApiError::parameter(name, format!("{name} is missing"));
        self.name(name)?.ok_or_else(missing)
    }

    /// A whole number that is allowed, if the parameter is given.
    pub(super) fn number(
        &self,
        name: &'static str,
        allowed: RangeInclusive<usize>,
    ) -> Result<Option<usize>, ApiError> {
        let Some(text) = self.get(name)? else {
            return Ok(None);
        };
        if !is_number(text) {
            let (least, most) = allowed.into_inner();
            let message = format!("{name} must be a whole number from {least} to {most}");
            return Err(ApiError::parameter(name, message));
        }
        let number = text.parse().ok().filter(|number| allowed.contains(number));
        let refused = || out_of_range(name, shortened(text), &allowed);
        Ok(Some(number.ok_or_else(refused)?))
    }

    /// One of several words. The first is the default.
    pub(super) fn choice<T: Copy>(
        &self,
        name: &'static str,
        choices: &[(&str, T)],
    ) -> Result<T, ApiError> {
        let given = self.get(name)?;
        let chosen = choices
            .iter()
            .find(|(word, _)| given.is_none_or(|given| given == *word));
        chosen.map(|(_, value)| *value).ok_or_else(|| {
            let words: Vec<_> = choices.iter().map(|(word, _)| *word).collect();
            ApiError::parameter(name, format!("{name} must be one of {}", words.join(", ")))
        })
    }

    /// A time in whole Unix seconds, if the parameter is given.
    pub(super) fn time(&self, name: &'static str) -> Result<Option<i64>, ApiError> {
        const YEAR_9999: i64 = 253_402_300_799;
        let Some(text) = self.get(name)? else {
            return Ok(None);
        };
        let time = Some(text).filter(|text| is_number(text));
        let time = time.and_then(|text| text.parse().ok());
        let time = time.filter(|time| (0..=YEAR_9999).contains(time));
        let refused =
            || ApiError::parameter(name, format!("{name} must be a time in Unix seconds"));
        time.map(Some).ok_or_else(refused)
    }

    /// Digits, if the parameter is given. An inner `None` means that it is not a number.
    pub(super) fn digits(&self, name: &'static str) -> Result<Option<Option<u32>>, ApiError> {
        let given = self.get(name)?;
        Ok(given.map(|text| is_number(text).then(|| text.parse().ok()).flatten()))
    }
}

/// Parses digits alone: `parse` would accept a sign as well.
fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns `None` if the text is not percent-encoded UTF-8.
fn decode(text: &str) -> Option<String> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'+' => b' ',
            b'%' => hex(bytes.next()?)? << 4 | hex(bytes.next()?)?,
            other => other,
        });
    }
    String::from_utf8(decoded).ok()
}

fn hex(digit: u8) -> Option<u8> {
    // A digit of base 16 fits.
    char::from(digit).to_digit(16).map(|value| value as u8)
}

/// The beginning of a name or a number that a client has chosen, for an error message.
fn shortened(text: &str) -> String {
    text.chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn params(query: &str) -> Params {
        Params::parse(Some(query)).expect("valid")
    }

    #[test]
    fn forms_and_percent_signs() {
        let params = params("q=a+b%2Bc%20%C3%A9&&context=GET+/users/{id}&empty=&flag");
        assert_eq!(params.text("q").expect("q"), "a b+c é");
        assert_eq!(params.required("context").expect("one"), "GET /users/{id}");
        assert_eq!(params.text("flag").expect("flag"), "");
        assert!(params.name("empty").is_err());
        assert!(params.required("absent").is_err());
        for query in ["a=%", "a=%4", "a=%4g", "a=%ff", "%=1", "a=%C3", "a=%+1"] {
            assert!(Params::parse(Some(query)).is_err(), "{query}");
        }
    }

    #[test]
    fn numbers_within_their_range_are_read() {
        let number = |query: &str| params(query).number("limit", 0..=1_000).ok();
        assert_eq!(number(""), Some(None));
        assert_eq!(number("limit=0"), Some(Some(0)));
        assert_eq!(number("limit=007"), Some(Some(7)));
        assert_eq!(number("limit=1000"), Some(Some(1_000)));
        for query in [
            "limit=",
            "limit=1001",
            "limit=99999999999999999999999",
            "limit=-1",
            "limit=%2B1",
            "limit=+1",
            "limit=1e3",
            "limit=١",
        ] {
            assert_eq!(number(query), None, "{query}");
        }
        assert_eq!(number("limit=1&limit=1"), None);
    }

    proptest! {
        #[test]
        fn garbage_never_panics(query in "[%a-f0-9=&+é]{0,40}") {
            if let Ok(params) = Params::parse(Some(&query)) {
                let _ = (params.number("a", 1..=2), params.digits("a"), params.required("a"));
            }
        }

        #[test]
        fn what_is_encoded_comes_back(text in "\\PC{1,60}") {
            let query: String = text.bytes().map(|byte| format!("%{byte:02x}")).collect();
            let params = params(&format!("a={query}"));
            prop_assert_eq!(params.required("a").expect("given"), text);
        }
    }
}
