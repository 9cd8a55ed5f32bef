//! Sentinels, which name the primary of a service.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redis::{RedisResult, Value, cmd};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::address::{Address, AddressMap};
use super::primary::Primary;
use super::race::first_answer;
use crate::connection::{Connection, Dialer, Role};
use crate::permissions::is_refusal;
use crate::value::{int, items, text};
use tower_pulse_core::condition::{Condition, Warning};
use tower_pulse_core::error::{Result, StoreError, StoreErrorKind};
use tower_pulse_core::task::lock;

/// The interval at which the Sentinels are asked while there are calls. Including the time for an answer, that is at
/// most every 5 s.
const ASKED_EVERY: Duration = Duration::from_secs(4);

/// The Sentinels of a service, and their answers.
pub(crate) struct Sentinels {
    asked: Arc<Asked>,
    /// The task that asks while there are calls. It ends without calls, or when this is dropped.
    watch: Mutex<Option<Watch>>,
}

struct Asked {
    service: String,
    sentinels: Vec<Address>,
    /// Dials the Sentinels, with their own credentials.
    dialer: Arc<Dialer>,
    map: Option<AddressMap>,
    primary: Primary,
    /// The index of the Sentinel to ask first: the one that answered last.
    answered: AtomicUsize,
    /// The reason why none answered last time.
    trouble: Mutex<Option<String>>,
    has_calls: AtomicBool,
    /// Wakes the task before its interval is over.
    sooner: Notify,
}

struct Watch(JoinHandle<()>);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Sentinels {
    pub(super) fn new(
        service: String,
        sentinels: Vec<Address>,
        dialer: Dialer,
        map: Option<AddressMap>,
    ) -> Self {
        let asked = Asked {
            service,
            sentinels,
            dialer: Arc::new(dialer),
            map,
            primary: Primary::default(),
            answered: AtomicUsize::new(0),
            trouble: Mutex::default(),
            has_calls: AtomicBool::new(false),
            sooner: Notify::new(),
        };
        Self {
            asked: Arc::new(asked),
            watch: Mutex::default(),
        }
    }

    pub(super) fn primary(&self) -> &Primary {
        &self.asked.primary
    }

    /// The warning for the operator, if no Sentinel answers.
    pub(super) fn warning(&self) -> Option<Warning> {
        let trouble = lock(&self.asked.trouble).clone()?;
        Some(Condition::Sentinel.warning(format!(
            "no Sentinel tells which server is the primary of `{}`, so that a failover would not be noticed: {trouble}",
            self.asked.service
        )))
    }

    /// Notes a call to the primary. A task asks the Sentinels as long as there are calls.
    pub(super) fn watch(&self) {
        self.asked.has_calls.store(true, Ordering::Relaxed);
        let mut watch = lock(&self.watch);
        if watch.as_ref().is_none_or(|watch| watch.0.is_finished()) {
            *watch = Some(Watch(tokio::spawn(ask_again(self.asked.clone()))));
        }
    }

    /// Asks without waiting for the interval to end.
    pub(super) fn ask_soon(&self) {
        self.asked.sooner.notify_one();
    }

    /// Connects to the primary that the Sentinels name, after checking that it considers itself one.
    pub(super) async fn connect(&self, dialer: &Dialer, role: Role) -> Result<Connection> {
        let (primary, changes) = self.asked.ask().await?;
        let connected = dialer.dial_node(&primary, role).await;
        let mut connection = connected.map_err(|error| {
            self.asked.distrust();
            self.unreachable(&primary, error)
        })?;
        let reply: RedisResult<Value> = cmd("ROLE").query_async(&mut connection.commands).await;
        let server_info = dialer.server_info().of_node(&primary);
        match reply {
            Ok(reply) if items(&reply).first().and_then(text) == Some("master") => {}
            Ok(_) => {
                self.asked.distrust();
                let message = format!(
                    "Sentinel names it as the primary of `{}`, but it is a replica: the failover is not over",
                    self.asked.service
                );
                return Err(server_info.error(StoreErrorKind::Refused, &message));
            }
            // If it is a replica, it refuses the first write.
            Err(error) if is_refusal(&error) => {}
            Err(error) => return Err(server_info.explain(&error)),
        }
        connection.changes = changes;
        Ok(connection)
    }

    fn unreachable(&self, primary: &Address, error: StoreError) -> StoreError {
        if error.kind() != StoreErrorKind::Unreachable {
            return error;
        }
        let message = format!(
            "{error}; Sentinel names {primary} as the primary of `{}`: if it cannot be reached from here, say where that \
             server is by `redis_address_map`",
            self.asked.service
        );
        StoreError::new(error.kind(), message)
    }
}

/// Asks as long as there are calls.
async fn ask_again(asked: Arc<Asked>) {
    while asked.has_calls.swap(false, Ordering::Relaxed) {
        let sooner = asked.sooner.notified();
        let _ = tokio::time::timeout(ASKED_EVERY, sooner).await;
        // An error is reported as a warning, as the primary may well be the same.
        let _ = asked.ask().await;
    }
}

impl Asked {
    /// Makes another Sentinel be asked first: the answer of this one may be outdated, as it may be cut off.
    fn distrust(&self) {
        self.answered.fetch_add(1, Ordering::Relaxed);
    }

    /// The primary, and the number of its changes.
    async fn ask(&self) -> Result<(Address, u64)> {
        let first = self.answered.load(Ordering::Relaxed) % self.sentinels.len().max(1);
        let mut sentinels = self.sentinels.clone();
        sentinels.rotate_left(first);
        let answer = first_answer(sentinels, |sentinel| {
            let (dialer, service) = (self.dialer.clone(), self.service.clone());
            Box::pin(async move {
                let primary = ask(&dialer, &service, &sentinel).await?;
                Ok((sentinel, primary))
            })
        });
        let answer = answer.await.and_then(|(sentinel, announced)| {
            let reached = super::cluster::reach(&self.map, announced)?;
            Ok((sentinel, reached))
        });
        *lock(&self.trouble) = answer.as_ref().err().map(StoreError::to_string);
        let (sentinel, primary) = answer?;
        let place = self.sentinels.iter().position(|it| *it == sentinel);
        self.answered.store(place.unwrap_or(0), Ordering::Relaxed);
        let changes = self.primary.set(primary.clone());
        Ok((primary, changes))
    }
}

/// Asks a Sentinel for the announced primary of a service.
async fn ask(dialer: &Dialer, service: &str, sentinel: &Address) -> Result<Address> {
    let mut connection = dialer.dial_node(sentinel, Role::Read).await?;
    let server_info = dialer.server_info().of_node(sentinel);
    let mut question = cmd("SENTINEL");
    question.arg("GET-MASTER-ADDR-BY-NAME").arg(service);
    let reply: RedisResult<Value> = question.query_async(&mut connection.commands).await;
    let reply = reply.map_err(|error| server_info.explain(&error))?;
    if reply == Value::Nil {
        let message = format!("it knows no primary of the name `{service}`: check the name");
        return Err(server_info.error(StoreErrorKind::Refused, &message));
    }
    primary_of(&reply).ok_or_else(|| {
        let message = "its answer names no address that can be reached";
        server_info.error(StoreErrorKind::Unexpected, message)
    })
}

/// Parses a Sentinel's answer: host and port.
fn primary_of(reply: &Value) -> Option<Address> {
    let [host, port] = items(reply) else {
        return None;
    };
    Address::announced(text(host)?, u16::try_from(int(port)?).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_host_and_a_port() {
        let word = |word: &str| Value::BulkString(word.as_bytes().to_vec());
        let of = |words: &[&str]| {
            let words = words.iter().copied().map(word).collect();
            primary_of(&Value::Array(words)).map(|address| address.to_string())
        };
        assert_eq!(of(&["10.0.0.1", "6379"]).as_deref(), Some("10.0.0.1:6379"));
        assert_eq!(of(&["fe80::1", "6379"]).as_deref(), Some("[fe80::1]:6379"));
        for nonsense in [
            &[][..],
            &["10.0.0.1"],
            &["10.0.0.1", "6379", "more"],
            &["", "6379"],
            &["10.0.0.1", "0"],
            &["10.0.0.1", "-1"],
            &["10.0.0.1", "65536"],
            &["10.0.0.1", "port"],
            &["a b", "6379"],
        ] {
            assert_eq!(of(nonsense), None, "{nonsense:?}");
        }
        assert_eq!(primary_of(&Value::Nil), None);
        assert_eq!(primary_of(&Value::Int(1)), None);
    }
}
