//! Chooses the text for a scraper: the Prometheus text, or OpenMetrics, which can hold exemplars.

use http::{HeaderMap, HeaderValue, header};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// The Prometheus text format 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.0.
    OpenMetrics,
}

impl Format {
    /// The format that a scraper prefers (RFC 9110, 12.5.1). The default is the Prometheus text, which every scraper
    /// and every person can read.
    pub(super) fn preferred(headers: &HeaderMap) -> Self {
        match Self::OpenMetrics.weight(headers) > Self::Prometheus.weight(headers) {
            true => Self::OpenMetrics,
            false => Self::Prometheus,
        }
    }

    pub(super) fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        })
    }

    /// The type, the subtype and the version.
    fn name(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Prometheus => ("text", "plain", "0.0.4"),
            Self::OpenMetrics => ("application", "openmetrics-text", "1.0.0"),
        }
    }

    /// The weight of this format in the `Accept` headers, in thousandths. The most specific range counts; among equally
    /// specific ones, the highest weight.
    fn weight(self, headers: &HeaderMap) -> u16 {
        let lists = headers.get_all(header::ACCEPT).into_iter();
        let ranges = lists.filter_map(|list| list.to_str().ok());
        let ranges = ranges.flat_map(|list| list.split(','));
        let weights = ranges.filter_map(|range| self.matches(range));
        weights.max().map_or(0, |(_, weight)| weight)
    }

    /// The specificity and the weight of a range that includes this format; `None` if it does not.
    fn matches(self, range: &str) -> Option<(u8, u16)> {
        let (own_type, own_subtype, own_version) = self.name();
        let mut parts = range.split(';').map(str::trim);
        let (named_type, named_subtype) = parts.next()?.split_once('/')?;
        let same = |named: &str, name: &str| named.trim().eq_ignore_ascii_case(name);
        let mut specific = match (same(named_type, own_type), same(named_subtype, own_subtype)) {
            (true, true) => 2,
            (true, false) if named_subtype == "*" => 1,
            (false, false) if named_type == "*" && named_subtype == "*" => 0,
            _ => return None,
        };
        let mut range_weight = 1_000;
        for parameter in parts {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            if same(name, "q") {
                range_weight = weight(value.trim());
            } else if same(name, "version") {
                if value.trim().trim_matches('"') != own_version {
                    return None;
                }
                specific += 1;
            }
            // Other parameters, such as the charset, do not distinguish the two formats.
        }
        Some((specific, range_weight))
    }
}

/// Parses a weight such as `0.8`, in thousandths. An invalid one counts as 0.
fn weight(value: &str) -> u16 {
    let (whole, fraction) = value.split_once('.').unwrap_or((value, ""));
    let is_valid = ["0", "1"].contains(&whole)
        && fraction.len() <= 3
        && fraction.bytes().all(|byte| byte.is_ascii_digit());
    let weight: Option<u16> = format!("{whole}{fraction:0<3}").parse().ok();
    let weight = weight.filter(|weight| is_valid && *weight <= 1_000);
    weight.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preferred(accept: &[&'static str]) -> Format {
        let values = accept.iter().copied().map(HeaderValue::from_static);
        let headers = values.map(|value| (header::ACCEPT, value));
        Format::preferred(&headers.collect())
    }

    #[test]
    fn scrapers_get_the_format_that_they_prefer() {
        for accept in [
            // Prometheus 2.42, 2.50 and 3, without native histograms.
            &[
                "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
               text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            ][..],
            &[
                "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,\
               text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
            ],
            &[
                "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
               application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,\
               text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
            ],
            &["application/openmetrics-text"],
            &["Application/OpenMetrics-Text; Version=\"1.0.0\"; charset=utf-8"],
            &["text/plain;q=0.1", "application/openmetrics-text;q=0.2"],
            &["application/*, text/*;q=0.9"],
            // The most specific range counts, even if another range has a higher weight.
            &["text/plain;q=0.2, */*;q=0.5"],
            &["text/plain;version=0.0.4;q=0, text/plain, application/openmetrics-text;q=0.1"],
        ] {
            assert_eq!(preferred(accept), Format::OpenMetrics, "{accept:?}");
        }
        for accept in [
            &[][..],
            &[""],
            &["*/*"],
            &["text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"],
            &["text/plain;version=0.0.4, application/openmetrics-text;q=0.9"],
            &["application/openmetrics-text;q=0.5, text/plain;q=0.5"],
            &["application/openmetrics-text;version=1.0.0;q=0"],
            &["application/openmetrics-text;version=0.0.1"],
            &["application/openmetrics-text;version=2.0.0, text/plain;q=0.1"],
            &["application/openmetrics-text;q=2, text/plain;q=0.1"],
            &[
                "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited",
            ],
            &["application/json"],
            &["openmetrics-text", "/", ";;,,", "*/plain"],
        ] {
            assert_eq!(preferred(accept), Format::Prometheus, "{accept:?}");
        }
    }
}
