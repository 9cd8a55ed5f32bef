//! Watches a page's errors, reports of its content security policy, and requests.

use serde_json::{Value, json};

use crate::devtools::{Event, Session};

/// Runs in each document before the document's own scripts, so that no report of the content security policy is missed.
/// Defines `$` and `$$`, as the browser's console does.
const PRELUDE: &str = "document.addEventListener('securitypolicyviolation', (report) => console.error(
    `CSP report: ${report.violatedDirective} forbids ${report.blockedURI} at ${report.sourceFile}:${report.lineNumber}`));
    window.$ = (query) => document.querySelector(query);
    window.$$ = (query) => [...document.querySelectorAll(query)];";

/// A request, and its answer.
#[derive(Clone, Debug, Default)]
pub struct Exchange {
    id: String,
    /// The whole URL.
    pub url: String,
    /// The time at which the request was sent, in seconds of the browser's clock.
    pub at: f64,
    /// The status of the answer, once there is one.
    pub status: Option<i64>,
    /// Whether the answer came from the browser's cache.
    pub is_cached: bool,
    /// Bytes that came over the network: the headers and the encoded body.
    pub bytes: f64,
}

impl Exchange {
    /// The path and the query.
    pub fn path(&self) -> &str {
        let after_scheme = self.url.split_once("://").map_or("", |(_, url)| url);
        after_scheme
            .find('/')
            .map_or("/", |start| &after_scheme[start..])
    }
}

/// The requests and the errors of a tab.
#[derive(Default)]
pub(crate) struct Watch {
    /// The host of the first URL. Requests may go only to this host.
    pub(crate) host: Option<String>,
    pub(crate) tolerated: Vec<String>,
    exchanges: Vec<Exchange>,
    errors: Vec<String>,
}

impl Watch {
    /// Lets the tab report its events.
    pub(crate) async fn begin(tab: &Session) -> Self {
        for domain in ["Page", "Network", "Runtime", "Log"] {
            tab.call(&format!("{domain}.enable"), json!({})).await;
        }
        let prelude = json!({"source": PRELUDE, "runImmediately": true});
        tab.call("Page.addScriptToEvaluateOnNewDocument", prelude)
            .await;
        Self::default()
    }

    pub(crate) fn update(&mut self, events: Vec<Event>) {
        for Event { method, params } in events {
            self.take(&method, &params);
        }
    }

    fn take(&mut self, method: &str, params: &Value) {
        let id = string(&params["requestId"]);
        // After a redirect, two exchanges have the same id: the event belongs to the last one. A request that began
        // before the tab was watched has no exchange.
        let exchange = self.exchanges.iter_mut().rfind(|one| one.id == id);
        match (method, exchange) {
            ("Network.requestWillBeSent", _) => self.exchanges.push(Exchange {
                id,
                url: string(&params["request"]["url"]),
                at: params["timestamp"].as_f64().expect("a time"),
                ..Exchange::default()
            }),
            ("Network.responseReceived", Some(exchange)) => {
                exchange.status = params["response"]["status"].as_i64();
                exchange.is_cached |= params["response"]["fromDiskCache"] == true;
            }
            ("Network.requestServedFromCache", Some(exchange)) => exchange.is_cached = true,
            ("Network.loadingFinished", Some(exchange)) => {
                exchange.bytes = params["encodedDataLength"].as_f64().expect("a number");
            }
            ("Runtime.consoleAPICalled", _) => {
                let arguments = params["args"].as_array().expect("arguments");
                let text: Vec<_> = arguments.iter().map(shown).collect();
                self.add_if_error(&params["type"], format!("console: {}", text.join(" ")));
            }
            ("Runtime.exceptionThrown", _) => {
                let exception = shown(&params["exceptionDetails"]["exception"]);
                self.errors.push(format!("exception: {exception}"));
            }
            ("Log.entryAdded", _) => {
                let entry = &params["entry"];
                let text = format!("{}: {}", string(&entry["text"]), entry["url"]);
                self.add_if_error(&entry["level"], text);
            }
            _ => {}
        }
    }

    fn add_if_error(&mut self, level: &Value, text: String) {
        let bad = ["error", "warning", "assert"];
        if bad.iter().any(|bad| level == bad) {
            self.errors.push(text);
        }
    }

    pub(crate) fn exchanges(&self) -> Vec<Exchange> {
        self.exchanges.clone()
    }

    /// Errors that are not tolerated, and requests to other hosts.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let is_tolerated = |error: &String| self.tolerated.iter().any(|part| error.contains(part));
        let errors = self.errors.iter().filter(|error| !is_tolerated(error));
        let is_local =
            |url: &str| ["data:", "blob:", "about:"].map(|scheme| url.starts_with(scheme));
        let foreign = self.exchanges.iter().filter(|exchange| {
            !is_local(&exchange.url).contains(&true) && Some(host(&exchange.url)) != self.host
        });
        let foreign = foreign.map(|request| format!("a request to another host: {}", request.url));
        errors.cloned().chain(foreign).collect()
    }
}

/// The host of a URL, with its port, but without a user or password.
pub(crate) fn host(url: &str) -> String {
    let host = url.split('/').nth(2).unwrap_or_default();
    host.rsplit('@').next().unwrap_or_default().to_owned()
}

fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A value of the page, in the form in which a console shows it.
fn shown(object: &Value) -> String {
    match (&object["value"], object["description"].as_str()) {
        (Value::String(text), _) => text.clone(),
        (Value::Null, Some(description)) => description.to_owned(),
        (value, _) => value.to_string(),
    }
}
