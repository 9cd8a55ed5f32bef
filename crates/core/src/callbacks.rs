//! Functions of the user that are called when something begins or ends.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinHandle;

use crate::clock::Clock;
use crate::task::lock;

/// The longest time for which a task waits for the user's functions.
const PATIENCE: Duration = Duration::from_secs(10);

/// A function of the user.
pub type Callback<T> = Arc<dyn Fn(&T) + Send + Sync>;

/// The functions that are called with each event of one kind.
pub struct Callbacks<T> {
    /// The name of the method that adds a function.
    name: &'static str,
    functions: Mutex<Vec<Callback<T>>>,
}

impl<T: Send + 'static> Callbacks<T> {
    /// A list without functions; `name` is the method that adds them.
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            functions: Mutex::default(),
        }
    }

    /// Adds a function.
    pub fn add(&self, function: Callback<T>) {
        lock(&self.functions).push(function);
    }

    /// Calls the functions with each event, and waits for them up to a time limit.
    pub async fn call(&self, clock: &Clock, events: Vec<T>) {
        let functions = lock(&self.functions).clone();
        if functions.is_empty() || events.is_empty() {
            return;
        }
        let mut calls: Vec<_> = (events.into_iter())
            .map(|event| self.call_one(functions.clone(), event))
            .collect();
        let all = async {
            for call in &mut calls {
                // Joining fails only if the runtime ends.
                let _ = call.await;
            }
        };
        tokio::select! {
            () = all => {}
            () = clock.sleep(PATIENCE) => tracing::warn!(
                "functions passed to `{}` take longer than {PATIENCE:?}, and are not waited for", self.name
            ),
        }
    }

    /// Calls the functions, which may block or panic.
    fn call_one(&self, functions: Vec<Callback<T>>, event: T) -> JoinHandle<()> {
        let name = self.name;
        tokio::task::spawn_blocking(move || {
            for function in functions {
                let call = AssertUnwindSafe(|| function(&event));
                if std::panic::catch_unwind(call).is_err() {
                    tracing::error!("a function passed to `{name}` has panicked");
                }
            }
        })
    }
}
