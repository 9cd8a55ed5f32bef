//! What a page does besides what it shows: errors, reports of its content security policy, and requests.

use std::collections::BTreeMap;

use chromiumoxide::cdp::browser_protocol::log::{EventEntryAdded, LogEntryLevel};
use chromiumoxide::cdp::browser_protocol::network::{
    EventLoadingFailed, EventLoadingFinished, EventRequestServedFromCache, EventRequestWillBeSent,
    EventResponseReceived,
};
use chromiumoxide::cdp::js_protocol::runtime::{
    ConsoleApiCalledType, EventConsoleApiCalled, EventExceptionThrown, RemoteObject,
};
use chromiumoxide::listeners::EventStream;
use futures_util::{FutureExt as _, StreamExt as _};

/// Runs in each document before its own scripts, so that no report of its policy is missed.
pub(crate) const REPORTS: &str = "document.addEventListener('securitypolicyviolation', (report) => console.error(
    `CSP report: ${report.violatedDirective} forbids ${report.blockedURI} at ${report.sourceFile}:${report.lineNumber}`));";

/// The events by which the browser tells.
pub(crate) const METHODS: [&str; 8] = [
    "Log.entryAdded",
    "Network.loadingFailed",
    "Network.loadingFinished",
    "Network.requestServedFromCache",
    "Network.requestWillBeSent",
    "Network.responseReceived",
    "Runtime.consoleAPICalled",
    "Runtime.exceptionThrown",
];

/// A request, and what came of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exchange {
    /// The whole URL.
    pub url: String,
    /// The method.
    pub method: String,
    /// When it was sent, in seconds on the browser's clock.
    pub at: f64,
    /// The status of the answer, once there is one.
    pub status: Option<i64>,
    /// Whether the answer came from the browser's cache.
    pub is_cached: bool,
    /// What came over the network: headers and the body as it was encoded, in bytes.
    pub bytes: f64,
    /// Why there is no answer.
    pub failure: Option<String>,
}

impl Exchange {
    /// The path and the query.
    pub fn path(&self) -> &str {
        let after_scheme = self.url.split_once("://").map_or("", |(_, url)| url);
        after_scheme
            .find('/')
            .map_or("/", |start| &after_scheme[start..])
    }

    /// Whether it asks for data.
    pub fn is_poll(&self) -> bool {
        self.path().contains("/api/")
    }
}

/// All that a tab has done.
pub(crate) struct Watch {
    console: EventStream<EventConsoleApiCalled>,
    exceptions: EventStream<EventExceptionThrown>,
    log: EventStream<EventEntryAdded>,
    sent: EventStream<EventRequestWillBeSent>,
    received: EventStream<EventResponseReceived>,
    cached: EventStream<EventRequestServedFromCache>,
    finished: EventStream<EventLoadingFinished>,
    failed: EventStream<EventLoadingFailed>,
    exchanges: BTreeMap<String, Exchange>,
    /// The ids of the exchanges in the order in which they were sent.
    order: Vec<String>,
    errors: Vec<String>,
}

impl Watch {
    /// Begins to watch a tab.
    pub(crate) async fn begin(tab: &chromiumoxide::Page) -> chromiumoxide::Result<Self> {
        let watch = Self {
            console: tab.event_listener().await?,
            exceptions: tab.event_listener().await?,
            log: tab.event_listener().await?,
            sent: tab.event_listener().await?,
            received: tab.event_listener().await?,
            cached: tab.event_listener().await?,
            finished: tab.event_listener().await?,
            failed: tab.event_listener().await?,
            exchanges: BTreeMap::new(),
            order: Vec::new(),
            errors: Vec::new(),
        };
        tab.evaluate_on_new_document(REPORTS).await?;
        tab.enable_runtime().await?;
        tab.enable_log().await?;
        Ok(watch)
    }

    /// Takes in what the browser has told. Nothing is missing that happened before two answers of the tab ago.
    pub(crate) fn update(&mut self) {
        while let Some(event) = ready(&mut self.sent) {
            let id = event.request_id.inner().clone();
            let exchange = Exchange {
                url: event.request.url.clone(),
                method: event.request.method.clone(),
                at: *event.timestamp.inner(),
                ..Exchange::default()
            };
            if self.exchanges.insert(id.clone(), exchange).is_none() {
                self.order.push(id);
            }
        }
        while let Some(event) = ready(&mut self.received) {
            if let Some(exchange) = self.exchanges.get_mut(event.request_id.inner()) {
                exchange.status = Some(event.response.status);
                exchange.is_cached |= event.response.from_disk_cache.unwrap_or(false);
            }
        }
        while let Some(event) = ready(&mut self.cached) {
            if let Some(exchange) = self.exchanges.get_mut(event.request_id.inner()) {
                exchange.is_cached = true;
            }
        }
        while let Some(event) = ready(&mut self.finished) {
            if let Some(exchange) = self.exchanges.get_mut(event.request_id.inner()) {
                exchange.bytes = event.encoded_data_length;
            }
        }
        while let Some(event) = ready(&mut self.failed) {
            if let Some(exchange) = self.exchanges.get_mut(event.request_id.inner()) {
                exchange.failure = Some(event.error_text.clone());
            }
        }
        self.update_errors();
    }

    fn update_errors(&mut self) {
        while let Some(event) = ready(&mut self.console) {
            let is_error = matches!(
                event.r#type,
                ConsoleApiCalledType::Error
                    | ConsoleApiCalledType::Warning
                    | ConsoleApiCalledType::Assert
            );
            if is_error {
                let text: Vec<_> = event.args.iter().map(text).collect();
                self.errors.push(format!("console: {}", text.join(" ")));
            }
        }
        while let Some(event) = ready(&mut self.exceptions) {
            let details = &event.exception_details;
            let thrown = details.exception.as_ref().map(text).unwrap_or_default();
            self.errors
                .push(format!("exception: {} {thrown}", details.text));
        }
        while let Some(event) = ready(&mut self.log) {
            let entry = &event.entry;
            if matches!(entry.level, LogEntryLevel::Error | LogEntryLevel::Warning) {
                let url = entry.url.as_deref().unwrap_or_default();
                self.errors
                    .push(format!("{:?}: {} {url}", entry.source, entry.text));
            }
        }
    }

    /// The requests so far, in their order.
    pub(crate) fn exchanges(&self) -> Vec<Exchange> {
        self.order
            .iter()
            .map(|id| self.exchanges[id].clone())
            .collect()
    }

    /// What is wrong: errors but for those that contain one of `tolerated`, and requests to others than `origin`.
    pub(crate) fn complaints(&self, origin: &str, tolerated: &[String]) -> Vec<String> {
        let is_tolerated = |error: &&String| tolerated.iter().any(|part| error.contains(part));
        let mut complaints: Vec<_> = self
            .errors
            .iter()
            .filter(|error| !is_tolerated(error))
            .cloned()
            .collect();
        let is_own = |url: &str| {
            // A password in the URL is no part of the origin.
            let url = match url.split_once("://") {
                Some((scheme, after)) => {
                    let (host, path) = after.split_once('/').unwrap_or((after, ""));
                    let host = host.rsplit('@').next().unwrap_or(host);
                    format!("{scheme}://{host}/{path}")
                }
                None => url.to_owned(),
            };
            url.strip_prefix(origin)
                .is_some_and(|path| path.starts_with('/'))
                || ["data:", "blob:", "about:"]
                    .iter()
                    .any(|scheme| url.starts_with(scheme))
        };
        let foreign = self
            .exchanges
            .values()
            .filter(|exchange| !is_own(&exchange.url));
        complaints
            .extend(foreign.map(|exchange| format!("a request to another host: {}", exchange.url)));
        complaints
    }
}

fn ready<T: chromiumoxide::cdp::IntoEventKind + Unpin>(
    events: &mut EventStream<T>,
) -> Option<std::sync::Arc<T>> {
    events.next().now_or_never().flatten()
}

fn text(object: &RemoteObject) -> String {
    match (&object.value, &object.description) {
        (Some(serde_json::Value::String(text)), _) => text.clone(),
        (Some(value), _) => value.to_string(),
        (None, Some(description)) => description.clone(),
        (None, None) => "undefined".to_owned(),
    }
}
