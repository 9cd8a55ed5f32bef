//! The size of each answer is bounded, even with much data and with parameters at their extremes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::StatusCode;
use tower_pulse::admin::Access;
use tower_pulse::{Builder, Clock, Pulse};

use crate::admin::client_of;
use crate::rig::http::Client;

const NOW: i64 = 1_700_000_000;
const MAX_ANSWER_BYTES: usize = 4 << 20;
const MAX_SCREEN_BYTES: usize = 8 << 20;

struct Served {
    client: Client,
    pulse: Pulse,
}

async fn served(builder: Builder, contexts: usize, counters: usize, ids: usize) -> Served {
    let (clock, manual_clock) = Clock::manual(NOW);
    let (pulse, _tasks) = builder.clock(clock).build_with_tasks().unwrap();
    for number in 0..contexts {
        let context = format!("GET /api/v1/things-{number}/{{id}}");
        pulse.record(&context, Duration::from_millis(3), StatusCode::OK);
    }
    for number in 0..counters {
        pulse.counter(&format!("sales of {number}")).add(1);
    }
    if ids > 0 {
        let ranking = pulse.ranking("posts").max_ids(ids).build().unwrap();
        for number in 0..ids {
            ranking.add(&format!("post {number}"), 1 + number as i64);
        }
    }
    pulse.flush().await.unwrap();
    manual_clock.advance(Duration::from_secs(2));
    Served {
        client: client_of(&pulse, Access::open()).await,
        pulse,
    }
}

fn screen(asks: &[String]) -> String {
    let encoded =
        |ask: &str| -> String { ask.bytes().map(|byte| format!("%{byte:02X}")).collect() };
    let asks: Vec<_> = (asks.iter())
        .map(|ask| format!("ask={}", encoded(ask)))
        .collect();
    format!("/pulse/api/screen?{}", asks.join("&"))
}

const SPANS: [&str; 12] = [
    "from=0",
    "from=0&to=1",
    "from=0&to=253402300799",
    "from=0&to=18446744073709551615",
    "from=18446744073709551615",
    "from=-1",
    "from=1699999999&to=253402300799",
    "from=1699992200&to=1700000000",
    "from=1699827200",
    "from=1698704000",
    "window=7d",
    "window=hour",
];

const QUESTIONS_ABOUT_SPANS: [&str; 9] = [
    "overview?",
    "paths?series=hits&limit=100&",
    "paths?series=p95&kind=all&limit=100&offset=1&",
    "paths?limit=1000&sort=context&order=asc&",
    "path?context=GET+/api/v1/things-7/%7Bid%7D&",
    "errors?limit=1000&",
    "instances?limit=1000&",
    "counters?series=true&limit=100&",
    "counters?series=true&precision=1&limit=100&",
];

const OTHER_QUESTIONS: [&str; 18] = [
    "slowest_requests?limit=100&window=6h&per_path=1000",
    "paths?limit=0&offset=1000000000",
    "paths?offset=1000&limit=100&series=mean",
    "changes?limit=1000&offset=1000000000",
    "deploy?limit=1000",
    "deploy?mark=%00",
    "marks",
    "slowest?limit=1000",
    "counters?name=sales+of+7&precision=1",
    "counters?name=hits&precision=86400",
    "counters?limit=1000&offset=9000",
    "counters?limit=1000&q=sales",
    "counters?series=true&limit=100&offset=1000000000",
    "rankings",
    "rankings?name=posts&limit=1000",
    "rankings?name=posts&limit=1000&offset=99500",
    "rankings?name=posts&limit=1000&offset=1000000000",
    "health",
];

const METRICS: &str =
    "hits errors mean p50 p95 p99 total error_share stddev min max outcomes times";

fn questions() -> Vec<String> {
    let mut questions: Vec<String> = OTHER_QUESTIONS.map(str::to_owned).into();
    for span in SPANS {
        questions.extend(QUESTIONS_ABOUT_SPANS.map(|question| format!("{question}{span}")));
        for precision in [1, 60, 86_400] {
            questions.push(format!("series?precision={precision}&{span}"));
        }
    }
    for metric in METRICS.split(' ') {
        questions.push(format!("series?metric={metric}&from=0"));
    }
    questions
}

#[tokio::test]
async fn every_answer_is_bounded() {
    // As many targets as allowed, with the longest names.
    let builder = (0..100).fold(Pulse::builder().max_counters(10_000), |builder, number| {
        let target = Duration::from_micros(1);
        builder.target_for(format!("GET /{number:x<251}"), target, 0.5)
    });
    let mut served = served(builder, 2_000, 10_000, 100_000).await;
    served.pulse.mark("new index").await.unwrap();
    let client = &mut served.client;
    for ask in questions() {
        let answer = client.get(&format!("/pulse/api/{ask}")).await;
        let (bytes, status) = (answer.body.len(), answer.status);
        assert!(bytes <= MAX_ANSWER_BYTES, "{ask}: {bytes} bytes");
        assert!([200, 400, 404].contains(&status), "{ask}: {status}");
        let has_parameter = status != 400 || answer.json()["parameter"].is_string();
        assert!(has_parameter, "{ask}: {}", answer.text());
    }
    for questions in questions().chunks(16).step_by(3) {
        let answer = client.get(&screen(questions)).await;
        let (bytes, status) = (answer.body.len(), answer.status);
        let is_bounded = bytes <= MAX_SCREEN_BYTES + 1_024;
        assert!(is_bounded, "{questions:?}: {bytes} bytes");
        assert!([200, 400].contains(&status), "{questions:?}: {status}");
    }
    let metrics = client.get("/pulse/metrics").await;
    assert_eq!(metrics.status, 200);
    assert!(
        metrics.body.len() < MAX_ANSWER_BYTES,
        "{}",
        metrics.body.len()
    );
}

#[tokio::test]
async fn other_tasks_run_while_a_large_screen_is_answered() {
    let mut served = served(Pulse::builder(), 500, 0, 0).await;
    let asks: Vec<String> = (0..16)
        .map(|offset| format!("paths?limit=20&offset={offset}"))
        .collect();
    // The runtime has one thread: the task runs whenever the handler of the screen yields.
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = runs.clone();
    let other = tokio::spawn(async move {
        loop {
            counted.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    });
    served.client.get("/pulse/api/paths").await;
    let before = runs.load(Ordering::Relaxed);
    let answer = served.client.get(&screen(&asks)).await;
    let during = runs.load(Ordering::Relaxed) - before;
    other.abort();
    assert_eq!(answer.status, 200);
    assert!(during >= 16, "{during}");
}

/// Asks for the dashboard's largest answers, with 2,000 paths, over the longest span that has slices of a minute.
#[tokio::test]
async fn no_question_of_the_dashboard_is_refused() {
    let mut served = served(Pulse::builder(), 2_000, 1_000, 10_000).await;
    served.pulse.mark("new index").await.unwrap();
    const SPAN: &str = "from=1699992260&to=1700000000";
    const PATH: &str = "context=GET+/api/v1/things-7/%7Bid%7D";
    let screens: [&[&str]; 6] = [
        &[
            "health?part=status",
            "overview?SPAN",
            "changes?limit=50",
            "marks",
            "paths?SPAN&kind=http&sort=total&limit=20",
            "paths?window=7d&limit=1",
            "series?metric=outcomes&SPAN",
            "series?metric=times&SPAN",
        ],
        &["paths?SPAN&kind=http&sort=share&order=desc&limit=100&series=hits"],
        &[
            "path?SPAN&PATH",
            "instances?limit=1000&SPAN&PATH",
            "series?metric=outcomes&SPAN&PATH",
            "series?metric=times&SPAN&PATH",
        ],
        &["counters?series=true&limit=100&window=1h", "rankings"],
        &["slowest_requests?window=6h&per_path=5&limit=100"],
        // The dashboard's question for an export.
        &["paths?SPAN&kind=http&limit=1000&offset=1000"],
    ];
    for asks in screens {
        let asks = asks.iter().map(|ask| ask.replace("SPAN", SPAN));
        let asks: Vec<_> = asks.map(|ask| ask.replace("PATH", PATH)).collect();
        let answer = served.client.json(&screen(&asks)).await;
        for (ask, answer) in asks.iter().zip(answer["answers"].as_array().unwrap()) {
            assert_eq!(answer["status"], 200, "{ask}: {}", answer["body"]);
        }
    }
}
