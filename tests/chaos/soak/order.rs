//! A request, and the amounts that it adds in the store.

use std::collections::BTreeMap;

use serde::Deserialize;

/// Number of pages of an instance. The last but one answers with 404, the last with 500.
pub const PAGES: i64 = 8;
/// Number of products of an instance. The products are the ids of the ranking [`SOLD`].
const PRODUCTS: i64 = 10;
/// The ranking of the products of all instances.
pub const SOLD: &str = "sold";
/// The ranking of the lives of all instances. Each answered request adds one to the life that answered, so the ranking
/// shows which lives lack requests.
pub const LIVES: &str = "lives";

/// A life of an instance: the time from a start to the next kill.
#[derive(Clone, Copy, Debug)]
pub struct Life {
    pub instance: usize,
    /// The number of the life, from 1.
    pub number: u32,
}

impl Life {
    /// The name of the instance. All paths and names of the instance contain this name, so the store has totals for
    /// each instance.
    pub fn name(self) -> String {
        format!("web-{}", self.instance + 1)
    }

    /// The id in the ranking [`LIVES`].
    pub fn id(self) -> String {
        format!("{} life {}", self.name(), self.number)
    }

    pub fn route(self, page: i64) -> String {
        format!("/{}/page/{page}", self.name())
    }

    pub fn counter(self) -> String {
        format!("items:{}", self.name())
    }

    pub fn timer(self) -> String {
        format!("db:{}", self.name())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quantity {
    /// The book's counters of requests by path.
    Hits,
    /// The book's counters of errors by path.
    Errors,
    /// The counts in the book's statistics of paths and timers.
    Statistics,
    /// The requests by path in `api/paths`, from the records of each minute.
    Records,
    /// The requests with a 4xx by path, from the same records.
    ClientErrors,
    /// A counter of the service.
    Counters,
    Rankings,
    Timers,
    Lives,
}

/// The quantity and the name of a total.
pub type Key = (Quantity, String);

pub type Tally = BTreeMap<Key, i64>;

pub fn add(tally: &mut Tally, more: impl IntoIterator<Item = (Key, i64)>) {
    for (key, n) in more {
        *tally.entry(key).or_default() += n;
    }
}

/// A request of a client, with random amounts that the service adds.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Order {
    page: i64,
    /// Added to the counter of the instance.
    pub items: i64,
    product: i64,
    /// Added to the score of the product.
    pub points: i64,
    /// How often the timer of the instance is recorded.
    pub timings: i64,
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

    pub fn path(&self, life: Life) -> String {
        let (route, page, items) = (life.route(self.page), self.page, self.items);
        let (product, points, timings) = (self.product, self.points, self.timings);
        format!(
            "{route}?page={page}&items={items}&product={product}&points={points}&timings={timings}"
        )
    }

    pub fn status(&self) -> u16 {
        match PAGES - self.page {
            1 => 500,
            2 => 404,
            _ => 200,
        }
    }

    /// The id in the ranking [`SOLD`].
    pub fn sold(&self, life: Life) -> String {
        format!("{} product {}", life.name(), self.product)
    }

    /// The amounts by which the store's totals grow, if `life` answers the order.
    pub fn amounts(&self, life: Life) -> impl Iterator<Item = (Key, i64)> + use<> {
        let context = format!("GET {}", life.route(self.page));
        let is = |status| i64::from(self.status() == status);
        let amounts = [
            (Quantity::Hits, context.clone(), 1),
            (Quantity::Errors, context.clone(), is(500)),
            (Quantity::Statistics, context.clone(), 1),
            (Quantity::Records, context.clone(), 1),
            (Quantity::ClientErrors, context, is(404)),
            (Quantity::Counters, life.counter(), self.items),
            (Quantity::Rankings, self.sold(life), self.points),
            (Quantity::Timers, life.timer(), self.timings),
            (Quantity::Statistics, life.timer(), self.timings),
            (Quantity::Lives, life.id(), 1),
        ];
        amounts
            .into_iter()
            .map(|(quantity, name, n)| ((quantity, name), n))
    }
}
