//! The routes of the shop.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::response::sse::{Event, Sse};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use fastrand::Rng;
use futures_util::stream::{self, Stream};
use http::StatusCode;
use tower_pulse::row_cache::RowCache;
use tower_pulse::{BuildError, Counter, Pulse, Ranking};

use crate::catalogue::{
    ADD_TO_CART, CART, CHECKOUT, HOME, PRODUCT, Page, REPORT, SEARCH, USER, Work, draw_duration,
};
use crate::database::Database;
use crate::incident::{Incident, payment_failure};
use crate::offers;
use crate::pace::{Pace, RequestWork};

#[derive(Clone)]
struct Shop {
    pulse: Pulse,
    sales: Counter,
    searches: Counter,
    cart_items: Counter,
    /// The products, ranked by their sales in the past 24 hours.
    bestsellers: Ranking,
    /// The special offers of the home page; `None` in the simulated past, without Redis, or without visitors.
    offers: Option<RowCache>,
    /// The database whose statements replace waits.
    database: Option<Database>,
    pace: Pace,
    incident: Option<Incident>,
    rng: Arc<Mutex<Rng>>,
}

/// The routes, without the layer. `pulse` records their timers.
pub(crate) fn routes(
    pulse: &Pulse,
    pace: Pace,
    incident: Option<Incident>,
    offers: Option<RowCache>,
    database: Option<Database>,
    rng: Rng,
) -> Result<Router, BuildError> {
    let shop = Shop {
        pulse: pulse.clone(),
        sales: pulse.counter("sales"),
        searches: pulse.counter("searches"),
        cart_items: pulse.counter("cart_items"),
        bestsellers: pulse.ranking("bestsellers").build()?,
        offers,
        database,
        pace,
        incident,
        rng: Arc::new(Mutex::new(rng)),
    };
    let users = Router::new().route("/users/{id}", get(user));
    let app = Router::new()
        .route("/", get(home))
        .route("/ping", get(|| async { "pong" }))
        .route("/products/{id}", get(product))
        .route("/search", get(search))
        .route("/cart", get(cart))
        .route("/cart/items", post(add_to_cart))
        .route("/checkout", post(checkout))
        .route("/reports/daily", get(report))
        .route("/stream", get(events))
        .route("/boom", get(boom))
        .nest("/api/v1", users)
        .with_state(shop);
    Ok(app)
}

struct Failed;

impl Shop {
    fn draw<T>(&self, draw: impl FnOnce(&mut Rng) -> T) -> T {
        draw(&mut self.rng.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Does the work of a page. Returns whether the request fails. If the request fails, the last timed part of the
    /// work fails too, and names the kind of failure.
    async fn work(&self, page: &Page) -> bool {
        let fails = self.fails(page);
        let last_timed = page.work.iter().rposition(|work| work.timer.is_some());
        let mut request_work = self.pace.begin();
        for (at, work) in page.work.iter().enumerate() {
            if let (Some(timer), Some(database)) = (work.timer, &self.database)
                && database.run(timer).await
            {
                continue;
            }
            let slowness = self
                .incident
                .map_or(1.0, |incident| incident.slowness(page, *work));
            let duration = self.draw(|rng| draw_duration(rng, work.millis * slowness));
            let spending = spend(&mut request_work, *work, duration);
            match work.timer {
                Some(timer) => {
                    let has_failed = fails && last_timed == Some(at);
                    let outcome = async {
                        spending.await;
                        if has_failed { Err(Failed) } else { Ok(()) }
                    };
                    let incident = self.incident;
                    let failure = move |_: &Failed| payment_failure(incident);
                    // The result is ignored: the timer has counted the failure, and `fails` decides the response.
                    let _ = self.pulse.try_time_as(timer, outcome, failure).await;
                }
                None => spending.await,
            }
        }
        let repeated = self.incident.and_then(|incident| incident.repeated(page));
        let more = self.incident.and_then(|incident| incident.more_work(page));
        for (work, times) in repeated.into_iter().chain(more.map(|work| (work, 1))) {
            for _ in 0..times {
                let duration = self.draw(|rng| draw_duration(rng, work.millis));
                let spending = spend(&mut request_work, work, duration);
                match work.timer {
                    Some(timer) => self.pulse.time(timer, spending).await,
                    None => spending.await,
                }
            }
        }
        fails
    }

    fn fails(&self, page: &Page) -> bool {
        let share = self
            .incident
            .map_or(page.failure_share, |incident| incident.failure_share(page));
        share > 0.0 && self.draw(Rng::f64) < share
    }
}

async fn spend(request_work: &mut RequestWork<'_>, work: Work, duration: Duration) {
    match work.computes {
        true => request_work.compute(duration),
        false => request_work.wait(duration).await,
    }
}

async fn home(State(shop): State<Shop>) -> Html<String> {
    // The offer is read while the page works. Otherwise, live requests would take longer than those of the simulated
    // past, which has no offers.
    let offer = async {
        match &shop.offers {
            Some(offers) => offers::describe_any(offers).await,
            None => None,
        }
    };
    let (_, offer) = tokio::join!(shop.work(&HOME), offer);
    let offer = offer.map_or_else(String::new, |offer| format!("<p>{offer}"));
    Html(format!(
        "<!doctype html><title>The shop</title><h1>The shop</h1>{offer}\
         <p><a href=\"/admin/pulse\">The dashboard</a>"
    ))
}

async fn product(State(shop): State<Shop>, Path(id): Path<u32>) -> String {
    shop.work(&PRODUCT).await;
    format!("product {id}")
}

async fn search(State(shop): State<Shop>) -> &'static str {
    shop.work(&SEARCH).await;
    shop.searches.add(1);
    "nothing found"
}

async fn cart(State(shop): State<Shop>) -> &'static str {
    shop.work(&CART).await;
    "an empty cart"
}

async fn add_to_cart(State(shop): State<Shop>) -> StatusCode {
    shop.work(&ADD_TO_CART).await;
    shop.cart_items.add(1);
    StatusCode::CREATED
}

async fn checkout(State(shop): State<Shop>) -> StatusCode {
    if shop.work(&CHECKOUT).await {
        return StatusCode::BAD_GATEWAY;
    }
    let sold = shop.draw(|rng| rng.i64(1..=4));
    shop.sales.add(sold);
    // Few products are sold often.
    let product = (40.0 * fastrand::f64().powi(3)) as u32 + 1;
    shop.bestsellers.add(&format!("product {product}"), sold);
    StatusCode::CREATED
}

async fn report(State(shop): State<Shop>) -> &'static str {
    shop.work(&REPORT).await;
    "all is well"
}

async fn user(State(shop): State<Shop>, Path(id): Path<u32>) -> Response {
    shop.work(&USER).await;
    if id % 50 == 0 {
        return StatusCode::NOT_FOUND.into_response();
    }
    format!("user {id}").into_response()
}

async fn events() -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    Sse::new(stream::unfold(0u32, |n| async move {
        if n > 0 {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        Some((Ok(Event::default().data(n.to_string())), n + 1))
    }))
}

struct Boom;

async fn boom() -> &'static str {
    std::panic::panic_any(Boom)
}

/// The dashboard counts the panics of `/boom`, so the log shows one line for all of them instead of a backtrace for
/// each. Other panics are logged as usual.
pub(crate) fn install_boom_hook() {
    static LOGGED: std::sync::Once = std::sync::Once::new();
    let log = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !panic.payload().is::<Boom>() {
            return log(panic);
        }
        LOGGED.call_once(|| {
            tracing::info!(
                "GET /boom panics on purpose: the dashboard counts each panic, the log has only this line"
            );
        });
    }));
}
