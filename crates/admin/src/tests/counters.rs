//! `api/counters` and `api/series` over a canned store.

use serde_json::json;

use super::api::keys;
use super::*;

#[tokio::test]
async fn counters_and_series() {
    let bench = bench();
    let get = async |uri: &str| json(&bench.router, uri).await;
    let sales = json!({"name": "sales", "precision": 5, "samples": [[500, -7], [1_000, i64::MAX]], "as_of": NOW - 1});
    assert_eq!(get("/api/counters?name=sales&precision=5").await, sales);
    // Counters of this process, and of contexts, are known before they have counted.
    for known in ["declared", "errors:db:find", "errors:GET /past", "micros"] {
        let none = json!({"name": known, "precision": 1, "samples": [], "as_of": NOW - 1});
        let uri = format!("/api/counters?name={}&precision=1", known.replace(' ', "+"));
        assert_eq!(get(&uri).await, none);
    }
    for unknown in ["no", "hits:GET+/nowhere", "no:hits", "\\hits"] {
        let uri = format!("/api/counters?name={}", unknown.replace('\\', "%5C"));
        let answered = super::get(&bench.router, &uri).await;
        assert_eq!(answered.status, 404, "{unknown}");
        assert!(answered.json()["error"].is_string());
    }
}

#[tokio::test]
async fn counters_are_listed_by_name() {
    let bench = bench();
    let get = async |query: &str| json(&bench.router, &format!("/api/counters{query}")).await;
    let names = |answer: &Value| {
        let rows = answer["counters"].as_array().expect("rows").iter();
        let names = rows.map(|row| row["name"].as_str().expect("a name").to_owned());
        names.collect::<Vec<_>>()
    };
    let all = get("").await;
    let keys_of_list = ["as_of", "counters", "from", "precision", "to", "total"];
    assert_eq!(keys(&all), keys_of_list);
    // NOW is 10 s into a minute.
    assert_eq!(
        (&all["precision"], &all["from"], &all["to"]),
        (&json!(60), &json!(NOW - 70), &json!(NOW + 50))
    );
    assert_eq!(names(&all), ["declared", "logins", "odd\"\\\n}", "sales"]);
    let none =
        json!({"name": "declared", "last": 0, "last_start": NOW - 70, "rate": 0.0, "sum": 0});
    assert_eq!(all["counters"][0], none);
    let logins =
        json!({"name": "logins", "last": 2, "last_start": NOW - 70, "rate": 0.1, "sum": 16});
    assert_eq!(all["counters"][1], logins);
    assert_eq!(
        all["counters"][3]["sum"], 0,
        "its slices are not kept any more"
    );
    let page = get("?limit=1&offset=1&precision=5").await;
    assert_eq!(
        (names(&page), &page["total"]),
        (vec!["logins".to_owned()], &json!(4))
    );
    assert_eq!(page["precision"], 5);
    let wanted = get("?q=l").await;
    assert_eq!((names(&wanted).len(), &wanted["total"]), (3, &json!(3)));
    assert_eq!(names(&get("?offset=1000000000").await), [""; 0]);
    let page = get("?limit=0").await;
    assert_eq!((names(&page).len(), &page["total"]), (0, &json!(4)));
}
