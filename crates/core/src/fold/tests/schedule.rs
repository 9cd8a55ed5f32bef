//! The times at which a folder reads, its waits after errors, and its lease.

use std::time::Duration;

use tokio::time::sleep;

use super::{Behaviour, Call, Folding, HOUR, MS};
use crate::error::StoreErrorKind;
use crate::fold::Leader;

#[test]
fn the_journal_is_read_150_ms_after_each_half_second() {
    for (now, wait) in [(150, 500), (400, 250), (500, 150), (649, 1), (700, 450)] {
        let folding = Folding::new(Behaviour::Fine);
        folding.clock.advance((now - 150) * MS);
        let until_next = folding.folder.until_next(500 * MS);
        assert_eq!(until_next, wait * MS, "at {now} ms");
    }
}

#[tokio::test]
async fn a_folder_gives_up_when_it_loses_the_lease_three_times() {
    let folding = Folding::new(Behaviour::Stolen);
    assert_eq!(folding.fold().await, Leader::Other);
    assert_eq!(folding.journal.count(&Call::Acquire), 3);
    assert!(!folding.folder.status().is_leader);
}

#[tokio::test]
async fn the_lease_is_released_once() {
    let folding = Folding::new(Behaviour::Fine);
    assert!(folding.folder.release().await.is_ok());
    assert_eq!(folding.journal.count(&Call::Release), 0);
    assert_eq!(folding.fold().await, Leader::This);
    for _ in 0..2 {
        folding.folder.release().await.expect("the journal answers");
        assert_eq!(folding.journal.count(&Call::Release), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn the_folder_reads_at_intervals_and_removes_fences_every_hour() {
    let folding = Folding::new(Behaviour::Fine);
    let stop = folding.start();
    // After the notification, the times of the reads are no longer multiples of the interval since the start.
    sleep(333 * MS).await;
    folding.leaderless.notify_one();
    sleep(5 * HOUR / 2).await;
    let journal = &folding.journal;
    assert_eq!(journal.count(&Call::Acquire), 1);
    let gaps = journal.gaps(&Call::Read);
    assert!(gaps.len() >= 2 * 9_000, "{}", gaps.len());
    assert!(gaps[1..].iter().all(|gap| *gap == 500 * MS));
    let removed = journal.times(&Call::RemoveFences);
    assert_eq!(removed.len(), 2);
    assert!(removed[0] - journal.times(&Call::Acquire)[0] >= HOUR);
    assert!(removed[1] - removed[0] >= HOUR);
    let reads = journal.count(&Call::Read);
    stop.stop();
    sleep(HOUR).await;
    assert_eq!(journal.count(&Call::Read), reads);
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_does_not_fold_tries_again_when_entries_wait() {
    let folding = Folding::new(Behaviour::HeldByOther);
    let _stop = folding.start();
    sleep(HOUR).await;
    assert_eq!(folding.journal.count(&Call::Acquire), 1);
    folding.leaderless.notify_one();
    sleep(HOUR).await;
    assert_eq!(folding.journal.count(&Call::Acquire), 2);
    assert_eq!(folding.journal.count(&Call::Read), 0);
    folding.journal.set(Behaviour::Fine);
    folding.leaderless.notify_one();
    sleep(600 * MS).await;
    assert_eq!(folding.journal.count(&Call::Read), 2);
}

#[tokio::test(start_paused = true)]
async fn a_denied_folder_tries_again_every_two_seconds_of_its_clock() {
    let folding = Folding::new(Behaviour::Failing(StoreErrorKind::Forbidden));
    let _stop = folding.start();
    for tries in 1..=4 {
        // Neither real time nor waiting entries shorten the wait.
        for pause in [1_999 * MS, MS] {
            folding.leaderless.notify_one();
            sleep(Duration::from_secs(100)).await;
            assert_eq!(folding.journal.count(&Call::Acquire), tries);
            folding.clock.advance(pause);
        }
    }
    folding.journal.set(Behaviour::Fine);
    folding.clock.advance(2_000 * MS);
    sleep(Duration::from_secs(1)).await;
    assert!(folding.folder.status().is_leader);
}

#[tokio::test(start_paused = true)]
async fn a_folder_waits_longer_after_each_error_up_to_two_seconds() {
    let folding = Folding::new(Behaviour::Failing(StoreErrorKind::Unreachable));
    let _stop = folding.start();
    // Waiting entries do not shorten the wait.
    for _ in 0..200 {
        folding.leaderless.notify_one();
        sleep(500 * MS).await;
    }
    let gaps = folding.journal.gaps(&Call::Acquire);
    assert!(gaps.len() >= 50, "{}", gaps.len());
    for (number, gap) in gaps.into_iter().enumerate() {
        let longest = (200 * MS * 2u32.pow(number.min(8) as u32)).min(2_000 * MS);
        // Timers have a resolution of a millisecond.
        let expected = longest / 2..=longest + MS;
        assert!(expected.contains(&gap), "{gap:?} is the gap {number}");
    }
    assert!(folding.folder.status().last_error.is_some());
    folding.journal.set(Behaviour::Fine);
    sleep(2_001 * MS).await;
    assert_eq!(folding.folder.status().last_error, None);
    assert!(folding.folder.status().is_leader);
}
