//! What an answer of the store means to a task that may be denied access.

use crate::error::{StoreError, StoreErrorKind};
use crate::task::Answer;

impl<T> From<&Result<T, StoreError>> for Answer {
    fn from(result: &Result<T, StoreError>) -> Self {
        match result {
            Ok(_) => Self::LetThrough,
            Err(error) if error.kind() == StoreErrorKind::Forbidden => Self::Denied,
            Err(_) => Self::Failed,
        }
    }
}
