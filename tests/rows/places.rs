//! How many rows are loaded at once, by the daemon and for callers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::Semaphore;
use tower_pulse::row_cache::{RowCache, RowCacheBuilder, RowLoader};

use crate::fixture::Service;
use pulse_rig::wait::{let_tasks_run, until};

const HOUR: Duration = Duration::from_secs(3_600);
const SECOND: Duration = Duration::from_secs(1);

/// A loader that counts the loads under way. `panic` and `fail` in an id are obeyed, and a row with `gate` in its id
/// waits for a permit. A row `{first}+{second}+…` asks the cache for the other rows.
#[derive(Clone)]
struct Loads(Arc<State>);

struct State {
    counts: Mutex<Counts>,
    gate: Semaphore,
    cache: OnceLock<RowCache>,
}

#[derive(Default)]
struct Counts {
    running: usize,
    most: usize,
    order: Vec<String>,
    loaded: HashMap<String, usize>,
}

/// A load under way, which asks for no other row at the moment.
struct Running<'a>(&'a State);

impl<'a> Running<'a> {
    fn new(state: &'a State) -> Self {
        let mut counts = state.counts.lock().unwrap();
        counts.running += 1;
        counts.most = counts.most.max(counts.running);
        Self(state)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.counts.lock().unwrap().running -= 1;
    }
}

impl RowLoader for Loads {
    type Row = String;
    type Error = String;

    async fn load(&self, id: String) -> Result<Option<String>, String> {
        let state = &*self.0;
        let running = Running::new(state);
        state.counts.lock().unwrap().order.push(id.clone());
        if id.contains("gate") {
            state.gate.acquire().await.unwrap().forget();
        }
        for _ in 0..5 {
            tokio::task::yield_now().await;
        }
        if id.contains("hang") {
            std::future::pending::<()>().await;
        }
        if id.contains("panic") {
            panic!("the loader panics, as the test wants");
        }
        if id.contains("fail") {
            return Err("the loader fails, as the test wants".to_owned());
        }
        drop(running);
        if let Some((_, others)) = id.split_once('+') {
            let cache = state.cache.get().unwrap();
            // `a+b+c` asks for `b+c`; `a+b*3` for three rows at once.
            let others: Vec<String> = match others.split_once('*') {
                Some((other, times)) => (0..times.parse().unwrap())
                    .map(|number: usize| format!("{other} {number} of {id}").replace('+', ""))
                    .collect(),
                None => vec![others.to_owned()],
            };
            let rows = others
                .iter()
                .map(|other| cache.get_or_load::<String>(other));
            for row in join_all(rows).await {
                row.map_err(|error| error.to_string())?;
            }
        }
        *state
            .counts
            .lock()
            .unwrap()
            .loaded
            .entry(id.clone())
            .or_default() += 1;
        Ok(Some(id))
    }
}

impl Loads {
    fn new() -> Self {
        Self(Arc::new(State {
            counts: Mutex::default(),
            gate: Semaphore::new(0),
            cache: OnceLock::new(),
        }))
    }

    fn build(&self, builder: RowCacheBuilder<Self>) -> RowCache {
        let cache = builder.unscheduled_age(HOUR).build().unwrap();
        let _ = self.0.cache.set(cache.clone());
        cache
    }

    fn cache(&self, service: &Service, concurrency: usize) -> RowCache {
        let builder = RowCache::builder(&service.pulse()).loader(self.clone());
        self.build(builder.concurrency(concurrency).deadline(60 * SECOND))
    }

    fn most(&self) -> usize {
        self.0.counts.lock().unwrap().most
    }

    fn running(&self) -> usize {
        self.0.counts.lock().unwrap().running
    }

    /// How often a row was loaded.
    fn loaded(&self, id: &str) -> usize {
        let counts = self.0.counts.lock().unwrap();
        counts.loaded.get(id).copied().unwrap_or(0)
    }

    /// The loads whose ids begin so that have begun before one of another id.
    fn before(&self, id: &str, start: &str) -> Option<usize> {
        let counts = self.0.counts.lock().unwrap();
        let at = counts.order.iter().position(|other| other == id)?;
        let before = counts.order[..at].iter();
        Some(before.filter(|other| other.starts_with(start)).count())
    }

    fn open(&self) {
        self.0.gate.add_permits(1_000_000);
    }
}

fn spawn(cache: &RowCache, id: String) -> tokio::task::JoinHandle<bool> {
    let cache = cache.clone();
    tokio::spawn(async move { cache.get_or_load::<String>(&id).await.is_ok() })
}

pub async fn all_loads_together_are_bounded(service: &Service) {
    let seed = pulse_rig::seed::seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let loads = Loads::new();
    let cache = loads.cache(service, 16);
    let scheduled: Vec<String> = (0..60)
        .map(|number| format!("scheduled {number}"))
        .collect();
    let rows = scheduled.iter().map(|id| (id.clone(), SECOND));
    cache.schedule_many(rows).await.unwrap();
    let callers = (0..1_000).map(|number| {
        let kind = ["fail", "panic", "dropped"].get(random.usize(0..30));
        let id = format!("{} {number}", kind.unwrap_or(&"good"));
        (id.clone(), spawn(&cache, id), kind)
    });
    let callers: Vec<_> = callers.collect();
    for (id, caller, _) in &callers {
        if id.starts_with("dropped") {
            caller.abort();
        }
    }
    for (id, caller, kind) in callers {
        let is_ok = caller.await.unwrap_or(false);
        assert!(is_ok || kind.is_some(), "{id}");
        if kind.is_none() {
            assert_eq!(loads.loaded(&id), 1, "{id}");
        }
        service.manual.advance(Duration::from_millis(1));
    }
    service
        .until("the daemon has loaded its rows twice", async || {
            scheduled.iter().all(|id| loads.loaded(id) >= 2)
        })
        .await;
    let most = loads.most();
    assert!((2..=16).contains(&most), "{most} loads at once");
    until("no load is left", async || loads.running() == 0).await;
}

pub async fn a_caller_that_is_dropped_frees_its_place(service: &Service) {
    let loads = Loads::new();
    let cache = loads.cache(service, 2);
    let gated: Vec<_> = (0..2)
        .map(|number| spawn(&cache, format!("gate {number}")))
        .collect();
    until("both places are taken", async || loads.running() == 2).await;
    let waiting: Vec<_> = (0..20)
        .map(|number| spawn(&cache, format!("waiting {number}")))
        .collect();
    let_tasks_run().await;
    let last = spawn(&cache, "last".to_owned());
    tokio::time::sleep(Duration::from_millis(20)).await;
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
    for caller in waiting {
        assert!(caller.await.unwrap_err().is_cancelled());
    }
    // Rows whose load has begun are loaded also when nobody asks for them any more.
    gated.iter().for_each(tokio::task::JoinHandle::abort);
    loads.open();
    assert!(last.await.unwrap());
    assert_eq!(
        loads.before("last", "waiting"),
        Some(0),
        "nobody waits for these rows"
    );
    until("no load is left", async || loads.running() == 0).await;
    assert_eq!(loads.most(), 2);
}

pub async fn the_daemon_and_callers_take_turns(service: &Service) {
    let loads = Loads::new();
    let cache = loads.cache(service, 2);
    let gated: Vec<_> = (0..2)
        .map(|number| spawn(&cache, format!("gate {number}")))
        .collect();
    until("both places are taken", async || loads.running() == 2).await;
    let callers: Vec<_> = (0..100)
        .map(|number| spawn(&cache, format!("caller {number}")))
        .collect();
    let rows = (0..100).map(|number| (format!("due {number}"), HOUR));
    cache.schedule_many(rows).await.unwrap();
    for _ in 0..20 {
        service.advance(100).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    loads.open();
    for caller in gated.into_iter().chain(callers) {
        assert!(caller.await.unwrap());
    }
    service
        .until("all rows are loaded", async || {
            (0..100).all(|number| loads.loaded(&format!("due {number}")) == 1)
        })
        .await;
    let order = loads.0.counts.lock().unwrap().order.clone();
    let first = |start: &str| order.iter().position(|id| id.starts_with(start)).unwrap();
    assert!(
        first("due") < 60,
        "the daemon waits for its turn: {order:?}"
    );
    assert!(
        first("caller") < 60,
        "callers wait for their turn: {order:?}"
    );
    assert_eq!(loads.most(), 2);
}

pub async fn a_loader_may_ask_its_own_cache(service: &Service) {
    let loads = Loads::new();
    let cache = loads.cache(service, 1);
    // Another caller waits for a place, to load a row that the one with the place asks for.
    let first = spawn(&cache, "gate 1+b+c".to_owned());
    until("the place is taken", async || loads.running() == 1).await;
    let others: Vec<_> = ["b+c", "c", "c", "d+c"]
        .map(|id| spawn(&cache, id.to_owned()))
        .into();
    let_tasks_run().await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    loads.open();
    let all = async {
        assert!(first.await.unwrap());
        for other in others {
            assert!(other.await.unwrap());
        }
    };
    let ended = tokio::time::timeout(20 * SECOND, all).await;
    ended.expect("nobody waits for himself");
    cache.schedule("due+e+f", HOUR).await.unwrap();
    service
        .until("the daemon's row is loaded", async || {
            loads.loaded("due+e+f") == 1
        })
        .await;
    for id in ["b+c", "c", "d+c", "e+f", "f"] {
        assert_eq!(loads.loaded(id), 1, "{id}");
    }
    assert_eq!(loads.most(), 1);
}

pub async fn loads_of_a_loader_are_bounded(service: &Service) {
    let loads = Loads::new();
    let cache = loads.cache(service, 2);
    let callers: Vec<_> = (0..3)
        .map(|number| spawn(&cache, format!("{number}+other*10")))
        .collect();
    let callers = join_all(callers);
    let callers = tokio::time::timeout(20 * SECOND, callers).await;
    for caller in callers.expect("nobody waits for himself") {
        assert!(caller.unwrap());
    }
    let most = loads.most();
    assert!(most <= 2, "{most} loads at once");
}

pub async fn a_loader_that_hangs_holds_one_place(service: &Service) {
    let loads = Loads::new();
    let builder = RowCache::builder(&service.pulse()).loader(loads.clone());
    let cache = loads.build(builder.concurrency(2).deadline(SECOND));
    let hanging = spawn(&cache, "hang".to_owned());
    until("it hangs", async || loads.running() == 1).await;
    for number in 0..20 {
        assert!(spawn(&cache, number.to_string()).await.unwrap());
    }
    assert!(!hanging.await.unwrap(), "it is given up");
    assert_eq!(loads.running(), 0);
    assert_eq!(loads.most(), 2);
}
