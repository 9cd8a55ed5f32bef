//! Random requests from a seed. Durations are heavy-tailed, and the speed of each page varies from minute to minute.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;

/// A page, its requests per minute, the median of their durations in milliseconds, and the spread of the durations.
type Page = (&'static str, f64, f64, f64);

/// The page that most tests make slower.
pub const SEARCH: &str = "GET /search";

pub const PAGES: [Page; 10] = [
    ("GET /", 90.0, 12.0, 0.5),
    (SEARCH, 60.0, 80.0, 0.7),
    ("GET /products/{id}", 80.0, 30.0, 0.6),
    ("GET /products", 50.0, 45.0, 0.5),
    ("POST /cart", 40.0, 25.0, 0.4),
    ("GET /cart", 45.0, 18.0, 0.6),
    ("POST /orders", 30.0, 120.0, 0.6),
    ("GET /orders/{id}", 35.0, 35.0, 0.5),
    ("GET /users/{id}", 40.0, 20.0, 0.8),
    ("POST /login", 30.0, 150.0, 0.3),
];

#[derive(Clone, Debug)]
pub struct Request {
    pub instance: usize,
    pub context: Arc<str>,
    pub duration: Duration,
    pub status: u16,
}

pub fn requests(instance: usize, context: &str, count: usize, millis: u64) -> Vec<Request> {
    let request = Request {
        instance,
        context: context.into(),
        duration: Duration::from_millis(millis),
        status: 200,
    };
    vec![request; count]
}

#[derive(Clone, Debug)]
pub struct Traffic {
    rng: Rng,
    pages: Vec<(Arc<str>, Page, f64)>,
    instances: usize,
}

impl Traffic {
    pub fn new(seed: u64, instances: usize) -> Self {
        let pages = PAGES.iter().map(|page| (page.0.into(), *page, 0.0));
        Self {
            rng: Rng::with_seed(seed),
            pages: pages.collect(),
            instances,
        }
    }

    pub fn minute(&mut self) -> Vec<Request> {
        self.minute_with(|_| 1.0)
    }

    /// The requests of one more minute. `factor` multiplies the rate of a page. Each request is drawn separately,
    /// because copies of one request would all fail or all be slow.
    pub fn minute_with(&mut self, factor: impl Fn(&str) -> f64) -> Vec<Request> {
        let mut requests = Vec::with_capacity(600);
        let rng = &mut self.rng;
        for (context, (_, rate, median, spread), wobble) in &mut self.pages {
            let rate = *rate * factor(context);
            *wobble = 0.6 * *wobble + 0.02 * normal(rng);
            let mut waited = exponential(rng);
            while waited < rate {
                waited += exponential(rng);
                let mut millis = *median * (*wobble + *spread * normal(rng)).exp();
                if rng.u8(..) < 5 {
                    // Without the bound, this heavy tail would have infinite variance.
                    millis *= (1.0 - rng.f64()).powf(-1.0 / 1.5).min(30.0);
                }
                requests.push(Request {
                    instance: rng.usize(..self.instances),
                    context: context.clone(),
                    duration: Duration::from_secs_f64(millis / 1e3),
                    status: if rng.u16(..) < 130 { 500 } else { 200 },
                });
            }
        }
        requests
    }
}

/// A standard normal deviate (Box and Muller).
fn normal(rng: &mut Rng) -> f64 {
    (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (std::f64::consts::TAU * rng.f64()).cos()
}

fn exponential(rng: &mut Rng) -> f64 {
    -(1.0 - rng.f64()).ln()
}

pub fn slow_down(requests: &mut [Request], context: &str, factor: f64) {
    for request in requests.iter_mut().filter(|r| *r.context == *context) {
        request.duration = request.duration.mul_f64(factor);
    }
}

pub fn fail(requests: &mut [Request], context: &str) {
    for request in requests.iter_mut().filter(|r| *r.context == *context) {
        request.status = 500;
    }
}
