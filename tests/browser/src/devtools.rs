//! A connection to Chromium by its DevTools protocol: calls, and the events of tabs.
//!
//! Messages are JSON objects over one WebSocket. An answer has the number of its call. The messages of a tab have the
//! id of its session. Events are kept until the tab's [`Session`] takes them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;
type Answer = Result<Value, String>;

/// An event of a tab: its method, such as `Network.requestWillBeSent`, and its parameters.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) method: String,
    pub(crate) params: Value,
}

#[derive(Clone)]
pub(crate) struct DevTools {
    calls: mpsc::UnboundedSender<String>,
    pending: Arc<Mutex<Pending>>,
}

/// Calls without an answer, and events that no session has taken.
#[derive(Default)]
struct Pending {
    last_call: u64,
    answers: HashMap<u64, oneshot::Sender<Answer>>,
    events: HashMap<String, Vec<Event>>,
    is_closed: bool,
}

impl DevTools {
    /// Connects to a browser's URL, `ws://127.0.0.1:…/devtools/browser/…`. Tasks of the current runtime send and
    /// receive the messages.
    pub(crate) async fn connect(url: &str) -> Result<Self, tungstenite::Error> {
        // A picture or a large value of the page is one message, so messages may have any size.
        let config = tungstenite::protocol::WebSocketConfig::default()
            .max_message_size(None)
            .max_frame_size(None);
        let connecting = tokio_tungstenite::connect_async_with_config(url, Some(config), true);
        let (socket, _) = connecting.await?;
        let (sink, stream) = socket.split();
        let (calls, queue) = mpsc::unbounded_channel();
        let pending = Arc::default();
        tokio::spawn(send(sink, queue));
        tokio::spawn(receive(stream, Arc::clone(&pending)));
        Ok(Self { calls, pending })
    }

    pub(crate) async fn call(&self, method: &str, params: Value) -> Value {
        let answer = self.call_in(None, method, params).await;
        answer.unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) async fn attach(&self, target: &str) -> Session {
        let params = json!({"targetId": target, "flatten": true});
        let answer = self.call("Target.attachToTarget", params).await;
        Session {
            devtools: self.clone(),
            id: answer["sessionId"].as_str().expect("a session").to_owned(),
        }
    }

    async fn call_in(&self, session: Option<&str>, method: &str, params: Value) -> Answer {
        let (sender, answer) = oneshot::channel();
        let id = {
            let mut pending = lock(&self.pending);
            assert!(!pending.is_closed, "{method}: Chromium has ended");
            pending.last_call += 1;
            let id = pending.last_call;
            pending.answers.insert(id, sender);
            id
        };
        let mut call = json!({"id": id, "method": method, "params": params});
        if let Some(session) = session {
            call["sessionId"] = session.into();
        }
        // If the connection has ended, `answer` is an error, because all senders of answers are dropped.
        let _ = self.calls.send(call.to_string());
        match tokio::time::timeout(ANSWER_TIMEOUT, answer).await {
            Ok(Ok(answer)) => answer.map_err(|error| format!("{method}: {error}")),
            error => Err(format!("{method}: {error:?}")),
        }
    }
}

/// A tab to which the connection is attached.
#[derive(Clone)]
pub(crate) struct Session {
    devtools: DevTools,
    id: String,
}

impl Session {
    pub(crate) async fn try_call(&self, method: &str, params: Value) -> Answer {
        self.devtools.call_in(Some(&self.id), method, params).await
    }

    pub(crate) async fn call(&self, method: &str, params: Value) -> Value {
        let answer = self.try_call(method, params).await;
        answer.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Waits for all events that the page has caused so far. The browser sends these events before it answers a call.
    pub(crate) async fn catch_up(&self) {
        for _ in 0..2 {
            let params = json!({"expression": "undefined"});
            let _ = self.try_call("Runtime.evaluate", params).await;
        }
    }

    /// The events since the previous call of this function.
    pub(crate) fn take_events(&self) -> Vec<Event> {
        let mut pending = lock(&self.devtools.pending);
        pending.events.remove(&self.id).unwrap_or_default()
    }
}

async fn send(mut sink: SplitSink<Socket, Message>, mut queue: mpsc::UnboundedReceiver<String>) {
    while let Some(call) = queue.recv().await {
        if sink.send(Message::text(call)).await.is_err() {
            return;
        }
    }
}

async fn receive(mut stream: SplitStream<Socket>, pending: Arc<Mutex<Pending>>) {
    while let Some(Ok(message)) = stream.next().await {
        if let Message::Text(text) = message {
            let message = serde_json::from_str(&text).expect("Chromium sends JSON");
            lock(&pending).take(message);
        }
    }
    let mut pending = lock(&pending);
    pending.is_closed = true;
    pending.answers.clear();
}

impl Pending {
    fn take(&mut self, mut message: Value) {
        if let Some(id) = message["id"].as_u64() {
            let answer = match message.get_mut("error") {
                Some(error) => Err(error.to_string()),
                None => Ok(message["result"].take()),
            };
            if let Some(sender) = self.answers.remove(&id) {
                // If the test has ended, the receiver is gone.
                let _ = sender.send(answer);
            }
            return;
        }
        let (Some(session), Some(method)) =
            (message["sessionId"].as_str(), message["method"].as_str())
        else {
            return;
        };
        let (session, method) = (session.to_owned(), method.to_owned());
        let params = message["params"].take();
        let events = self.events.entry(session).or_default();
        events.push(Event { method, params });
    }
}

fn lock(pending: &Mutex<Pending>) -> MutexGuard<'_, Pending> {
    pending.lock().unwrap_or_else(PoisonError::into_inner)
}
