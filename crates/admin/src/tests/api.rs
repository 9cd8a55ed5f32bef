//! The structure and the values of the JSON API.

use proptest::prelude::*;
use serde_json::json;

use super::*;

#[cfg(feature = "rankings")]
#[tokio::test]
async fn the_rankings_of_the_store_and_of_this_process_are_listed() {
    let bench = bench();
    let stored = |name: &str| json!({"name": name, "period": 86_400, "interval": 3_600, "max_ids": 10, "dropped": 4, "ids": 3});
    let new = json!({"name": "new <b>", "period": 3_600, "interval": 60, "max_ids": 10, "dropped": 0, "ids": 0});
    let answer = json(&bench.router, "/api/rankings").await;
    assert_eq!(
        answer,
        json!({"rankings": [new, stored("posts"), stored("searches")], "as_of": NOW - 1})
    );
    let answer = json(&bench.router, "/api/rankings?name=new+%3Cb%3E").await;
    assert_eq!((&answer["total"], &answer["ids"]), (&json!(0), &json!([])));
}

#[tokio::test]
async fn counters_of_this_process_and_of_contexts_are_known_before_they_have_counted() {
    let bench = bench();
    for known in ["declared", "errors:GET /ping", "micros"] {
        let none = json!({"name": known, "precision": 1, "samples": [], "as_of": NOW - 1});
        let uri = format!("/api/counters?name={}&precision=1", known.replace(' ', "+"));
        assert_eq!(json(&bench.router, &uri).await, none);
    }
    for unknown in ["no", "hits:GET+/nowhere", "no:hits", "%5Chits"] {
        error(&bench.router, &format!("/api/counters?name={unknown}"), 404).await;
    }
    let all = json(&bench.router, "/api/counters").await;
    let rows = all["counters"].as_array().expect("rows");
    let names = rows.iter().map(|row| row["name"].as_str().expect("a name"));
    let expected = ["declared", "logins", "odd\"\\\n}", "sales"];
    assert_eq!(names.collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn invalid_parameters_are_named() {
    let bench = bench();
    for (uri, parameter) in [
        ("/api/paths?limit=abc", "limit"),
        ("/api/paths?window=day", "window"),
        ("/api/paths?kind=HTTP", "kind"),
        ("/api/paths?from=5&to=5", "from"),
        ("/api/paths?from=-5", "from"),
        ("/api/paths?from=99999999999", "from"),
        ("/api/paths?to=5", "to"),
        ("/api/paths?from=5&to=x", "to"),
        ("/api/paths?window=1h&from=5", "from"),
        ("/api/overview?window=1", "window"),
        ("/api/path?context=a&window=1", "window"),
        ("/api/paths?sort=name", "sort"),
        ("/api/paths?order=up", "order"),
        ("/api/paths?q=%ff", "q"),
        ("/api/paths?q=%", "q"),
        #[cfg(feature = "rankings")]
        ("/api/rankings?name=", "name"),
        ("/api/path", "context"),
        ("/api/path?context=", "context"),
        ("/api/counters?name=", "name"),
        ("/api/counters?name=a&precision=7", "precision"),
        ("/api/series?context=", "context"),
        ("/api/series?metric=p42", "metric"),
        ("/api/series?window=1", "window"),
        ("/api/series?window=1h&precision=7", "precision"),
        (
            "/api/series?metric=outcomes&window=1h&precision=5",
            "precision",
        ),
        ("/api/series?from=5&to=5", "from"),
        ("/api/series?to=5", "to"),
        ("/api/series?metric=p95&precision=1", "precision"),
    ] {
        let answer = error(&bench.router, uri, 400).await;
        assert_eq!(answer["parameter"], parameter, "{uri}");
    }
    for (asked, allowed) in [
        (
            "metric=p95&precision=1",
            "is 1: the metric allows 60, 300, 1800, 3600, 21600, 86400",
        ),
        (
            "precision=2",
            "allows 1, 5, 60, 300, 1800, 3600, 18000, 21600, 86400",
        ),
    ] {
        let answer = error(&bench.router, &format!("/api/series?{asked}"), 400).await;
        let message = answer["error"].as_str().expect("a message");
        assert!(message.ends_with(allowed), "{message}");
    }
    let long = format!("/api/counters?name={}", "x".repeat(2_000));
    assert_eq!(get(&bench.router, &long).await.status, 400);
    // An invalid question is answered 400, even while the store fails.
    bench.store.set(store::FaultMode::Failing);
    let refused = get(&bench.router, "/api/paths?limit=1001").await;
    assert_eq!(refused.status, 400);
}

proptest! {
    #[test]
    fn garbage_is_answered(
        endpoint in prop::sample::select(vec!["overview", "paths", "path", "errors", "slowest", "rankings", "counters", "series", "health"]),
        names in prop::collection::vec(prop::sample::select(vec!["limit", "offset", "q", "context", "name", "precision", "metric", "sort", "window", "kind", "order", "from", "to", "status", "", "%"]), 0..4),
        values in prop::collection::vec("[!-~&&[^#<>`]]{0,12}", 4),
    ) {
        let pairs: Vec<_> = names.iter().zip(&values).map(|(n, v)| format!("{n}={v}")).collect();
        let uri = format!("/api/{endpoint}?{}", pairs.join("&"));
        prop_assume!(uri.parse::<http::Uri>().is_ok());
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let answered = runtime.block_on(async { get(&bench().router, &uri).await });
        prop_assert!([200, 400, 404].contains(&answered.status.as_u16()), "{}: {}", uri, answered.status);
        answered.json();
    }
}
