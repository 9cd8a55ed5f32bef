//! The configured URL of traces.

use http::uri::Authority;

use super::Builder;
use tower_pulse_core::error::BuildError;

const PLACEHOLDER: &str = "{trace_id}";

const MAX_URL: usize = 1_024;

const ALLOWED: &str = "must be an https or http URL of at most 1,024 bytes, such as \"https://traces.example.com/trace/{trace_id}\": \
                       one {trace_id} after the host, no user or password, no spaces, control characters, backslashes \
                       or characters other than ASCII";

impl<Of> Builder<Of> {
    /// The URL to which the dashboard links a trace id. The dashboard replaces `{trace_id}` by the percent-encoded id.
    /// The URL begins with `https` or `http`, and has one `{trace_id}` after the host. At most 1,024 bytes of visible
    /// ASCII are allowed, without a user, a password or a backslash.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), tower_pulse::BuildError> {
    /// let pulse = tower_pulse::Pulse::builder()
    ///     .keep_trace_ids(true)
    ///     .trace_url("https://traces.example.com/trace/{trace_id}")
    ///     .build()?;
    /// # pulse.shutdown().await.unwrap();
    /// let error = tower_pulse::Pulse::builder().trace_url("traces.example.com").build().unwrap_err();
    /// assert_eq!(error.field(), "trace_url");
    /// # Ok(()) }
    /// ```
    ///
    /// Everyone who can open the dashboard sees the URL. The link opens in a new tab, without a referrer. Ids are
    /// recorded only with [`keep_trace_ids`](Self::keep_trace_ids). An id that a client has chosen, as in
    /// `x-request-id`, cannot lead to another host.
    pub fn trace_url(mut self, url: impl Into<String>) -> Self {
        self.trace_url = Some(url.into());
        self
    }
}

/// Refuses a URL to which the dashboard cannot link, or whose host a reader could mistake.
pub(super) fn check(url: &str) -> Result<(), BuildError> {
    // A browser reads a backslash as a slash, which would change the host.
    let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'\\';
    match url.bytes().all(is_plain) && url.len() <= MAX_URL && is_trace_url(url) {
        true => Ok(()),
        false => Err(BuildError::new("trace_url", shown(url), ALLOWED)),
    }
}

fn is_trace_url(url: &str) -> bool {
    let Some((scheme, after_scheme)) = url.split_once("://") else {
        return false;
    };
    let is_scheme = matches!(&*scheme.to_ascii_lowercase(), "https" | "http");
    let end = after_scheme.find(['/', '?', '#']);
    let (authority, after_host) = after_scheme.split_at(end.unwrap_or(after_scheme.len()));
    is_scheme && is_host(authority) && after_host.matches(PLACEHOLDER).count() == 1
}

fn is_host(authority: &str) -> bool {
    let Ok(parsed) = authority.parse::<Authority>() else {
        return false;
    };
    let host = parsed.host();
    let after_host = authority.strip_prefix(host);
    let is_port = |text: &str| match text.strip_prefix(':') {
        // `parse` accepts a sign, which a port must not have.
        Some(port) => !port.starts_with('+') && port.parse::<u16>().is_ok(),
        None => text.is_empty(),
    };
    !host.is_empty() && !authority.contains('@') && after_host.is_some_and(is_port)
}

/// The URL as an error shows it: without a user or password, and cut at [`MAX_URL`] characters.
fn shown(url: &str) -> String {
    // An invalid URL, such as one without its scheme, may have a password too.
    if url.contains('@') {
        return "a URL with an @ in it".to_owned();
    }
    match url.char_indices().nth(MAX_URL) {
        Some((end, _)) => format!("{:?}…", &url[..end]),
        None => format!("{url:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_urls_are_allowed() {
        let longest = format!("https://a/{{trace_id}}{}", "x".repeat(MAX_URL - 20));
        assert_eq!(longest.len(), MAX_URL);
        for url in [
            "https://traces.example.com/trace/{trace_id}",
            "HTTP://localhost:16686/trace/{trace_id}?uiFind=@home",
            "https://[::1]:3000/explore?left={\"query\":\"{trace_id}\"}&orgId=1#x",
            "https://127.0.0.1?id={trace_id}",
            "https://example.com#{trace_id}",
            &longest,
        ] {
            assert!(check(url).is_ok(), "{url}");
        }
    }

    #[test]
    fn invalid_urls_are_refused() {
        let too_long = format!("https://a/{{trace_id}}{}", "é".repeat(MAX_URL));
        for url in [
            "",
            "{trace_id}",
            "traces.example.com/{trace_id}",
            "/trace/{trace_id}",
            "//traces.example.com/{trace_id}",
            "javascript://x/%0aalert(1)//{trace_id}",
            "ftp://traces.example.com/{trace_id}",
            "https:/traces.example.com/{trace_id}",
            "https:///{trace_id}",
            "https://:80/{trace_id}",
            "https://{trace_id}.example.com/",
            "https://{trace_id}",
            "https://example.com:{trace_id}/",
            "https://example.com:99999/{trace_id}",
            "https://example.com:/{trace_id}",
            "https://example.com:+1/{trace_id}",
            "https://example.com/",
            "https://example.com/{trace_id}/{trace_id}",
            "https://example.com/{TRACE_ID}",
            "https://exam ple.com/{trace_id}",
            "https://example.com/a b/{trace_id}",
            "https://example.com\\@evil.example/{trace_id}",
            "https://example.com/\n{trace_id}",
            "https://example.com/\u{202e}{trace_id}",
            " https://example.com/{trace_id}",
            "https://user:secret@example.com/{trace_id}",
            "https://secret@example.com/{trace_id}",
            "user:secret@example.com/{trace_id}",
            "https://user:secret@/{trace_id}",
            &too_long,
            &format!("{too_long}{too_long}"),
        ] {
            let error = check(url).expect_err(url).to_string();
            assert!(error.starts_with("trace_url is "), "{error}");
            assert!(error.contains("an https or http URL"), "{error}");
            assert!(error.len() < 3 * MAX_URL, "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
