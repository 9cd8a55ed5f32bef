//! A tab: opening, reading and waiting.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use data_encoding::BASE64;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::chromium::Chromium;
use crate::devtools::Session;
use crate::emulation::Size;
use crate::rig::process::TempDir;
use crate::watch::{Exchange, Watch};

/// How long anything that must happen may take, on a machine that is busy with other tests.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Time between two looks at a page.
const PERIOD: Duration = Duration::from_millis(20);

/// Whether the screen has drawn its first data.
const READY: &str = "document.body?.dataset.ready === 'true'";

/// A tab in a browser context of its own. It must be ended with [`Self::end`], which fails the test for errors that
/// nobody has seen.
pub struct Page {
    tab: Session,
    /// The id of its browser context.
    context: String,
    watch: Mutex<Watch>,
    /// The origin of the first page that was opened.
    origin: Mutex<String>,
    tolerated: Mutex<Vec<String>>,
    downloads: TempDir,
    is_ended: bool,
}

impl Page {
    /// An empty tab of a desktop's size.
    pub async fn empty() -> Self {
        let downloads = TempDir::new("downloads");
        let opening = async {
            let devtools = Chromium::shared().devtools();
            let id = |answer: &Value, name: &str| match answer[name].as_str() {
                Some(id) => Ok(id.to_owned()),
                None => Err(format!("{answer} has no {name}")),
            };
            let context = devtools.call("Target.createBrowserContext", json!({}));
            let context = id(&context.await?, "browserContextId")?;
            let allow = json!({
                "behavior": "allow", "browserContextId": context, "downloadPath": downloads.path(),
            });
            devtools.call("Browser.setDownloadBehavior", allow).await?;
            let target = json!({"url": "about:blank", "browserContextId": context});
            let target = devtools.call("Target.createTarget", target).await?;
            let tab = devtools.attach(&id(&target, "targetId")?).await?;
            let watch = Watch::begin(&tab).await?;
            Ok::<_, String>((context, tab, watch))
        };
        let (context, tab, watch) = opening
            .await
            .unwrap_or_else(|error| panic!("no tab: {error}"));
        let page = Self {
            tab,
            context,
            watch: Mutex::new(watch),
            origin: Mutex::default(),
            tolerated: Mutex::default(),
            downloads,
            is_ended: false,
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
        self.until(&format!("{url} is drawn"), READY).await;
    }

    /// Goes to a URL, and waits for its document only.
    pub async fn load(&self, url: &str) {
        self.take_origin(url);
        // A change of the fragment alone is no navigation: the document stays.
        let same = format!(
            "location.href.split('#')[0] === {}.split('#')[0]",
            quoted(url)
        );
        if url.contains('#') && self.eval::<bool>(&same).await {
            self.run(&format!("void (location.href = {})", quoted(url)))
                .await;
        } else {
            self.call("Page.navigate", json!({"url": url})).await;
            self.until(
                &format!("{url} is loaded"),
                "document.readyState === 'complete'",
            )
            .await;
        }
    }

    /// The origin of the first URL is the one that requests may go to.
    fn take_origin(&self, url: &str) {
        let mut origin = lock(&self.origin);
        if origin.is_empty() {
            let parts: Vec<_> = url.splitn(4, '/').take(3).collect();
            let host = parts.last().and_then(|host| host.rsplit('@').next());
            *origin = format!("{}//{}", parts[0], host.unwrap_or_default());
        }
    }

    /// Loads the document again, and waits until its screen is drawn.
    pub async fn reload(&self) {
        self.run("delete document.body.dataset.ready").await;
        self.call("Page.reload", json!({})).await;
        self.until("the page is drawn again", READY).await;
    }

    /// Goes to another screen by its fragment, and waits until it is drawn.
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
        let is_drawn = format!(
            "document.body.dataset.screen === {} && {READY}",
            quoted(screen)
        );
        self.until(&format!("the screen {screen} is drawn"), &is_drawn)
            .await;
    }

    /// Waits until an expression is true. Panics with `what`, and with what the page shows instead, when it is not
    /// in time.
    pub async fn until(&self, what: &str, expression: &str) {
        self.until_within(PATIENCE, what, expression).await;
    }

    /// The same with another patience.
    pub async fn until_within(&self, patience: Duration, what: &str, expression: &str) {
        let start = Instant::now();
        loop {
            let last = self.try_eval::<bool>(&format!("!!({expression})")).await;
            if last == Ok(true) {
                return;
            }
            if start.elapsed() > patience {
                let why = last
                    .err()
                    .unwrap_or_else(|| format!("stays false: {expression}"));
                panic!(
                    "not within {patience:?}: {what}\n{why}\n{}",
                    self.describe().await
                );
            }
            tokio::time::sleep(PERIOD).await;
        }
    }

    /// Waits until an expression has a value that passes.
    pub async fn until_value<T: DeserializeOwned + std::fmt::Debug>(
        &self,
        what: &str,
        expression: &str,
        passes: impl Fn(&T) -> bool,
    ) -> T {
        let start = Instant::now();
        loop {
            let last = self.try_eval::<T>(expression).await;
            match last {
                Ok(value) if passes(&value) => return value,
                last if start.elapsed() > PATIENCE => {
                    panic!(
                        "not within {PATIENCE:?}: {what}\n{last:?}\n{}",
                        self.describe().await
                    )
                }
                _ => tokio::time::sleep(PERIOD).await,
            }
        }
    }

    /// The value of an expression, or of its promise. Panics if it throws.
    pub async fn eval<T: DeserializeOwned>(&self, expression: &str) -> T {
        match self.try_eval(expression).await {
            Ok(value) => value,
            Err(error) => panic!("{error}\nin {expression}"),
        }
    }

    /// Runs statements, whatever their value is. Panics if they throw.
    pub async fn run(&self, statements: &str) {
        self.eval::<serde::de::IgnoredAny>(statements).await;
    }

    async fn try_eval<T: DeserializeOwned>(&self, expression: &str) -> Result<T, String> {
        let params = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let mut answer = self.tab.call("Runtime.evaluate", params).await?;
        if let Some(thrown) = answer.get("exceptionDetails") {
            let description = thrown["exception"]["description"].as_str();
            let text = description.or(thrown["text"].as_str());
            return Err(text.unwrap_or("it throws").to_owned());
        }
        let value = answer["result"]["value"].take();
        serde_json::from_value(value).map_err(|error| error.to_string())
    }

    /// Runs a function of the page's elements: `query` is a selector, `each` an expression of `element`.
    pub async fn each<T: DeserializeOwned>(&self, query: &str, each: &str) -> Vec<T> {
        let query = quoted(query);
        self.eval(&format!(
            "[...document.querySelectorAll({query})].map((element) => {each})"
        ))
        .await
    }

    /// How many elements match.
    pub async fn count(&self, query: &str) -> usize {
        self.eval(&format!(
            "document.querySelectorAll({}).length",
            quoted(query)
        ))
        .await
    }

    /// The text of the first element that matches, as it is shown. Panics if there is none.
    pub async fn text(&self, query: &str) -> String {
        let texts = self.texts(query).await;
        match texts.into_iter().next() {
            Some(text) => text,
            None => panic!("there is no {query}\n{}", self.describe().await),
        }
    }

    /// The texts of all elements that match, as they are shown.
    pub async fn texts(&self, query: &str) -> Vec<String> {
        self.each(query, "(element.innerText ?? element.textContent).trim()")
            .await
    }

    /// An attribute of the first element that matches.
    pub async fn attribute(&self, query: &str, name: &str) -> Option<String> {
        let (query, name) = (quoted(query), quoted(name));
        self.eval(&format!(
            "document.querySelector({query})?.getAttribute({name}) ?? null"
        ))
        .await
    }

    /// Whether an element that matches is shown, wherever on the page.
    pub async fn is_shown(&self, query: &str) -> bool {
        self.eval(&shown(query)).await
    }

    /// Waits until an element that matches is shown.
    pub async fn until_shown(&self, query: &str) {
        self.until(&format!("{query} is shown"), &shown(query))
            .await;
    }

    /// Waits until no element that matches is shown.
    pub async fn until_hidden(&self, query: &str) {
        self.until(
            &format!("{query} is hidden"),
            &format!("!({})", shown(query)),
        )
        .await;
    }

    /// The URL.
    pub async fn url(&self) -> String {
        self.eval("location.href").await
    }

    /// The fragment of the URL, decoded, without its `#`.
    pub async fn fragment(&self) -> String {
        self.eval("decodeURIComponent(location.hash.slice(1))")
            .await
    }

    /// Waits until the fragment has a part: a filter that is typed goes to the URL when the typing ends.
    pub async fn until_fragment_has(&self, part: &str) {
        self.until_value(
            &format!("the URL has {part}"),
            "decodeURIComponent(location.hash)",
            |fragment: &String| fragment.contains(part),
        )
        .await;
    }

    /// Goes back in the history, as the browser's button does.
    pub async fn back(&self) {
        self.run("history.back()").await;
    }

    /// Waits until a file was downloaded, and returns its name and its text.
    pub async fn download(&self) -> (String, String) {
        let start = Instant::now();
        loop {
            let files =
                std::fs::read_dir(self.downloads.path()).expect("the directory of downloads");
            for file in files.flatten() {
                let name = file.file_name().to_string_lossy().into_owned();
                if !name.ends_with(".crdownload") && !name.starts_with(".") {
                    let text = std::fs::read_to_string(file.path()).expect("a text");
                    if text.is_empty() {
                        // Chromium reserves the name, and puts the file there when it is complete.
                        continue;
                    }
                    std::fs::remove_file(file.path()).expect("its removal");
                    return (name, text);
                }
            }
            if start.elapsed() > PATIENCE {
                panic!(
                    "nothing was downloaded within {PATIENCE:?}\n{}",
                    self.describe().await
                );
            }
            tokio::time::sleep(PERIOD).await;
        }
    }

    /// The requests so far.
    pub async fn exchanges(&self) -> Vec<Exchange> {
        self.catch_up().await;
        lock(&self.watch).exchanges()
    }

    /// Takes no offence at errors that contain this text, such as those of a store that is away.
    pub fn tolerate(&self, part: &str) {
        lock(&self.tolerated).push(part.to_owned());
    }

    /// A picture of what is in view, as PNG.
    pub async fn screenshot(&self) -> Vec<u8> {
        self.call("Page.bringToFront", json!({})).await;
        let answer = self.call("Page.captureScreenshot", json!({"format": "png"}));
        let answer = answer.await;
        let picture = answer["data"].as_str().unwrap_or_default();
        BASE64.decode(picture.as_bytes()).expect("a screenshot")
    }

    /// What is wrong so far: errors in the console, exceptions, reports of the content security policy, requests to
    /// other hosts.
    pub async fn complaints(&self) -> Vec<String> {
        self.catch_up().await;
        lock(&self.watch).complaints(&lock(&self.origin), &lock(&self.tolerated))
    }

    /// Ends the tab. Fails the test if anything is wrong.
    pub async fn end(mut self) {
        self.is_ended = true;
        let complaints = self.complaints().await;
        assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    }

    /// Has all events that happened until now.
    async fn catch_up(&self) {
        // The events that the page caused come before the answer.
        for _ in 0..2 {
            let _ = self.try_eval::<()>("undefined").await;
        }
        lock(&self.watch).update(self.tab.take_events());
    }

    /// What the page shows, for the message of a failed test.
    async fn describe(&self) -> String {
        let text = "location.href + '\\nready: ' + document.body?.dataset.ready + ', screen: ' + document.body?.dataset.screen
            + '\\n' + (document.body?.innerText ?? '').slice(0, 1500)";
        let text = self
            .try_eval::<String>(text)
            .await
            .unwrap_or_else(|error| error);
        let complaints = self.complaints().await.join("\n");
        format!("the page: {text}\ncomplaints: {complaints}")
    }

    /// Calls a method of the DevTools protocol in the tab. Panics if it fails.
    pub(crate) async fn call(&self, method: &str, params: Value) -> Value {
        match self.tab.call(method, params).await {
            Ok(answer) => answer,
            Err(error) => panic!("{error}"),
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let chromium = Chromium::shared();
        let context = json!({"browserContextId": self.context});
        chromium.spawn(async move {
            let devtools = Chromium::shared().devtools();
            // A tab that is not closed costs memory only.
            let _ = devtools.call("Target.disposeBrowserContext", context).await;
        });
        assert!(
            self.is_ended || std::thread::panicking(),
            "`Page::end` was not called: nobody has looked whether there were errors"
        );
    }
}

/// A string as JavaScript.
pub fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Whether an element that matches is shown.
fn shown(query: &str) -> String {
    format!(
        "[...document.querySelectorAll({})].some((element) => element.checkVisibility({{visibilityProperty: true}})
            && element.getClientRects().length > 0)",
        quoted(query)
    )
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
