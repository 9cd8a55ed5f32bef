//! A page that grows with its data and becomes slower by a deploy, in a service of one process.

use pulse_browser::page::Page;
use pulse_browser::rig::http::Client;
use pulse_browser::service::{DEPLOYED, GROWING, Service};
use serde_json::Value;

const CONTEXT: &str = "GET /statusbar/today/{millis}";
const SCREEN: &str = "/admin/pulse/#path?context=GET%20%2Fstatusbar%2Ftoday%2F%7Bmillis%7D";

#[tokio::test]
async fn a_deploy_on_top_of_growth_is_a_change_of_its_own_with_the_version_as_its_suspect() {
    let (service, begin) = Service::deployed_anew().await;
    let minute = |at: &Value| at.as_i64().map(|at| (at - begin) / 60);
    let mut client = Client::connect(service.address()).await;
    let answer = client.json("/admin/pulse/api/changes").await;
    let changes = answer["changes"].as_array().expect("a list");
    let [deployed, grown] = &changes[..] else {
        panic!("{answer:#}");
    };
    for change in changes {
        assert_eq!(
            (&change["kind"], &change["context"]),
            (&"slower".into(), &CONTEXT.into())
        );
    }
    // The growth is told before the deploy, and ends in it.
    let since = minute(&grown["since"]).expect("its start");
    assert!((GROWING..GROWING + 6).contains(&since), "{grown:#}");
    assert!(minute(&grown["detected"]) < Some(DEPLOYED), "{grown:#}");
    assert!(
        minute(&grown["ended"]).is_some_and(|ended| ended <= DEPLOYED + 4),
        "{grown:#}"
    );
    // The deploy is compared with the minutes before it.
    assert_eq!(
        (minute(&deployed["since"]), &deployed["ended"]),
        (Some(DEPLOYED), &Value::Null)
    );
    assert!(
        deployed["then"].as_f64().is_some_and(|then| then > 0.009),
        "{deployed:#}"
    );
    let suspects = deployed["suspects"].as_array().expect("a list");
    assert!(
        suspects.iter().any(|suspect| suspect["version"] == "1.1"),
        "{deployed:#}"
    );
    assert!(
        suspects.iter().all(|suspect| suspect["kind"] != "instance"),
        "{deployed:#}"
    );
    let instances = client.json("/admin/pulse/api/instances").await;
    let instances = instances["instances"].as_array().expect("a list");
    assert_eq!(instances.len(), 2, "{instances:#?}");
    for instance in instances {
        assert_eq!(
            (&instance["ratio"], &instance["stands_out"]),
            (&Value::Null, &false.into())
        );
    }

    let page = Page::open(&service.url(SCREEN)).await;
    page.until(
        "the deploy is told",
        "document.body.innerText.includes('version 1.1 at')",
    )
    .await;
    let text = page.text("body").await;
    assert!(!text.contains("Suspect: instance"), "{text}");
    page.end().await;
}
