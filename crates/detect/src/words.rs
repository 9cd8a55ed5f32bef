//! Figures and names as parts of sentences.

use std::sync::Arc;

use tower_pulse_model::context::escape_hidden;

/// The most instances that a sentence names.
pub(crate) const NAMED: usize = 3;

/// A duration, such as `850 µs`, `2.1 ms`, `62 ms` or `1.2 s`.
pub(crate) fn duration(seconds: f64) -> String {
    match seconds {
        ..0.001 => format!("{:.0} µs", 1e6 * seconds),
        ..0.01 => format!("{:.1} ms", 1e3 * seconds),
        ..1.0 => format!("{:.0} ms", 1e3 * seconds),
        _ => format!("{seconds:.1} s"),
    }
}

/// A duration compared with an earlier one, such as `62 ms a request instead of 2.1 ms`.
pub(crate) fn instead(now: f64, of_what: &str, then: f64) -> String {
    format!("{}{of_what} instead of {}", duration(now), duration(then))
}

/// A share, such as `25 %` or `0.8 %`.
pub(crate) fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    let decimals = usize::from(percent > 0.0 && percent < 9.95);
    format!("{percent:.decimals$} %")
}

/// A ratio, such as `2.5 times web-1`, `+40 % over web-1` or `34 % less than web-1`.
pub(crate) fn against(ratio: f64, others: &str) -> String {
    match ratio {
        2.0.. => format!("{ratio:.1} times {others}"),
        1.0.. => format!("{:+.0} % over {others}", 100.0 * (ratio - 1.0)),
        _ => format!("{:.0} % less than {others}", 100.0 * (1.0 - ratio)),
    }
}

/// Names of instances, such as `web-1, web-2, web-3 and 4 more`.
pub(crate) fn names(all: &[Arc<str>]) -> String {
    let named = all.iter().take(NAMED);
    let mut parts: Vec<String> = named.map(|name| escape_hidden(name).into_owned()).collect();
    let more = all.len().saturating_sub(NAMED);
    parts.extend((more > 0).then(|| format!("{more} more")));
    let last = parts.pop().unwrap_or_default();
    match parts.is_empty() {
        true => last,
        false => format!("{} and {last}", parts.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_about_two_digits() {
        let durations = [0.0, 0.000_85, 0.0021, 0.062, 1.234].map(duration);
        assert_eq!(durations, ["0 µs", "850 µs", "2.1 ms", "62 ms", "1.2 s"]);
        let shares = [0.0, 0.008, 0.25, 1.0].map(percent);
        assert_eq!(shares, ["0 %", "0.8 %", "25 %", "100 %"]);
        let ratios = [0.66, 1.4, 2.5].map(|ratio| against(ratio, "web-1"));
        assert_eq!(
            ratios,
            [
                "34 % less than web-1",
                "+40 % over web-1",
                "2.5 times web-1"
            ]
        );
    }

    #[test]
    fn at_most_three_instances_are_named() {
        let all = ["a", "b\u{202e}", "c", "d", "e"].map(Arc::<str>::from);
        let named = [1, 2, 3, 5].map(|count| names(&all[..count]));
        assert_eq!(
            named,
            [
                "a",
                "a and b\\u{202e}",
                "a, b\\u{202e} and c",
                "a, b\\u{202e}, c and 2 more"
            ]
        );
    }
}
