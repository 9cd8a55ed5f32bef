//! The incidents: `DEMO_INCIDENT`.

use std::str::FromStr;

use tower_pulse::Failure;

use crate::catalogue::{ADD_TO_CART, CART, CHECKOUT, PRODUCT, Page, SEARCH, Work};
use crate::fleet::INSTANCES;

/// The version of the shop, and the version that a bad deploy brings.
const VERSIONS: [&str; 2] = ["1.4.1", "1.4.2"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Incident {
    /// A query takes three times as long.
    SlowQuery,
    /// Half of the instances get a version in which a page is twice as slow.
    BadDeploy,
    /// Everything is slow on one instance.
    BadInstance,
    /// A page fails often.
    Errors,
    /// A page gets six times the requests.
    Surge,
    /// The machine of one instance is busy with something else.
    BusyHost,
    /// Requests wait longer in front of the shop.
    Queue,
    /// A page runs a query for each row of another query.
    Repeated,
    /// A page computes without `spawn_blocking`.
    Blocking,
}

const REPEATED: (Work, usize) = (Work::timed("db:find_item", 1.0), 41);

const BLOCKING_MILLIS: f64 = 60.0;

impl FromStr for Incident {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        match name {
            "slow_query" => Ok(Self::SlowQuery),
            "bad_deploy" => Ok(Self::BadDeploy),
            "bad_instance" => Ok(Self::BadInstance),
            "errors" => Ok(Self::Errors),
            "surge" => Ok(Self::Surge),
            "busy_host" => Ok(Self::BusyHost),
            "queue" => Ok(Self::Queue),
            "repeated" => Ok(Self::Repeated),
            "blocking" => Ok(Self::Blocking),
            _ => Err(()),
        }
    }
}

impl Incident {
    pub(crate) const ALLOWED: &str = "slow_query, bad_deploy, bad_instance, errors, surge, busy_host, queue, repeated or blocking";

    pub(crate) fn affects(self, instance: usize) -> bool {
        match self {
            Self::BadDeploy => instance < INSTANCES / 2,
            Self::BadInstance | Self::BusyHost => instance == INSTANCES / 2,
            Self::SlowQuery
            | Self::Errors
            | Self::Surge
            | Self::Queue
            | Self::Repeated
            | Self::Blocking => true,
        }
    }

    pub(crate) fn description(self) -> &'static str {
        match self {
            Self::SlowQuery => "db:search takes three times as long",
            Self::BadDeploy => {
                "web-1 and web-2 get version 1.4.2, in which GET /products/{id} is twice as slow"
            }
            Self::BadInstance => "every request takes 2.5 times as long on web-3",
            Self::Errors => "a quarter of POST /checkout fails, because payments time out",
            Self::Surge => "GET /products/{id} gets six times the requests",
            Self::BusyHost => {
                "the machine of web-3 is busy: tasks wait there for 40 ms, and all work takes 2.5 times as long"
            }
            Self::Queue => "requests wait for eight times as long in front of the shop",
            Self::Repeated => "GET /cart runs db:find_item 41 times",
            Self::Blocking => "POST /cart/items computes for 60 ms, and blocks its worker",
        }
    }

    /// How many times as long a part of a page's work takes on an instance with the incident.
    pub(crate) fn slowness(self, page: &Page, work: Work) -> f64 {
        match self {
            Self::SlowQuery if is_same(page, &SEARCH) && work.timer == Some("db:search") => 3.0,
            Self::BadInstance | Self::BusyHost => 2.5,
            _ => 1.0,
        }
    }

    pub(crate) fn more_work(self, page: &Page) -> Option<Work> {
        match self {
            Self::BadDeploy if is_same(page, &PRODUCT) => Some(Work::untimed(
                page.work.iter().map(|work| work.millis).sum(),
            )),
            Self::Blocking if is_same(page, &ADD_TO_CART) => Some(Work::computing(BLOCKING_MILLIS)),
            _ => None,
        }
    }

    /// The work that a page repeats, and how often.
    pub(crate) fn repeated(self, page: &Page) -> Option<(Work, usize)> {
        (self == Self::Repeated && is_same(page, &CART)).then_some(REPEATED)
    }

    /// How many times as long requests wait in front of the shop.
    pub(crate) fn wait_factor(self) -> f64 {
        if self == Self::Queue { 8.0 } else { 1.0 }
    }

    pub(crate) fn failure_share(self, page: &Page) -> f64 {
        match self {
            Self::Errors if is_same(page, &CHECKOUT) => 0.25,
            _ => page.failure_share,
        }
    }

    /// How many times as many requests a page gets.
    pub(crate) fn traffic_factor(self, page: &Page) -> f64 {
        match self {
            Self::Surge if is_same(page, &PRODUCT) => 6.0,
            _ => 1.0,
        }
    }
}

/// The version of the shop on an instance with this incident, or without one.
pub(crate) fn version(incident: Option<Incident>) -> &'static str {
    VERSIONS[usize::from(incident == Some(Incident::BadDeploy))]
}

/// The failure of a payment on an instance with this incident, or without one.
pub(crate) fn payment_failure(incident: Option<Incident>) -> Failure {
    match incident {
        Some(Incident::Errors) => {
            Failure::new("payment_timeout").with_message("pay.example.com: no answer within 2 s")
        }
        _ => {
            let message = "pay.example.com: 503 Service Unavailable";
            Failure::new("payment_unavailable").with_message(message)
        }
    }
}

fn is_same(page: &Page, other: &Page) -> bool {
    (page.method, page.template) == (other.method, other.template)
}
