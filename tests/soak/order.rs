//! A request, and what it must leave in the store.

use std::collections::BTreeMap;

/// Number of pages of an instance. The last but one answers with 404, the last with 500.
pub const PAGES: i64 = 8;
/// Number of products, which are the ids of a ranking.
const PRODUCTS: i64 = 10;
/// The ranking of the products of all instances.
pub const SOLD: &str = "sold";
/// The ranking of the lives of all instances: one for each answered request. It says of each life what is missing.
pub const LIVES: &str = "lives";

/// The life of an instance: each restart begins another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Life {
    /// The number of the instance.
    pub instance: usize,
    /// The number of the life, from 1.
    pub number: u32,
}

impl Life {
    /// The id in the ranking [`LIVES`].
    pub fn id(self) -> String {
        format!("{} life {}", instance_name(self.instance), self.number)
    }
}

/// The name of an instance. It is a part of each of its paths and names, so that the totals of each instance can be
/// told apart in the store.
pub fn instance_name(instance: usize) -> String {
    format!("web-{}", instance + 1)
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quantity {
    /// The book's counters of requests by path.
    Hits,
    /// The book's counters of errors by path.
    Errors,
    /// The counts of the book's statistics, of paths and timers.
    Statistics,
    /// The requests by path as `api/paths` answers them, from the records of each minute.
    Records,
    /// The answers of class 4xx, from the same records.
    ClientErrors,
    /// A counter of the service.
    Counters,
    /// The scores of a ranking.
    Rankings,
    /// The counts of timers.
    Timers,
    /// The scores of the ranking of lives.
    Lives,
}

/// What is counted of one instance under one name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub instance: usize,
    pub quantity: Quantity,
    pub name: String,
}

/// Totals by key.
pub type Tally = BTreeMap<Key, i64>;

/// Adds all totals of `more`.
pub fn add(tally: &mut Tally, more: impl IntoIterator<Item = (Key, i64)>) {
    for (key, n) in more {
        *tally.entry(key).or_default() += n;
    }
}

/// A request of a client, with random amounts that the service adds.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    page: i64,
    items: i64,
    product: i64,
    points: i64,
    timings: i64,
}

impl Order {
    pub fn draw(rng: &mut fastrand::Rng) -> Self {
        Self {
            page: rng.i64(0..PAGES),
            items: rng.i64(1..=5),
            product: rng.i64(0..PRODUCTS),
            points: rng.i64(1..=9),
            timings: rng.i64(0..=3),
        }
    }

    /// The route of a page.
    pub fn route(instance: usize, page: i64) -> String {
        format!("/{}/page/{page}", instance_name(instance))
    }

    /// The path and query that ask for it.
    pub fn path(&self, instance: usize) -> String {
        format!(
            "{}?items={}&product={}&points={}&timings={}",
            Self::route(instance, self.page),
            self.items,
            self.product,
            self.points,
            self.timings
        )
    }

    /// Reads what [`Self::path`] has written.
    pub fn read(page: i64, query: &BTreeMap<String, i64>) -> Self {
        Self {
            page,
            items: query["items"],
            product: query["product"],
            points: query["points"],
            timings: query["timings"],
        }
    }

    /// The status that answers it.
    pub fn status(&self) -> u16 {
        match PAGES - self.page {
            1 => 500,
            2 => 404,
            _ => 200,
        }
    }

    /// What is added to the counter of the instance.
    pub fn items(&self) -> i64 {
        self.items
    }

    /// The id in the ranking [`SOLD`], and what is added to its score.
    pub fn sold(&self, instance: usize) -> (String, i64) {
        let id = format!("{} product {}", instance_name(instance), self.product);
        (id, self.points)
    }

    /// How often the timer of the instance is recorded.
    pub fn timings(&self) -> i64 {
        self.timings
    }

    /// All that the store must have more of, once this is answered in `life`.
    pub fn amounts(&self, life: Life) -> impl Iterator<Item = (Key, i64)> + use<> {
        let instance = life.instance;
        let context = format!("GET {}", Self::route(instance, self.page));
        let (product, points) = self.sold(instance);
        let is = |status| i64::from(self.status() == status);
        let amounts = [
            (Quantity::Hits, context.clone(), 1),
            (Quantity::Errors, context.clone(), is(500)),
            (Quantity::Statistics, context.clone(), 1),
            (Quantity::Records, context.clone(), 1),
            (Quantity::ClientErrors, context, is(404)),
            (Quantity::Counters, counter(instance), self.items),
            (Quantity::Rankings, product, points),
            (Quantity::Timers, timer(instance), self.timings),
            (Quantity::Statistics, timer(instance), self.timings),
            (Quantity::Lives, life.id(), 1),
        ];
        amounts.into_iter().map(move |(quantity, name, n)| {
            let key = Key {
                instance,
                quantity,
                name,
            };
            (key, n)
        })
    }
}

/// The counter of an instance.
pub fn counter(instance: usize) -> String {
    format!("items:{}", instance_name(instance))
}

/// The timer of an instance.
pub fn timer(instance: usize) -> String {
    format!("db:{}", instance_name(instance))
}
