//! The structure and the values of the JSON API.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn contexts(answer: &Value) -> Vec<&str> {
    let rows = answer["paths"].as_array().expect("rows");
    rows.iter()
        .map(|row| row["context"].as_str().expect("a name"))
        .collect()
}

pub(super) fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<_> = value
        .as_object()
        .expect("an object")
        .keys()
        .map(String::as_str)
        .collect();
    keys.sort_unstable();
    keys
}

#[tokio::test]
async fn the_overview_of_an_empty_store_has_nulls() {
    let bench = bench_with(Canned::empty());
    let answer = json(&bench.router, "/api/overview").await;
    assert_eq!(answer["hour"]["start"], NOW - 490);
    assert_eq!(answer["hour"]["requests"], 0);
    assert_eq!(answer["hour"]["mean"], Value::Null);
    assert_eq!(answer["last_hour"], Value::Null);
    assert_eq!(answer["requests_per_second"], 0.0);
    for window in ["hour", "1h"] {
        let paths = json(&bench.router, &format!("/api/paths?window={window}")).await;
        assert_eq!((&paths["total"], &paths["paths"]), (&json!(0), &json!([])));
    }
}

#[tokio::test]
async fn paths_are_filtered_sorted_and_paged() {
    let bench = bench();
    let get = async |query: &str| json(&bench.router, &format!("/api/paths{query}")).await;
    let all = get("").await;
    assert_eq!(contexts(&all), ["GET /ping", "GET /reports/{day}", "/book"]);
    assert_eq!(contexts(&get("?kind=timer").await), ["db:find"]);
    assert_eq!(get("?kind=timer").await["paths"][0]["path"], Value::Null);
    assert_eq!(get("?kind=all").await["total"], 4);
    assert_eq!(
        contexts(&get("?window=last_hour").await),
        ["GET /past", "GET /ping"]
    );
    assert_eq!(contexts(&get("?q=s%2F%7B").await), ["GET /reports/{day}"]);
    assert_eq!(
        contexts(&get("?q=S%2F%7Bday").await),
        ["GET /reports/{day}"]
    );
    assert_eq!(contexts(&get("?q=.*").await), [""; 0]);
    assert_eq!(
        contexts(&get("?sort=errors&q=GET").await)[0],
        "GET /reports/{day}"
    );
    assert_eq!(
        contexts(&get("?sort=max&order=asc").await),
        ["GET /ping", "/book", "GET /reports/{day}"]
    );
    assert_eq!(contexts(&get("?sort=total").await)[2], "GET /ping");
    let (up, down) = (
        get("?sort=context&order=asc").await,
        get("?sort=context").await,
    );
    let (up, down) = (contexts(&up), contexts(&down));
    assert!(up.is_sorted() && up.len() == 3, "{up:?}");
    assert!(down.iter().rev().eq(&up), "{down:?}");
    assert_eq!(contexts(&get("?sort=4xx&kind=timer").await), ["db:find"]);
    for order in ["asc", "desc"] {
        // Without a histogram there is no percentile: last in either order.
        assert_eq!(
            contexts(&get(&format!("?sort=p95&order={order}")).await)[2],
            "/book"
        );
    }
    let page = get("?limit=1&offset=1").await;
    assert_eq!(
        (contexts(&page), &page["total"]),
        (vec!["GET /reports/{day}"], &json!(3))
    );
    assert_eq!(contexts(&get("?limit=0").await), [""; 0]);
    assert_eq!(contexts(&get("?limit=1000&offset=0").await).len(), 3);
    assert_eq!(contexts(&get("?offset=1000000000").await), [""; 0]);
}

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
async fn slowest() {
    let bench = bench();
    let first = json!({
        "context": "GET /reports/{day}", "kind": "http", "method": "GET", "path": "/reports/{day}",
        "mean": 1.0,
    });
    let second = json!({
        "context": "/book", "kind": null, "method": null, "path": null, "mean": 0.7,
    });
    let answer = json(&bench.router, "/api/slowest").await;
    assert_eq!(
        answer,
        json!({"slowest": [first, second], "as_of": NOW - 1})
    );
    let answer = json(&bench.router, "/api/slowest?limit=1").await;
    assert_eq!(answer, json!({"slowest": [first], "as_of": NOW - 1}));
}

#[tokio::test]
async fn invalid_parameters_are_named() {
    let bench = bench();
    for (uri, parameter) in [
        ("/api/paths?limit=abc", "limit"),
        ("/api/paths?limit=-1", "limit"),
        ("/api/paths?limit=", "limit"),
        ("/api/paths?limit=1.5", "limit"),
        ("/api/paths?limit=1&limit=2", "limit"),
        ("/api/paths?limit=1001", "limit"),
        ("/api/overview?unknown=1", "unknown"),
        ("/api/paths?offset=-1", "offset"),
        ("/api/paths?window=day", "window"),
        ("/api/paths?kind=HTTP", "kind"),
        ("/api/paths?window=2h", "window"),
        ("/api/paths?window=", "window"),
        ("/api/paths?status=slow", "status"),
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
        ("/api/slowest?limit=x", "limit"),
        #[cfg(feature = "rankings")]
        ("/api/rankings?name=posts&offset=-1", "offset"),
        #[cfg(feature = "rankings")]
        ("/api/rankings?name=", "name"),
        ("/api/path", "context"),
        ("/api/path?context=", "context"),
        ("/api/counters?precision=7", "precision"),
        ("/api/counters?limit=x", "limit"),
        ("/api/counters?name=", "name"),
        ("/api/counters?name=a&precision=7", "precision"),
        ("/api/counters?name=a&precision=-60", "precision"),
        ("/api/counters?name=a&precision=99999999999999", "precision"),
        ("/api/series?context=", "context"),
        ("/api/series?metric=p42", "metric"),
        ("/api/series?precision=x", "precision"),
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
        let answered = get(&bench.router, uri).await;
        assert_eq!(answered.status, 400, "{uri}");
        let answer = answered.json();
        assert_eq!(answer["parameter"], parameter, "{uri}");
        assert!(answer["error"].is_string(), "{uri}");
    }
    let answer = get(&bench.router, "/api/series?metric=p95&precision=1")
        .await
        .json();
    let message = answer["error"].as_str().expect("a message");
    assert!(
        message.ends_with("is 1: the metric allows 60, 300, 1800, 3600, 21600, 86400"),
        "{message}"
    );
    let answer = get(&bench.router, "/api/series?precision=2").await.json();
    let message = answer["error"].as_str().expect("a message");
    assert!(
        message.ends_with("allows 1, 5, 60, 300, 1800, 3600, 18000, 21600, 86400"),
        "{message}"
    );
    let long = format!("/api/counters?name={}", "x".repeat(2_000));
    assert_eq!(get(&bench.router, &long).await.status, 400);
    // A wrong question is refused whatever the store does.
    bench.store.set(store::FaultMode::Failing);
    let refused = get(&bench.router, "/api/paths?limit=1001").await;
    assert_eq!(refused.status, 400);
}

proptest! {
    #[test]
    fn garbage_is_answered(
        endpoint in prop::sample::select(vec!["overview", "paths", "path", "slowest", "rankings", "counters", "series", "health"]),
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
