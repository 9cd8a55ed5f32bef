//! Changes: JSON in a hash.

use redis::{Value, cmd, pipe};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::RedisStore;
use super::connection::Role;
use super::script::{Invocation, JUDGE};
use super::value::{bytes, int, items, pairs, text};
use crate::error::{StoreError, StoreErrorKind};
use crate::store::changes::{ChangeLog, Changes, Judged, JudgementWrite};
use crate::task::BoxFuture;

/// Time to live of the changes after the last judgement, in seconds: as long as the coarsest records.
const TTL: i64 = 16 * 86_400;

/// What precedes the id of a change in its field.
const CHANGE: &[u8] = b"c:";

fn json(value: &impl Serialize) -> Result<Vec<u8>, StoreError> {
    serde_json::to_vec(value)
        .map_err(|error| StoreError::new(StoreErrorKind::Refused, error.to_string()))
}

/// The value in this form; `None` for any other.
fn read<T: DeserializeOwned>(value: &Value) -> Option<T> {
    serde_json::from_slice(bytes(value)?).ok()
}

/// The last judgement. Its revision is that of the field that a script compares, also where the judgement cannot be
/// read, and is empty where that is none of this crate.
fn judged(judged: &Value, revision: &Value) -> Judged {
    let revision = text(revision).filter(|text| text.bytes().all(|b| b.is_ascii_alphanumeric()));
    Judged {
        revision: revision.unwrap_or_default().to_owned(),
        ..read(judged).unwrap_or_default()
    }
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

    async fn read_judged(&self) -> Result<Judged, StoreError> {
        let key = self.keys.changes();
        let mut command = cmd("HMGET");
        command.arg(&key).arg("judged").arg("revision");
        let fields = self.read_one(&key, command).await?;
        Ok(match items(&fields) {
            [judged, revision] => self::judged(judged, revision),
            _ => Judged::default(),
        })
    }

    /// Reads the changes. Those that another version has written in another form are left out.
    async fn read_change_log(&self) -> Result<ChangeLog, StoreError> {
        let key = self.keys.changes();
        let mut command = cmd("HGETALL");
        command.arg(&key);
        let all = self.read_one(&key, command).await?;
        let mut log = ChangeLog::default();
        let (mut last, mut revision) = (&Value::Nil, &Value::Nil);
        for (field, value) in pairs(&all) {
            match bytes(field) {
                Some(b"judged") => last = value,
                Some(b"revision") => revision = value,
                Some(b"detector") => log.detector = read(value).unwrap_or_default(),
                Some(field) if field.starts_with(CHANGE) => log.changes.extend(read(value)),
                _ => {}
            }
        }
        log.judged = judged(last, revision);
        Ok(log)
    }

    async fn write(&self, write: &JudgementWrite) -> Result<bool, StoreError> {
        let mut script = Invocation::default();
        script.key(self.keys.changes());
        script.arg(&*write.expected);
        script.arg(&*write.judged.revision);
        script.arg(json(&write.judged)?);
        script.arg(json(&write.detector)?);
        script.arg(TTL.to_string());
        script.arg(write.changes.len().to_string());
        for change in &write.changes {
            script.arg([CHANGE, change.id.as_bytes()].concat());
            script.arg(json(change)?);
        }
        for id in &write.removed {
            script.arg([CHANGE, id.as_bytes()].concat());
        }
        let reply = self.connections.run(Role::Write, &JUDGE, &script);
        Ok(int(&reply.await?) == Some(1))
    }
}

impl Changes for RedisStore {
    fn judged(&self) -> BoxFuture<'_, Result<Judged, StoreError>> {
        Box::pin(self.read_judged())
    }

    fn change_log(&self) -> BoxFuture<'_, Result<ChangeLog, StoreError>> {
        Box::pin(self.read_change_log())
    }

    fn write_judgement<'a>(
        &'a self,
        write: &'a JudgementWrite,
    ) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(self.write(write))
    }
}
