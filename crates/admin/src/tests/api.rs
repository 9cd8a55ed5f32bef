//! The structure and the values of the JSON API.

use proptest::prelude::*;
use serde_json::json;

use super::*;

#[cfg(feature = "rankings")]
#[tokio::test]
async fn the_rankings_of_the_store_and_of_this_process_are_listed() {
    let router = fixture().router;
    let stored = |name: &str| json!({"name": name, "period": 86_400, "interval": 3_600, "max_ids": 10, "dropped": 4, "ids": 3});
    let new = json!({"name": "new <b>", "period": 3_600, "interval": 60, "max_ids": 10, "dropped": 0, "ids": 0});
    let answer = json(&router, "/api/rankings").await;
    assert_eq!(
        answer,
        json!({"rankings": [new, stored("posts"), stored("searches")], "as_of": NOW - 1})
    );
    let answer = json(&router, "/api/rankings?name=new+%3Cb%3E").await;
    assert_eq!((&answer["total"], &answer["ids"]), (&json!(0), &json!([])));
}

#[tokio::test]
async fn counters_of_this_process_and_of_contexts_are_known_before_they_have_counted() {
    let router = fixture().router;
    for known in ["declared", "errors:GET /ping", "micros"] {
        let none = json!({"name": known, "precision": 1, "samples": [], "as_of": NOW - 1});
        let uri = format!("/api/counters?name={}&precision=1", known.replace(' ', "+"));
        assert_eq!(json(&router, &uri).await, none);
    }
    for unknown in ["no", "hits:GET+/nowhere", "no:hits", "%5Chits"] {
        error(&router, &format!("/api/counters?name={unknown}"), 404).await;
    }
    let all = json(&router, "/api/counters").await;
    let rows = all["counters"].as_array().expect("rows");
    let names = rows.iter().map(|row| row["name"].as_str().expect("a name"));
    let expected = ["declared", "logins", "odd\"\\\n}", "sales"];
    assert_eq!(names.collect::<Vec<_>>(), expected);
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
        let answered = runtime.block_on(async { get(&fixture().router, &uri).await });
        prop_assert!([200, 400, 404].contains(&answered.status.as_u16()), "{}: {}", uri, answered.status);
        answered.json();
    }
}
