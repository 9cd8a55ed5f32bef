//! The record of the last pass of cleaning, which all instances read.

use redis::{Value, cmd, pipe};

use super::problem_log::{self, ProblemRecord};
use crate::RedisStore;
use crate::connection::Role;
use crate::value::{bytes, int, items, shown, text};
use tower_pulse_core::error::StoreError;
use tower_pulse_core::store::{CleanReport, Pass, PassRecord};

/// The fields of the record.
const FIELDS: [&str; 11] = [
    "number",
    "at",
    "instance",
    "millis",
    "examined",
    "slices",
    "counters",
    "contexts",
    "ranks",
    "instances",
    "problems",
];

impl RedisStore {
    pub(super) async fn write_pass_record(
        &self,
        pass: &Pass,
        cleaned: &CleanReport,
        problems: &[ProblemRecord],
        millis: u64,
    ) -> Result<(), StoreError> {
        let values = [
            pass.number().to_string(),
            pass.now.to_string(),
            pass.instance.clone(),
            millis.to_string(),
            cleaned.examined.to_string(),
            cleaned.slices.to_string(),
            cleaned.counters.to_string(),
            cleaned.contexts.to_string(),
            cleaned.ranks.to_string(),
            cleaned.instances.to_string(),
            problem_log::encode(problems),
        ];
        let mut set = cmd("HSET");
        set.arg(self.keys.last_pass());
        for (field, value) in FIELDS.iter().zip(values) {
            set.arg(field).arg(value);
        }
        self.connections.call(Role::Write, &set).await.map(drop)
    }

    pub(crate) async fn read_last_pass(&self) -> Result<Option<PassRecord>, StoreError> {
        Ok(self.read_pass_record(Role::Read).await?.0)
    }

    pub(super) async fn read_pass_record(
        &self,
        role: Role,
    ) -> Result<(Option<PassRecord>, Vec<ProblemRecord>), StoreError> {
        let key = self.keys.last_pass();
        let mut pipeline = pipe();
        pipeline.cmd("HMGET").arg(&key).arg(&FIELDS[..]);
        let replies = match role {
            Role::Read => self.read(&mut pipeline).await?,
            _ => {
                // Of the whole hash, which is replaced if it is too large.
                pipeline.cmd("HKEYS").arg(&key);
                self.read_sized(role, &pipeline).await?
            }
        };
        let replies: Result<Vec<Value>, String> = replies.into_iter().collect();
        let hash = replies.map(|replies| replies.into_iter().next().unwrap_or(Value::Nil));
        if let (Err(reason), Role::Write) = (&hash, role) {
            // The next pass writes the record again.
            self.delete_own(role, &key, reason).await?;
        }
        let hash = hash.unwrap_or(Value::Nil);
        let values = <&[Value; FIELDS.len()]>::try_from(items(&hash));
        let Ok([number, at, instance, millis, counts @ .., problems]) = values else {
            return Ok((None, Vec::new()));
        };
        let count = |value: &Value| int(value).and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
        let records = text(problems).map(problem_log::decode).unwrap_or_default();
        let [examined, slices, counters, contexts, ranks, instances] = counts.each_ref().map(count);
        let pass = int(number).map(|number| PassRecord {
            number,
            at: int(at).unwrap_or(0),
            instance: bytes(instance).map_or_else(String::new, shown),
            millis: count(millis),
            cleaned: CleanReport {
                examined,
                slices,
                counters,
                contexts,
                ranks,
                instances,
                problems: records
                    .iter()
                    .map(|record| record.problem.clone())
                    .collect(),
            },
        });
        Ok((pass, records))
    }
}
