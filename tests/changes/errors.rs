//! Pages that fail or refuse, the status codes and kinds of errors of their responses, and new kinds of errors.

use std::convert::Infallible;
use std::future::ready;
use std::time::Duration;

use http::{Request, Response, StatusCode};
use tower::{Layer, Service};
use tower_pulse::{Change, ChangeKind, Failure, Suspect};
use tower_pulse_core::store::errors;

use crate::changes::fleet::{Backend, Fleet, Instance, MINUTE, named};
use crate::changes::traffic::Traffic;
use crate::rig::reads::StoreOf;
use crate::rig::seed::fixed_seed;

const DAY: i64 = 86_400;
/// The page that fails.
const INVOICES: &str = "GET /invoices";
/// The page that refuses.
const SEATS: &str = "POST /seats";

/// The status and the kind of error of some responses, and their number.
type Answers = (u16, Option<&'static str>, usize);

/// The responses of both pages in a usual minute.
const USUAL: [&[Answers]; 2] = [&[(200, None, 40)], &[(200, None, 39), (404, None, 1)]];
const BROKEN: [&[Answers]; 2] = [
    &[(200, None, 26), (503, Some("db_timeout"), 14)],
    &[(200, None, 23), (404, None, 1), (429, None, 16)],
];

/// Serves requests to a page through the layer of an instance.
async fn serve(instance: &Instance, page: &str, answers: &[Answers]) {
    for (status, kind, count) in answers.iter().copied() {
        let (time, mut millis) = (instance.time.clone(), 8);
        let handler = move |_: Request<()>| {
            millis = if millis == 14 { 8 } else { millis + 1 };
            time.advance(Duration::from_millis(millis));
            let mut response = Response::new(());
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
            if let Some(kind) = kind {
                response.extensions_mut().insert(Failure::new(kind));
            }
            ready(Ok::<_, Infallible>(response))
        };
        let layer = instance.pulse.layer().named(page);
        let mut service = layer.layer(tower::service_fn(handler));
        for _ in 0..count {
            service.call(Request::new(())).await.unwrap();
        }
    }
}

/// Passes a minute, in which the second instance also serves both pages. Lets an instance judge the minute, and returns
/// the ongoing changes of both pages.
async fn pass(
    fleet: &mut Fleet,
    traffic: &mut Traffic,
    judge: usize,
    [invoices, seats]: [&[Answers]; 2],
) -> Vec<Change> {
    let (second, requests) = (fleet.now + 30, traffic.minute());
    let serve_both = async |fleet: &Fleet| {
        let instance = &fleet.instances[1];
        serve(instance, INVOICES, invoices).await;
        serve(instance, SEATS, seats).await;
        instance.time.set_wall(second);
        instance.pulse.simulation().drain();
    };
    fleet.pass_with(&requests, serve_both).await;
    assert_eq!(fleet.judge_by(judge).await, 1);
    let mut ongoing = fleet.ongoing().await;
    ongoing.retain(|change| [INVOICES, SEATS].contains(&&*change.context));
    ongoing
}

/// The code and the kind of error that are suspects of a change.
fn code_and_kind(change: &Change) -> (Option<&str>, Option<&str>) {
    let mut suspects = change.suspects.iter();
    let named = suspects.find_map(|suspect| match suspect {
        Suspect::Failures { code, error, .. } => Some((code.as_deref(), error.as_deref())),
        _ => None,
    });
    named.unwrap_or_else(|| panic!("no failures are suspects: {change:#?}"))
}

async fn failures_are_explained_and_a_new_kind_is_reported_once(backend: Backend) {
    let mut fleet = Fleet::new(backend, 2);
    let mut traffic = Traffic::new(fixed_seed(), 2);
    // A kind of error is new only after a day of data.
    fleet.pass(&traffic.minute()).await;
    fleet.now += DAY;
    for minute in 0..30 {
        let ongoing = pass(&mut fleet, &mut traffic, 0, USUAL).await;
        assert_eq!(named(&ongoing), [], "minute {minute}");
    }

    let began = fleet.now;
    let first = pass(&mut fleet, &mut traffic, 0, BROKEN).await;
    assert_eq!(named(&first), [("new_error", INVOICES)]);
    let new = &first[0];
    assert_eq!(new.error.as_deref(), Some("db_timeout"));
    assert_eq!((new.since, new.detected), (began, began + MINUTE));
    assert_eq!((new.then, new.now), (0.0, 14.0));
    let sentence = "db_timeout is new on GET /invoices: 14 requests";
    assert_eq!(new.to_string(), sentence);
    let mut ongoing = Vec::new();
    for minute in 1..6 {
        if minute == 3 {
            // The instance that judged is killed, and the other instance judges.
            fleet.restart(0).await;
        }
        let judge = usize::from(minute >= 3);
        ongoing = pass(&mut fleet, &mut traffic, judge, BROKEN).await;
    }
    let expected = [
        ("failing", INVOICES),
        ("new_error", INVOICES),
        ("refusing", SEATS),
    ];
    let mut found = named(&ongoing);
    found.sort_unstable();
    assert_eq!(found, expected);
    let change_of = |kind: ChangeKind| {
        let mut changes = ongoing.iter();
        changes.find(|change| change.kind == kind).unwrap()
    };
    let same = change_of(ChangeKind::NewError);
    assert_eq!((&same.id, same.since), (&new.id, began));
    assert_eq!((same.requests, same.minutes), (6 * 14, 6));

    let failing = change_of(ChangeKind::Failing);
    assert_eq!((failing.since, failing.now), (began, 0.35));
    assert_eq!(code_and_kind(failing), (Some("503"), Some("db_timeout")));
    let cause = "db_timeout in 35 % of requests instead of 0 %; 503 rose from 0 % to 35 %";
    assert_eq!(failing.explanation(), format!("Suspect: {cause}."));
    let refusing = change_of(ChangeKind::Refusing);
    assert_eq!(
        (refusing.since, refusing.then, refusing.now),
        (began, 0.025, 0.425)
    );
    assert_eq!(code_and_kind(refusing), (Some("429"), None));
    let sentence = "POST /seats refuses 42.5 % of its requests with 4xx, 2.5 % before";
    let cause = "Suspect: 429 rose from 0 % to 40 %.";
    assert_eq!(refusing.to_string(), format!("{sentence}. {cause}"));

    let last = fleet.now - MINUTE;
    for _ in 0..16 {
        ongoing = pass(&mut fleet, &mut traffic, 1, USUAL).await;
    }
    assert_eq!(named(&ongoing), []);
    // The kind is known by now.
    let again = pass(&mut fleet, &mut traffic, 1, BROKEN).await;
    assert_eq!(named(&again), []);
    let mut all = fleet.changes().await;
    all.retain(|change| change.kind == ChangeKind::NewError);
    assert_eq!(all.len(), 1, "{all:#?}");
    assert_eq!(all[0].ended, Some(last + 16 * MINUTE));
    let store = fleet.instances[1].pulse.backend();
    let seen = errors::read(store.journal()).await.unwrap();
    let seen = seen
        .iter()
        .map(|(kind, seen)| (&**kind, seen.first, seen.last));
    let expected = [("db_timeout", began, fleet.now - MINUTE)];
    assert_eq!(seen.collect::<Vec<_>>(), expected);
}

in_both!(failures_are_explained_and_a_new_kind_is_reported_once);
