//! Functions of the user that are called when a change or a condition begins or ends.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinHandle;

use crate::clock::Clock;
use crate::task::lock;

/// The longest time for which a task waits for the user's functions.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// A function of the user.
pub type Callback<T> = Arc<dyn Fn(&T) + Send + Sync>;

/// The user's functions for one kind of event.
pub struct Callbacks<T> {
    method: &'static str,
    functions: Mutex<Vec<Callback<T>>>,
}

impl<T: Send + 'static> Callbacks<T> {
    /// A list without functions. `method` names the public method that adds functions.
    pub fn new(method: &'static str) -> Self {
        Self {
            method,
            functions: Mutex::default(),
        }
    }

    /// Adds a function.
    pub fn add(&self, function: Callback<T>) {
        lock(&self.functions).push(function);
    }

    /// Calls the functions with each event, and waits until they return, for at most `MAX_WAIT`.
    pub async fn call(&self, clock: &Clock, events: Vec<T>) {
        let functions = lock(&self.functions).clone();
        if functions.is_empty() || events.is_empty() {
            return;
        }
        let mut calls: Vec<_> = (events.into_iter())
            .map(|event| self.spawn_calls(functions.clone(), event))
            .collect();
        let all = async {
            for call in &mut calls {
                // Joining fails only if the runtime ends.
                let _ = call.await;
            }
        };
        tokio::select! {
            () = all => {}
            () = clock.sleep(MAX_WAIT) => tracing::warn!(
                "functions passed to `{}` take longer than {MAX_WAIT:?}, and are no longer waited for: let them return \
                 sooner",
                self.method
            ),
        }
    }

    /// Calls the functions with one event, on a thread on which they may block. Logs a panic.
    fn spawn_calls(&self, functions: Vec<Callback<T>>, event: T) -> JoinHandle<()> {
        let method = self.method;
        tokio::task::spawn_blocking(move || {
            for function in functions {
                let call = AssertUnwindSafe(|| function(&event));
                if std::panic::catch_unwind(call).is_err() {
                    tracing::error!("a function passed to `{method}` has panicked");
                }
            }
        })
    }
}
