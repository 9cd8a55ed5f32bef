//! The handle that answers questions.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use super::answers;
use super::error::QueryError;
use super::json::{self, ScreenSize};
use super::question::Question;
use super::source::Source;
use crate::condition::Condition;
use crate::health::Health;
use crate::task::{BoxFuture, boxed};

/// An answer, and the moment up to which the answer is complete. Dereferences to the answer.
#[derive(Debug, serde::Serialize)]
#[non_exhaustive]
pub struct Answer<T> {
    /// The answer.
    #[serde(flatten)]
    pub value: T,
    /// The moment up to which the answer includes all recorded samples, in Unix seconds.
    pub as_of: i64,
}

impl<T> std::ops::Deref for Answer<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

pub(super) type Answering<'a, T> = BoxFuture<'a, Result<Answer<T>, QueryError>>;

/// Answers the dashboard's questions in Rust. `Pulse::query` and `Dashboard::query` return a reader. All clones, and
/// all routers of the same `Pulse`, share cached reads.
///
/// # Errors
/// All questions fail with [`QueryError::Store`] or [`QueryError::Unanswered`] while the store cannot be read. A
/// question fails with [`QueryError::Parameter`] if a field has a value that is not allowed, such as a limit of more
/// than 1,000 rows. A question about a window fails with [`QueryError::NoRoom`] if the sums of the window do not fit
/// into `query_bytes`.
///
/// # Cancel safety
/// Dropping a future changes nothing.
#[derive(Clone)]
pub struct Reader(Arc<Source>);

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("store", &self.0.store.describe())
            .finish_non_exhaustive()
    }
}

/// Creates a reader of a source.
pub fn reader(source: Source) -> Reader {
    Reader(Arc::new(source))
}

/// The source of a reader.
pub fn source(reader: &Reader) -> &Source {
    &reader.0
}

impl Reader {
    /// Answers a question.
    ///
    /// # Errors
    /// [`QueryError::NotFound`] if no context, mark, instance, counter, ranking or row cache has the name;
    /// [`QueryError::Parameter`] if the series have more than 16,384 values.
    pub fn ask<'a, Q: Question>(&'a self, question: &'a Q) -> Answering<'a, Q::Answer> {
        self.with_as_of(boxed(question.answer(&self.0)))
    }

    /// Answers a question in the form of the API: `heat_map?window=1h` returns the JSON of `api/heat_map?window=1h`.
    /// The guide's page about the [API](https://docs.rs/tower-pulse/latest/tower_pulse/guide/api/index.html) lists all
    /// questions and their answers.
    ///
    /// # Errors
    /// The errors of [`ask`](Self::ask); [`QueryError::NotFound`] if the API has no question of this name;
    /// [`QueryError::Parameter`] for a parameter that the question does not have.
    pub fn json<'a>(&'a self, question: &'a str) -> BoxFuture<'a, Result<String, QueryError>> {
        Box::pin(async move {
            let answer = json::ask(self, question, &ScreenSize::default()).await?;
            // JSON is UTF-8.
            Ok(String::from_utf8(answer.whole()).expect("JSON"))
        })
    }

    /// The health of this process. Its warnings also name unreadable keys of the store. The answer comes even if the
    /// store fails.
    pub fn health(&self) -> BoxFuture<'_, Health> {
        Box::pin(async { answers::health(&self.0).await.health })
    }

    /// Adds to an answer the moment up to which it includes all samples.
    pub(super) fn with_as_of<'a, T: Send + 'a>(
        &'a self,
        mut answering: BoxFuture<'a, Result<T, QueryError>>,
    ) -> Answering<'a, T> {
        Box::pin(async move {
            let source = &self.0;
            // `as_of` is read before the answer, so the answer has all samples up to `as_of`.
            let answered = match source.as_of().await {
                Ok(as_of) => answering.await.map(|value| Answer { value, as_of }),
                // The first poll refuses a wrong question, even if the store fails.
                Err(error) => match poll_fn(|cx| Poll::Ready(answering.as_mut().poll(cx))).await {
                    Poll::Ready(Err(wrong @ QueryError::Parameter { .. })) => Err(wrong),
                    _ => Err(error),
                },
            };
            answered.inspect_err(|error| {
                // If the store does not answer, the status and other warnings in health show this.
                if let QueryError::Store(cause) = error
                    && !cause.kind().is_without_answer()
                {
                    let warning = Condition::Read.warning(error.to_string());
                    source.notices.add_failure(&source.clock, warning);
                }
            })
        })
    }
}
