//! Marks: JSON in a sorted set.

use redis::{Value, cmd, pipe};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::RedisStore;
use super::connection::Role;
use super::script::{Invocation, MARK};
use super::value::{bytes, int, items};
use crate::error::{StoreError, StoreErrorKind};
use crate::model::changes::mark::{MAX_MARKS, Mark};
use crate::store::changes::Changes;
use crate::task::BoxFuture;

fn json(value: &impl Serialize) -> Result<Vec<u8>, StoreError> {
    serde_json::to_vec(value)
        .map_err(|error| StoreError::new(StoreErrorKind::Refused, error.to_string()))
}

/// The value in this form; `None` for any other.
fn read<T: DeserializeOwned>(value: &Value) -> Option<T> {
    serde_json::from_slice(bytes(value)?).ok()
}

impl RedisStore {
    /// Reads one value of a key; `Nil` if there is none.
    async fn read_one(&self, key: &str, command: redis::Cmd) -> Result<Value, StoreError> {
        let mut pipeline = pipe();
        pipeline.add_command(command);
        match self.read(&mut pipeline).await?.pop() {
            Some(Ok(value)) => Ok(value),
            Some(Err(reason)) => {
                let message = format!("{key} cannot be read ({reason}): delete it");
                let server_info = self.connections.server_info();
                Err(server_info.error(StoreErrorKind::Unexpected, &message))
            }
            None => Ok(Value::Nil),
        }
    }

    async fn read_marks(&self) -> Result<Vec<Mark>, StoreError> {
        let key = self.keys.marks();
        let mut command = cmd("ZRANGE");
        command.arg(&key).arg(0).arg(-1);
        let marks = self.read_one(&key, command).await?;
        Ok(items(&marks).iter().filter_map(read).collect())
    }

    async fn write_mark(&self, mark: &Mark) -> Result<bool, StoreError> {
        let mut script = Invocation::default();
        script.key(self.keys.marks());
        script.key(self.keys.version());
        script.arg(mark.at.to_string());
        script.arg(json(mark)?);
        script.arg(mark.version.as_deref().unwrap_or_default());
        script.arg(MAX_MARKS.to_string());
        let reply = self.connections.run(Role::Write, &MARK, &script);
        Ok(int(&reply.await?) == Some(1))
    }
}

impl Changes for RedisStore {
    fn marks(&self) -> BoxFuture<'_, Result<Vec<Mark>, StoreError>> {
        Box::pin(self.read_marks())
    }

    fn add_mark<'a>(&'a self, mark: &'a Mark) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(self.write_mark(mark))
    }
}
