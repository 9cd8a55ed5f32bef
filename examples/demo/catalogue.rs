//! What the shop is like: its pages, how often they are asked for, what they do and how long that takes.
//!
//! The simulated past and the live shop both draw from here, so that nothing changes where the one ends and the
//! other begins.

use std::time::Duration;

use fastrand::Rng;

use crate::incident::Incident;

/// A page of the shop.
#[derive(Debug)]
pub(crate) struct Page {
    /// Its method.
    pub(crate) method: &'static str,
    /// Its route template.
    pub(crate) template: &'static str,
    /// Requests per minute, of the whole fleet.
    pub(crate) per_minute: f64,
    /// What it does, one after the other.
    pub(crate) work: &'static [Work],
    /// The share of its requests that fail.
    pub(crate) failures: f64,
}

/// A part of what a page does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    /// The timer that measures it, if one does.
    pub(crate) timer: Option<&'static str>,
    /// About how long it takes.
    pub(crate) millis: f64,
    /// Whether it computes, and else waits.
    pub(crate) computes: bool,
}

impl Work {
    pub(crate) const fn timed(timer: &'static str, millis: f64) -> Self {
        Self {
            timer: Some(timer),
            millis,
            computes: false,
        }
    }

    pub(crate) const fn untimed(millis: f64) -> Self {
        Self {
            timer: None,
            millis,
            computes: false,
        }
    }

    pub(crate) const fn computing(millis: f64) -> Self {
        Self {
            computes: true,
            ..Self::untimed(millis)
        }
    }
}

const fn page(
    (method, template): (&'static str, &'static str),
    per_minute: f64,
    work: &'static [Work],
) -> Page {
    Page {
        method,
        template,
        per_minute,
        work,
        failures: 0.0,
    }
}

pub(crate) static HOME: Page = page(
    ("GET", "/"),
    360.0,
    &[Work::untimed(14.0), Work::computing(1.0)],
);
pub(crate) static PRODUCT: Page = page(
    ("GET", "/products/{id}"),
    360.0,
    &[
        Work::timed("db:find_product", 18.0),
        Work::untimed(5.0),
        Work::computing(1.0),
    ],
);
pub(crate) static USER: Page = page(
    ("GET", "/api/v1/users/{id}"),
    210.0,
    &[Work::untimed(11.0), Work::computing(1.0)],
);
pub(crate) static SEARCH: Page = page(
    ("GET", "/search"),
    180.0,
    &[
        Work::timed("db:search", 40.0),
        Work {
            computes: true,
            ..Work::timed("template:results", 8.0)
        },
    ],
);
pub(crate) static CART: Page = page(
    ("GET", "/cart"),
    150.0,
    &[
        Work::timed("cache:cart", 10.0),
        Work::untimed(5.0),
        Work::computing(1.0),
    ],
);
pub(crate) static ADD_TO_CART: Page = page(
    ("POST", "/cart/items"),
    90.0,
    &[Work::timed("db:add_item", 25.0), Work::computing(1.0)],
);
pub(crate) static CHECKOUT: Page = Page {
    failures: 0.04,
    ..page(
        ("POST", "/checkout"),
        90.0,
        &[Work::timed("payment", 60.0), Work::computing(1.0)],
    )
};
pub(crate) static REPORT: Page = page(
    ("GET", "/reports/daily"),
    24.0,
    &[Work::timed("db:report", 450.0), Work::computing(10.0)],
);

/// The pages that the visitors of a fleet ask for.
static PAGES: [&Page; 8] = [
    &HOME,
    &PRODUCT,
    &USER,
    &SEARCH,
    &CART,
    &ADD_TO_CART,
    &CHECKOUT,
    &REPORT,
];

/// A request of a visitor.
#[derive(Debug)]
pub(crate) struct Visit {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    /// How long it has waited in front of the shop, if it tells.
    pub(crate) queued: Option<Duration>,
}

impl Visit {
    /// The header by which a proxy tells when it took a request that arrives now, in Unix microseconds.
    pub(crate) fn taken(&self, now: i64) -> Option<String> {
        let micros = i64::try_from(self.queued?.as_micros()).unwrap_or(i64::MAX);
        Some(format!("t={}", now.saturating_sub(micros)))
    }
}

/// About how long a request waits in front of the shop.
const WAIT_MILLIS: f64 = 12.0;

/// Draws how long a piece of work takes: about `millis`, and now and then much longer.
pub(crate) fn draw_duration(rng: &mut Rng, millis: f64) -> Duration {
    let millis = millis * (0.6 + 0.8 * rng.f64());
    let tail = if rng.f64() < 0.02 { 6.0 } else { 1.0 };
    Duration::from_secs_f64(millis * tail / 1e3)
}

/// Draws the id of a product or a user.
pub(crate) fn draw_id(rng: &mut Rng) -> u32 {
    rng.u32(1..500)
}

/// Draws the requests that arrive in a second at one of `instances`, each with the time after the second's begin.
pub(crate) fn draw_visits(
    rng: &mut Rng,
    incident: Option<Incident>,
    instances: usize,
) -> Vec<(Duration, Visit)> {
    let mut visits = Vec::new();
    // A generator of its own, so that the other figures do not depend on it.
    let mut waits = Rng::with_seed(rng.clone().u64(..));
    let wait = WAIT_MILLIS * incident.map_or(1.0, Incident::waiting);
    for page in PAGES {
        let factor = incident.map_or(1.0, |incident| incident.traffic(page));
        let expected = page.per_minute * factor / 60.0 / instances as f64;
        for _ in 0..draw_count(rng, expected) {
            let path = match page.template.strip_suffix("{id}") {
                Some(before) => format!("{before}{}", draw_id(rng)),
                None => page.template.to_owned(),
            };
            let visit = Visit {
                method: page.method,
                path,
                queued: Some(draw_duration(&mut waits, wait)),
            };
            visits.push((Duration::from_secs_f64(rng.f64()), visit));
        }
    }
    visits
}

/// Draws how many of independent events happen where `expected` do on average (Poisson's distribution, by Knuth's
/// method).
fn draw_count(rng: &mut Rng, expected: f64) -> usize {
    let (limit, mut product, mut count) = ((-expected).exp(), rng.f64(), 0);
    while product > limit {
        product *= rng.f64();
        count += 1;
    }
    count
}
