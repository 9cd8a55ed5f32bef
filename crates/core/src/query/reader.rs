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

/// An answer, and how new it is. The fields of the answer can be read as its own.
#[derive(Debug, serde::Serialize)]
#[non_exhaustive]
pub struct Answer<T> {
    /// The answer.
    #[serde(flatten)]
    pub value: T,
    /// The answer includes all samples that were recorded before this moment, in Unix seconds.
    pub as_of: i64,
}

impl<T> std::ops::Deref for Answer<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// What a question is answered with.
pub(super) type Answering<'a, T> = BoxFuture<'a, Result<Answer<T>, QueryError>>;

/// Answers what the dashboard shows, in Rust. `Pulse::query` and `Dashboard::query` return it; all
/// clones, and all routers of the same `Pulse`, share what was read.
///
/// # Errors
/// Each question fails with [`QueryError::Store`] or [`QueryError::Unanswered`] while the store cannot be read, and
/// with [`QueryError::Parameter`] when a part of it is not allowed. One about a window fails with [`QueryError::NoRoom`] if
/// its sums do not fit into `query_bytes`. A limit of more than 1,000 rows is not allowed.
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

/// A reader of a source.
pub fn reader(source: Source) -> Reader {
    Reader(Arc::new(source))
}

/// What a reader's answers are made from.
pub fn source(reader: &Reader) -> &Source {
    &reader.0
}

impl Reader {
    /// Answers a question.
    ///
    /// # Errors
    /// [`QueryError::NotFound`] without a context, mark, instance, counter, ranking or row cache of the name;
    /// [`QueryError::Parameter`] with more than 16,384 values of series.
    pub fn ask<'a, Q: Question>(&'a self, question: &'a Q) -> Answering<'a, Q::Answer> {
        self.in_time(boxed(question.answer(&self.0)))
    }

    /// Answers a question as the API does below its `api/`: `heat_map?window=1h` in the JSON of `api/heat_map?window=1h`. The
    /// guide's page about the [API](https://docs.rs/tower-pulse/latest/tower_pulse/guide/api/index.html) has all questions
    /// and their answers.
    ///
    /// # Errors
    /// As of [`ask`](Self::ask). [`QueryError::NotFound`] also if there is no such question, and [`QueryError::Parameter`] for a
    /// parameter that it does not have.
    pub fn json<'a>(&'a self, question: &'a str) -> BoxFuture<'a, Result<String, QueryError>> {
        Box::pin(async move {
            let answer = json::ask(self, question, &ScreenSize::default()).await?;
            // JSON is UTF-8.
            Ok(String::from_utf8(answer.whole()).expect("JSON"))
        })
    }

    /// The state of this process, with the keys of the store that cannot be read among its warnings. It is answered whatever
    /// the state of the store.
    pub fn health(&self) -> BoxFuture<'_, Health> {
        Box::pin(async { answers::health(&self.0).await.health })
    }

    /// Answers, with the moment up to which the answer includes all samples.
    pub(super) fn in_time<'a, T: Send + 'a>(
        &'a self,
        mut answering: BoxFuture<'a, Result<T, QueryError>>,
    ) -> Answering<'a, T> {
        Box::pin(async move {
            let source = &self.0;
            // Read before the data, so that the data is at least as new.
            let answered = match source.reader.as_of().await {
                Ok(as_of) => answering.await.map(|value| Answer { value, as_of }),
                // The question may be wrong, whatever the store does.
                Err(error) => match poll_fn(|cx| Poll::Ready(answering.as_mut().poll(cx))).await {
                    Poll::Ready(Err(wrong @ QueryError::Parameter { .. })) => Err(wrong),
                    _ => Err(error),
                },
            };
            answered.inspect_err(|error| {
                // Health tells by other means that the store does not answer at all.
                if let QueryError::Store(cause) = error
                    && !cause.kind().is_without_answer()
                {
                    let warning = Condition::Read.warning(error.to_string());
                    source.notices.fails(&source.clock, warning);
                }
            })
        })
    }
}
