//! A connection to Chromium by its DevTools protocol: calls, and the events of tabs.
//!
//! Messages are JSON objects over one WebSocket. A call has a number, which its answer repeats; a tab's messages carry the
//! number of its session. Events are kept, as the browser sends them, until the tab's [`Session`] takes them.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

/// How long Chromium may take for one answer.
const ANSWER: Duration = Duration::from_secs(30);

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;
type Answer = Result<Value, String>;

/// An event of a tab: its method, such as `Network.requestWillBeSent`, and its parameters.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) method: String,
    pub(crate) params: Value,
}

/// The connection. Clones share it.
#[derive(Clone)]
pub(crate) struct DevTools {
    calls: mpsc::UnboundedSender<String>,
    open: Arc<Mutex<Open>>,
}

/// Calls without an answer, and events that no session has taken.
#[derive(Default)]
struct Open {
    last_call: u64,
    answers: HashMap<u64, oneshot::Sender<Answer>>,
    events: HashMap<String, Vec<Event>>,
    /// Why there is no connection any more.
    end: Option<String>,
}

impl DevTools {
    /// Connects to a browser's URL, `ws://127.0.0.1:…/devtools/browser/…`. Tasks of the current runtime read and write.
    pub(crate) async fn connect(url: &str) -> Result<Self, tungstenite::Error> {
        // Pictures and large values of the page are one message.
        let config = tungstenite::protocol::WebSocketConfig::default()
            .max_message_size(None)
            .max_frame_size(None);
        let connecting = tokio_tungstenite::connect_async_with_config(url, Some(config), true);
        let (socket, _) = connecting.await?;
        let (sink, stream) = socket.split();
        let (calls, queue) = mpsc::unbounded_channel();
        let open = Arc::default();
        tokio::spawn(send(sink, queue));
        tokio::spawn(receive(stream, Arc::clone(&open)));
        Ok(Self { calls, open })
    }

    /// Calls a method of the browser.
    pub(crate) async fn call(&self, method: &str, params: Value) -> Answer {
        self.call_in(None, method, params).await
    }

    /// Attaches to a tab.
    pub(crate) async fn attach(&self, target: &str) -> Result<Session, String> {
        let params = json!({"targetId": target, "flatten": true});
        let answer = self.call("Target.attachToTarget", params).await?;
        let id = answer["sessionId"].as_str().ok_or("no session")?.to_owned();
        Ok(Session {
            devtools: self.clone(),
            id,
        })
    }

    async fn call_in(&self, session: Option<&str>, method: &str, params: Value) -> Answer {
        let (sender, answer) = oneshot::channel();
        let id = {
            let mut open = lock(&self.open);
            if let Some(end) = &open.end {
                return Err(format!("{method}: {end}"));
            }
            open.last_call += 1;
            let id = open.last_call;
            open.answers.insert(id, sender);
            id
        };
        let mut call = json!({"id": id, "method": method, "params": params});
        if let Some(session) = session {
            call["sessionId"] = session.into();
        }
        // A connection that has ended drops all senders of answers.
        let _ = self.calls.send(call.to_string());
        match tokio::time::timeout(ANSWER, answer).await {
            Ok(Ok(answer)) => answer.map_err(|error| format!("{method}: {error}")),
            Ok(Err(_)) => Err(format!("{method}: the connection to Chromium ended")),
            Err(_) => Err(format!("{method}: no answer within {ANSWER:?}")),
        }
    }
}

impl fmt::Debug for DevTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DevTools").finish_non_exhaustive()
    }
}

/// A tab that is attached to.
pub(crate) struct Session {
    devtools: DevTools,
    id: String,
}

impl Session {
    /// Calls a method in the tab.
    pub(crate) async fn call(&self, method: &str, params: Value) -> Answer {
        self.devtools.call_in(Some(&self.id), method, params).await
    }

    /// The events since the last call of this, in their order.
    pub(crate) fn take_events(&self) -> Vec<Event> {
        let mut open = lock(&self.devtools.open);
        open.events.remove(&self.id).unwrap_or_default()
    }
}

async fn send(mut sink: SplitSink<Socket, Message>, mut queue: mpsc::UnboundedReceiver<String>) {
    while let Some(call) = queue.recv().await {
        if sink.send(Message::text(call)).await.is_err() {
            // The reader says why.
            return;
        }
    }
}

async fn receive(mut stream: SplitStream<Socket>, open: Arc<Mutex<Open>>) {
    let end = loop {
        let text = match stream.next().await {
            Some(Ok(Message::Text(text))) => text,
            Some(Ok(Message::Close(_))) | None => {
                break "Chromium closed the connection".to_owned();
            }
            Some(Ok(_)) => continue,
            Some(Err(error)) => break format!("the connection to Chromium broke: {error}"),
        };
        match serde_json::from_str(&text) {
            Ok(message) => lock(&open).take(message),
            Err(error) => break format!("Chromium sent no JSON: {error}"),
        }
    };
    let mut open = lock(&open);
    open.end = Some(end);
    open.answers.clear();
}

impl Open {
    fn take(&mut self, mut message: Value) {
        if let Some(id) = message["id"].as_u64() {
            let answer = match message.get_mut("error") {
                Some(error) => Err(error.to_string()),
                None => Ok(message["result"].take()),
            };
            if let Some(sender) = self.answers.remove(&id) {
                // Nobody waits for the answer to a test that has ended.
                let _ = sender.send(answer);
            }
            return;
        }
        let (Some(session), Some(method)) =
            (message["sessionId"].as_str(), message["method"].as_str())
        else {
            return;
        };
        if method == "Target.detachedFromTarget" {
            return;
        }
        let (session, method) = (session.to_owned(), method.to_owned());
        let params = message["params"].take();
        self.events
            .entry(session)
            .or_default()
            .push(Event { method, params });
    }
}

fn lock(open: &Mutex<Open>) -> MutexGuard<'_, Open> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}
