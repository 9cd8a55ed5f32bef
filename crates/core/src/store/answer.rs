//! The meaning of a store's answer for a task that may be denied access.

use crate::error::{Result, StoreErrorKind};
use crate::task::Answer;

impl<T> From<&Result<T>> for Answer {
    fn from(result: &Result<T>) -> Self {
        match result {
            Ok(_) => Self::LetThrough,
            Err(error) if error.kind() == StoreErrorKind::Forbidden => Self::Denied,
            Err(_) => Self::Failed,
        }
    }
}
