//! What a page does besides what it shows: errors, reports of its content security policy, and requests.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::devtools::{Event, Session};

/// Runs in each document before its own scripts, so that no report of its policy is missed.
pub(crate) const REPORTS: &str = "document.addEventListener('securitypolicyviolation', (report) => console.error(
    `CSP report: ${report.violatedDirective} forbids ${report.blockedURI} at ${report.sourceFile}:${report.lineNumber}`));";

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
#[derive(Default)]
pub(crate) struct Watch {
    exchanges: BTreeMap<String, Exchange>,
    /// The ids of the exchanges in the order in which they were sent.
    order: Vec<String>,
    errors: Vec<String>,
}

impl Watch {
    /// Has the tab tell what it does.
    pub(crate) async fn begin(tab: &Session) -> Result<Self, String> {
        for domain in ["Page", "Network", "Runtime", "Log"] {
            tab.call(&format!("{domain}.enable"), json!({})).await?;
        }
        let reports = json!({"source": REPORTS});
        tab.call("Page.addScriptToEvaluateOnNewDocument", reports)
            .await?;
        Ok(Self::default())
    }

    /// Takes in what the tab has told.
    pub(crate) fn update(&mut self, events: Vec<Event>) {
        for event in events {
            if let Err(missing) = self.take(&event) {
                self.errors.push(format!(
                    "cannot be read, for {missing}: {} {}",
                    event.method, event.params
                ));
            }
        }
    }

    /// Fails with what an event lacks that must be known.
    fn take(&mut self, event: &Event) -> Result<(), &'static str> {
        let params = &event.params;
        match event.method.as_str() {
            "Network.requestWillBeSent" => {
                let id = string(&params["requestId"], "requestId")?;
                let request = &params["request"];
                let exchange = Exchange {
                    url: string(&request["url"], "url")?,
                    method: string(&request["method"], "method")?,
                    at: number(&params["timestamp"], "timestamp")?,
                    ..Exchange::default()
                };
                if self.exchanges.insert(id.clone(), exchange).is_none() {
                    self.order.push(id);
                }
            }
            "Network.responseReceived" => {
                if let Some(exchange) = self.exchange(params)? {
                    let response = &params["response"];
                    exchange.status = Some(response["status"].as_i64().ok_or("status")?);
                    exchange.is_cached |= response["fromDiskCache"].as_bool().unwrap_or(false);
                }
            }
            "Network.requestServedFromCache" => {
                if let Some(exchange) = self.exchange(params)? {
                    exchange.is_cached = true;
                }
            }
            "Network.loadingFinished" => {
                if let Some(exchange) = self.exchange(params)? {
                    exchange.bytes = number(&params["encodedDataLength"], "encodedDataLength")?;
                }
            }
            "Network.loadingFailed" => {
                if let Some(exchange) = self.exchange(params)? {
                    exchange.failure = Some(string(&params["errorText"], "errorText")?);
                }
            }
            "Runtime.consoleAPICalled" => {
                let kind = params["type"].as_str().ok_or("type")?;
                if ["error", "warning", "assert"].contains(&kind) {
                    let arguments = params["args"].as_array().ok_or("args")?;
                    let text: Vec<_> = arguments.iter().map(text).collect();
                    self.errors.push(format!("console: {}", text.join(" ")));
                }
            }
            "Runtime.exceptionThrown" => {
                let details = &params["exceptionDetails"];
                let why = string(&details["text"], "text")?;
                let thrown = details.get("exception").map(text).unwrap_or_default();
                self.errors.push(format!("exception: {why} {thrown}"));
            }
            "Log.entryAdded" => {
                let entry = &params["entry"];
                let level = entry["level"].as_str().ok_or("level")?;
                if ["error", "warning"].contains(&level) {
                    let source = string(&entry["source"], "source")?;
                    let text = string(&entry["text"], "text")?;
                    let url = entry["url"].as_str().unwrap_or_default();
                    self.errors.push(format!("{source}: {text} {url}"));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The exchange of an event, unless it began before the tab was watched.
    fn exchange(&mut self, params: &Value) -> Result<Option<&mut Exchange>, &'static str> {
        let id = params["requestId"].as_str().ok_or("requestId")?;
        Ok(self.exchanges.get_mut(id))
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

fn string(value: &Value, name: &'static str) -> Result<String, &'static str> {
    value.as_str().map(str::to_owned).ok_or(name)
}

fn number(value: &Value, name: &'static str) -> Result<f64, &'static str> {
    value.as_f64().ok_or(name)
}

/// A value of the page, as a console shows it.
fn text(object: &Value) -> String {
    match (object.get("value"), object["description"].as_str()) {
        (Some(Value::String(text)), _) => text.clone(),
        (Some(value), _) => value.to_string(),
        (None, Some(description)) => description.to_owned(),
        (None, None) => "undefined".to_owned(),
    }
}
