//! All that a store says of its past, to be compared with what another one says.

use std::collections::BTreeMap;

use tower_pulse::store::{CounterQuery, Precision};
use tower_pulse_core::store::Store;
use tower_pulse_core::store::{RankingQuery, SlowRequestQuery, marks};
use tower_pulse_model::aggregate::Aggregate;
use tower_pulse_model::context::{ContextId, Kind, RecordId};
use tower_pulse_model::slow_request::SlowRequest;
use tower_pulse_model::tier::{DAY, TIERS};

/// What a store says.
#[derive(Debug, Default, PartialEq)]
pub struct Stored {
    pub contexts: Vec<ContextId>,
    /// By tier, slice and context.
    pub records: BTreeMap<(u32, i64, RecordId), Aggregate>,
    pub slow: Vec<Vec<SlowRequest>>,
    /// The slices of counters, by name and precision.
    pub counters: BTreeMap<(String, u32), Vec<(i64, i64)>>,
    pub ranking: Vec<(String, i64)>,
    pub marks: Vec<String>,
    pub since: i64,
}

/// Reads all of it, as far as its tiers retain it at `now`. `days` is the length of its history.
pub async fn read(store: &dyn Store, now: i64, days: Option<u32>) -> Stored {
    let index = store.record_index(now).await.unwrap();
    let mut contexts = index.contexts;
    contexts.push(ContextId::all());
    contexts.sort();
    let history = days.map(|days| Precision::new(DAY, days));
    let tiers: Vec<_> = TIERS.into_iter().chain(history).collect();
    let mut slices: Vec<_> = index.revisions.into_keys().collect();
    slices.retain(|(seconds, start)| {
        let tier = tiers.iter().find(|tier| tier.seconds == *seconds);
        tier.is_some_and(|tier| *start > tier.cut_off(now))
    });
    slices.sort_unstable();
    let mut stored = Stored {
        since: index.recorded.since(),
        ..Stored::default()
    };
    for part in slices.chunks(20) {
        let records = store.slice_records(part).await.unwrap();
        for ((seconds, start), slice) in part.iter().zip(records) {
            let records = slice.records.into_iter();
            stored
                .records
                .extend(records.map(|(id, record)| ((*seconds, *start, id), record.sums)));
        }
    }
    for hour in [now / 3_600 * 3_600 - 3_600, now / 3_600 * 3_600] {
        let query = SlowRequestQuery {
            contexts: contexts.clone(),
            hour,
        };
        let lists = store.slow_requests(&query).await.unwrap();
        let lists = lists.iter().map(|list| list.iter().cloned().collect());
        stored.slow.extend(lists);
    }
    for precision in &store.precisions().counters {
        let names = ["served", "hits", "errors", "micros"];
        let query = CounterQuery::new(names, precision.seconds);
        for counter in store.counters(&query).await.unwrap() {
            let slices = counter
                .slices
                .iter()
                .map(|slice| (slice.start, slice.count));
            let slices = slices.filter(|(start, _)| *start > precision.cut_off(now));
            let key = (counter.name.clone(), precision.seconds);
            stored.counters.insert(key, slices.collect());
        }
    }
    let query = RankingQuery {
        name: "posts".into(),
        now,
        offset: 0,
        limit: 100,
        ids: Vec::new(),
    };
    if let Some(page) = store.ranking(&query).await.unwrap() {
        let ids = page.top.iter();
        stored.ranking = ids
            .map(|ranked| (ranked.id.to_string(), ranked.score))
            .collect();
    }
    let marks = marks::list(store).await.unwrap();
    stored.marks = marks
        .iter()
        .map(|mark| format!("{} {}", mark.at, mark.text))
        .collect();
    stored.contexts = contexts;
    stored
}

impl Stored {
    /// The requests of each tier, those of `<all>` left out.
    pub fn requests_by_tier(&self) -> BTreeMap<u32, u64> {
        let all = RecordId::new(Kind::All, "<all>");
        let mut requests = BTreeMap::new();
        for ((seconds, _, id), sums) in &self.records {
            if *id != all {
                *requests.entry(*seconds).or_default() += sums.times.count;
            }
        }
        requests
    }

    /// The requests of a context in each tier.
    pub fn requests_of(&self, name: &str) -> BTreeMap<u32, u64> {
        let of = RecordId::new(Kind::Http, name);
        let mut requests = BTreeMap::new();
        for ((seconds, _, id), sums) in &self.records {
            if *id == of {
                *requests.entry(*seconds).or_default() += sums.times.count;
            }
        }
        requests
    }

    /// Asserts that another store says the same.
    pub fn assert_same(&self, other: &Self) {
        for (key, sums) in &self.records {
            assert_eq!(Some(sums), other.records.get(key), "{key:?}");
        }
        assert_eq!(self.records.len(), other.records.len());
        assert_eq!(self, other);
    }
}
