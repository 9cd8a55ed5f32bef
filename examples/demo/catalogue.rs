//! The shop's pages: how often each is requested, what work it does, and how long the work takes.
//!
//! The simulated past and the live fleet both draw their requests here, so they have the same figures.

use std::time::Duration;

use fastrand::Rng;

use crate::incident::Incident;

#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) method: &'static str,
    pub(crate) template: &'static str,
    /// The requests per minute in the whole fleet.
    pub(crate) per_minute: f64,
    pub(crate) work: &'static [Work],
    pub(crate) failure_share: f64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    /// The timer that measures this part of a page's work, if there is one.
    pub(crate) timer: Option<&'static str>,
    /// The approximate duration, in milliseconds.
    pub(crate) millis: f64,
    /// Whether this part computes; otherwise, this part waits.
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
        failure_share: 0.0,
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
    failure_share: 0.04,
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

/// The pages that the visitors of a fleet request.
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

#[derive(Debug)]
pub(crate) struct Visit {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    /// The wait in front of the shop; `None` if the request lacks the header of a proxy.
    pub(crate) queued: Option<Duration>,
}

impl Visit {
    /// The value of the proxy's header: the time at which the proxy received the request. The request reaches the shop
    /// at `now`, in Unix microseconds.
    pub(crate) fn queue_header(&self, now: i64) -> Option<String> {
        let micros = i64::try_from(self.queued?.as_micros()).unwrap_or(i64::MAX);
        Some(format!("t={}", now.saturating_sub(micros)))
    }
}

const WAIT_MILLIS: f64 = 12.0;

/// Draws the duration of a part of a page's work: about `millis`, and sometimes much longer.
pub(crate) fn draw_duration(rng: &mut Rng, millis: f64) -> Duration {
    let millis = millis * (0.6 + 0.8 * rng.f64());
    let tail = if rng.f64() < 0.02 { 6.0 } else { 1.0 };
    Duration::from_secs_f64(millis * tail / 1e3)
}

pub(crate) fn draw_id(rng: &mut Rng) -> u32 {
    rng.u32(1..500)
}

/// Draws the requests that arrive in a second at one of `instances` instances, each with the time since the start of
/// the second.
pub(crate) fn draw_visits(
    rng: &mut Rng,
    incident: Option<Incident>,
    instances: usize,
) -> Vec<(Duration, Visit)> {
    let mut visits = Vec::new();
    // The waits have their own generator, so that the other figures do not depend on the waits.
    let mut waits = Rng::with_seed(rng.clone().u64(..));
    let wait = WAIT_MILLIS * incident.map_or(1.0, Incident::wait_factor);
    for page in PAGES {
        let factor = incident.map_or(1.0, |incident| incident.traffic_factor(page));
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

/// Draws a number of independent events with the mean `expected` (Poisson's distribution, by Knuth's method).
fn draw_count(rng: &mut Rng, expected: f64) -> usize {
    let (limit, mut product, mut count) = ((-expected).exp(), rng.f64(), 0);
    while product > limit {
        product *= rng.f64();
        count += 1;
    }
    count
}
