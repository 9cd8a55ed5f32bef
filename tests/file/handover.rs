//! A deploy: the new process starts while the old one still holds the file.

use std::time::Duration;

use crate::file::service::{PAGE, Site};
use crate::rig::wait::until;

#[tokio::test]
async fn twenty_processes_take_over_the_file_in_turn_and_count_each_request_once() {
    let site = Site::new();
    let mut old = site.start();
    let mut served = 10;
    old.serve(PAGE, served);
    old.settle().await;
    for round in 0..20 {
        let new = site.start();
        for _ in 0..3 {
            old.serve(PAGE, 5);
            new.serve(PAGE, 7);
            served += 12;
            old.pulse.flush().await.unwrap();
            let error = new.pulse.flush().await.unwrap_err().to_string();
            assert!(error.contains("is open in this process already"), "{error}");
            site.manual_clock.advance(Duration::from_secs(1));
        }
        assert!(new.pulse.health().recording.pending_series > 0);
        old.shutdown().await;
        until("the file is taken over", async || {
            site.manual_clock.advance(Duration::from_secs(1));
            new.pulse.flush().await.is_ok()
        })
        .await;
        let counted = new.served(&[PAGE.to_owned()]).await;
        assert_eq!(counted, [served; 3], "round {round}");
        old = new;
    }
    old.shutdown().await;
}

#[tokio::test]
async fn a_process_that_waits_for_the_file_warns_after_a_minute() {
    let site = Site::new();
    let old = site.start();
    old.until_open().await;
    let new = site.start();
    new.serve(PAGE, 7);
    until("the warning", async || {
        site.manual_clock.advance(Duration::from_secs(5));
        let _ = new.pulse.flush().await;
        new.warnings().contains("for more than a minute")
    })
    .await;
    let warnings = new.warnings();
    assert!(warnings.contains("pulse.redb"), "{warnings}");
    old.serve(PAGE, 3);
    old.settle().await;
    assert_eq!(old.sum("served").await, 3);
}
