//! A tab: opening, reading and waiting.

use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use data_encoding::BASE64;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::chromium::Chromium;
use crate::devtools::Session;
use crate::emulation::Size;
use crate::rig::process::TempDir;
use crate::rig::wait::{PATIENCE, look_until};
use crate::watch::{Exchange, Watch, host};

/// The time between two evaluations while waiting.
const PERIOD: Duration = Duration::from_millis(20);

/// Whether the screen has drawn its first data.
const READY: &str = "document.body?.dataset.ready === 'true'";

/// A tab in a browser context of its own. Dropping a tab with [complaints](Self::complaints) fails the test.
pub struct Page {
    tab: Session,
    /// The id of the tab's browser context.
    context: String,
    watch: Mutex<Watch>,
    downloads: TempDir,
}

impl Page {
    /// An empty tab of a desktop's size.
    pub async fn empty() -> Self {
        let downloads = TempDir::new("downloads");
        let devtools = Chromium::shared().devtools();
        let context = devtools.call("Target.createBrowserContext", json!({}));
        let context = text(&context.await, "browserContextId");
        let allow = json!({
            "behavior": "allow", "browserContextId": context, "downloadPath": downloads.path(),
        });
        devtools.call("Browser.setDownloadBehavior", allow).await;
        let target = json!({"url": "about:blank", "browserContextId": context});
        let target = devtools.call("Target.createTarget", target).await;
        let tab = devtools.attach(&text(&target, "targetId")).await;
        let page = Self {
            watch: Mutex::new(Watch::begin(&tab).await),
            tab,
            context,
            downloads,
        };
        page.keep_focus().await;
        page.resize(Size::DESKTOP).await;
        page
    }

    /// Opens a URL in a tab of its own, and waits until its screen is drawn.
    pub async fn open(url: &str) -> Self {
        let page = Self::empty().await;
        page.go(url).await;
        page
    }

    /// Goes to a URL, and waits until its screen is drawn.
    pub async fn go(&self, url: &str) {
        self.load(url).await;
        self.until(READY).await;
    }

    /// Goes to a URL, and waits only for its document.
    pub async fn load(&self, url: &str) {
        lock(&self.watch).host.get_or_insert_with(|| host(url));
        // A change of the fragment alone is no navigation: the document stays.
        let (document, url_as_script) = (quoted(url.split('#').next().unwrap()), quoted(url));
        let same = format!("location.href.split('#')[0] === {document}");
        if url.contains('#') && self.eval(&same).await {
            self.run(&format!("void (location.href = {url_as_script})"))
                .await;
        } else {
            self.call("Page.navigate", json!({"url": url})).await;
            self.until("document.readyState === 'complete'").await;
        }
    }

    /// Loads the document again, and waits until its screen is drawn.
    pub async fn reload(&self) {
        self.run("delete document.body.dataset.ready").await;
        self.call("Page.reload", json!({})).await;
        self.until(READY).await;
    }

    /// Goes to another screen by its fragment, and waits until the screen is drawn.
    pub async fn show(&self, fragment: &str) {
        self.run(&format!("void (location.hash = {})", quoted(fragment)))
            .await;
        let screen = fragment
            .trim_start_matches('#')
            .split(['?', '/'])
            .next()
            .unwrap_or_default();
        self.until_screen(screen).await;
    }

    /// Waits until this screen is drawn.
    pub async fn until_screen(&self, screen: &str) {
        let screen = quoted(screen);
        self.until(&format!(
            "document.body.dataset.screen === {screen} && {READY}"
        ))
        .await;
    }

    /// Waits until an expression is true. After a timeout, panics with the text of the page.
    pub async fn until(&self, expression: &str) {
        self.until_value(&format!("!!({expression})"), |value| *value)
            .await;
    }

    /// Waits until an expression has a value for which `passes` is true.
    pub async fn until_value<T: DeserializeOwned + std::fmt::Debug>(
        &self,
        expression: &str,
        passes: impl Fn(&T) -> bool,
    ) -> T {
        let start = Instant::now();
        loop {
            match self.try_eval::<T>(expression).await {
                Ok(value) if passes(&value) => return value,
                last if start.elapsed() > PATIENCE => {
                    let page = self.describe().await;
                    panic!("not within {PATIENCE:?}: {expression}\n{last:?}\n{page}")
                }
                _ => tokio::time::sleep(PERIOD).await,
            }
        }
    }

    /// The value of an expression, or of its promise. Panics if the expression throws.
    pub async fn eval<T: DeserializeOwned>(&self, expression: &str) -> T {
        let value = self.try_eval(expression).await;
        value.unwrap_or_else(|error| panic!("{error}\nin {expression}"))
    }

    /// Runs statements, and ignores their value. Panics if they throw.
    pub async fn run(&self, statements: &str) {
        self.eval::<serde::de::IgnoredAny>(statements).await;
    }

    async fn try_eval<T: DeserializeOwned>(&self, expression: &str) -> Result<T, String> {
        let params = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let mut answer = self.tab.try_call("Runtime.evaluate", params).await?;
        if let Some(thrown) = answer.get("exceptionDetails") {
            let description = thrown["exception"]["description"].as_str();
            let text = description.or(thrown["text"].as_str());
            return Err(text.unwrap_or("an exception").to_owned());
        }
        let value = answer["result"]["value"].take();
        serde_json::from_value(value).map_err(|error| error.to_string())
    }

    /// Evaluates an expression of `element` for each element that matches the selector `query`.
    pub async fn each<T: DeserializeOwned>(&self, query: &str, each: &str) -> Vec<T> {
        let query = quoted(query);
        self.eval(&format!("$$({query}).map((element) => {each})"))
            .await
    }

    /// The number of elements that match.
    pub async fn count(&self, query: &str) -> usize {
        self.eval(&format!("$$({}).length", quoted(query))).await
    }

    /// The visible text of the first element that matches. Panics if no element matches.
    pub async fn text(&self, query: &str) -> String {
        let texts = self.texts(query).await;
        match texts.into_iter().next() {
            Some(text) => text,
            None => panic!("there is no {query}\n{}", self.describe().await),
        }
    }

    /// The visible texts of all elements that match.
    pub async fn texts(&self, query: &str) -> Vec<String> {
        self.each(query, "(element.innerText ?? element.textContent).trim()")
            .await
    }

    /// Whether an element that matches is shown, even if only after scrolling.
    pub async fn is_shown(&self, query: &str) -> bool {
        self.eval(&shown(query)).await
    }

    /// Waits until an element that matches is shown.
    pub async fn until_shown(&self, query: &str) {
        self.until(&shown(query)).await;
    }

    /// Waits until no element that matches is shown.
    pub async fn until_hidden(&self, query: &str) {
        self.until(&format!("!({})", shown(query))).await;
    }

    /// The URL of the page, with its fragment.
    pub async fn url(&self) -> String {
        self.eval("location.href").await
    }

    /// The fragment of the URL, decoded, without its `#`.
    pub async fn fragment(&self) -> String {
        self.eval("decodeURIComponent(location.hash.slice(1))")
            .await
    }

    /// Waits until the fragment contains a text.
    pub async fn until_fragment_has(&self, part: &str) {
        let part = quoted(part);
        self.until(&format!(
            "decodeURIComponent(location.hash).includes({part})"
        ))
        .await;
    }

    /// Asks for data now, instead of when the next poll is due.
    pub async fn poll(&self) {
        self.run("$('#refresh').dispatchEvent(new Event('change'))")
            .await;
    }

    /// Goes back in the history, as the browser's button does.
    pub async fn back(&self) {
        self.run("history.back()").await;
    }

    /// Waits until a file was downloaded, and returns its name and its text.
    pub async fn download(&self) -> (String, String) {
        look_until(PATIENCE, async || {
            let files = std::fs::read_dir(self.downloads.path()).expect("a directory");
            for file in files.flatten() {
                let name = file.file_name().to_string_lossy().into_owned();
                // While a download runs, its file has another name, or is empty.
                let is_partial = name.ends_with(".crdownload") || name.starts_with('.');
                let text = std::fs::read_to_string(file.path()).unwrap_or_default();
                if !is_partial && !text.is_empty() {
                    std::fs::remove_file(file.path()).expect("the file's removal");
                    return Ok((name, text));
                }
            }
            Err("nothing was downloaded".to_owned())
        })
        .await
    }

    /// The requests so far.
    pub async fn exchanges(&self) -> Vec<Exchange> {
        self.watch().await.exchanges()
    }

    /// The requests for data so far.
    pub async fn polls(&self) -> Vec<Exchange> {
        let mut exchanges = self.exchanges().await;
        exchanges.retain(|exchange| exchange.path().contains("/api/"));
        exchanges
    }

    /// Ignores errors that contain this text, such as those of a store that is away.
    pub fn tolerate(&self, part: &str) {
        lock(&self.watch).tolerated.push(part.to_owned());
    }

    /// A picture of the visible part of the page, as PNG.
    pub async fn screenshot(&self) -> Vec<u8> {
        self.call("Page.bringToFront", json!({})).await;
        let picture = self.call("Page.captureScreenshot", json!({"format": "png"}));
        let picture = text(&picture.await, "data");
        BASE64.decode(picture.as_bytes()).expect("a screenshot")
    }

    /// The faults of the page: errors in the console, exceptions, CSP reports, requests to other hosts.
    pub async fn complaints(&self) -> Vec<String> {
        self.watch().await.complaints()
    }

    /// The watch, updated by all events so far.
    async fn watch(&self) -> MutexGuard<'_, Watch> {
        self.tab.catch_up().await;
        let mut watch = lock(&self.watch);
        watch.update(self.tab.take_events());
        watch
    }

    /// The URL, the text and the complaints, for the message of a failed test.
    async fn describe(&self) -> String {
        let text = "`${location.href}, ready: ${document.body?.dataset.ready}, ${document.body?.innerText.slice(0, 1500)}`";
        let text = self.try_eval::<String>(text).await;
        format!("{text:?}\ncomplaints: {:?}", self.complaints().await)
    }

    pub(crate) async fn call(&self, method: &str, params: Value) -> Value {
        self.tab.call(method, params).await
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let (tab, context) = (self.tab.clone(), json!({"browserContextId": self.context}));
        let (sender, has_caught_up) = mpsc::channel();
        Chromium::shared().spawn(async move {
            tab.catch_up().await;
            let _ = sender.send(());
            let devtools = Chromium::shared().devtools();
            devtools.call("Target.disposeBrowserContext", context).await;
        });
        // This call blocks the test's runtime. The task above runs in the browser's own runtime.
        has_caught_up.recv().expect("the page answers");
        let mut watch = lock(&self.watch);
        watch.update(self.tab.take_events());
        let complaints = watch.complaints();
        assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    }
}

fn text(answer: &Value, name: &str) -> String {
    let text = answer[name].as_str();
    text.unwrap_or_else(|| panic!("{answer} has no {name}"))
        .to_owned()
}

/// A string literal of JavaScript.
pub fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// An expression: whether an element that matches is shown.
fn shown(query: &str) -> String {
    let query = quoted(query);
    format!(
        "$$({query}).some((element) => element.checkVisibility({{visibilityProperty: true}})
            && element.getClientRects().length > 0)"
    )
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
