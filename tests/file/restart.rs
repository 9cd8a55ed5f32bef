//! A restart: the next process continues with the file of the last one.

use std::time::Duration;

use http::StatusCode;
use tower_pulse::query::MarksQuery;
use tower_pulse_core::query::dashboard::ProfileQuery;
use tower_pulse_core::store::Upkeep;

use crate::file::service::{NOW, PAGE, Service, Site};

#[tokio::test]
async fn the_next_process_has_all_data_of_the_last_process() {
    let site = Site::new();
    let pages = [PAGE.to_owned(), "GET /slow".to_owned()];
    let marks: [&[&str]; 3] = [&["1.0"], &["1.0"], &["1.1", "1.0"]];
    for (round, marked) in (1..).zip(marks) {
        let version = marked[0];
        let start = || Service::new(site.options(), &site.clock, |b| b.app_version(version));
        let service = start();
        service.serve(PAGE, 100);
        let slow = Duration::from_secs(2);
        let failed = StatusCode::INTERNAL_SERVER_ERROR;
        service.pulse.record("GET /slow", slow, failed);
        service.pulse.counter("served").add(1);
        let posts = service.pulse.ranking("posts").build().unwrap();
        posts.add("first", 2);
        drop(posts);
        service.pulse.simulation().heartbeat().await.unwrap();
        service.shutdown().await;
        site.until_released().await;
        let service = start();
        service.until_open().await;
        assert_eq!(service.served(&pages).await, [101 * round; 3]);
        let posts = service.pulse.ranking("posts").build().unwrap();
        assert_eq!(posts.top(0, 1).await.unwrap()[0].score, 2 * round as i64);
        drop(posts);
        service.pulse.simulation().heartbeat().await.unwrap();
        service.settle().await;
        let marks = service.pulse.query().ask(&MarksQuery::default()).await;
        let marks = marks.unwrap().value.marks;
        let versions = marks.iter().filter_map(|mark| mark.version.as_deref());
        assert!(versions.eq(marked.iter().copied()), "{marks:?}");
        site.manual_clock.advance(Duration::from_secs(3_600));
        service.shutdown().await;
        site.until_released().await;
    }
    assert_eq!(site.files(), ["pulse.redb"]);
    assert!(site.clock.now_seconds() > NOW);
}

#[tokio::test]
async fn the_time_between_two_processes_is_not_recorded() {
    let site = Site::new();
    // Runs a process for four hours. Returns the weight of all hours in the profile.
    let hours = async || {
        let service = site.start();
        service.until_open().await;
        for _ in 0..4 {
            service.serve(PAGE, 10);
            service.settle().await;
            site.manual_clock.advance(Duration::from_secs(3_600));
        }
        service.serve(PAGE, 1);
        service.settle().await;
        let profile = service.pulse.query().ask(&ProfileQuery::default()).await;
        service.shutdown().await;
        site.until_released().await;
        let profile = profile.unwrap();
        profile.hours.iter().map(|hour| hour.weight).sum::<f64>()
    };
    let first = hours().await;
    assert!((3.0..=4.0).contains(&first), "{first}");
    let ended = site.clock.now_seconds();
    // A restart within a few seconds leaves no gap.
    for (away, gaps) in [(5, vec![]), (36_000, vec![(ended + 5, ended + 36_005)])] {
        site.manual_clock.advance(Duration::from_secs(away));
        let service = site.start();
        service.until_open().await;
        let status = service.store.status(site.clock.now_seconds());
        assert_eq!(status.await.unwrap().gaps, gaps);
        service.shutdown().await;
        site.until_released().await;
    }
    // The profile lacks the ten hours between the processes.
    let both = hours().await;
    assert!(
        (first + 3.0..=first + 5.0).contains(&both),
        "{first} {both}"
    );
}
