//! A file that is removed, renamed, replaced or overwritten while the service runs: recorded data that can still be
//! read is not lost, another file is never overwritten, and health says where the store is.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tower_pulse_core::store::{Store, Upkeep};
use tower_pulse_file::FileIo;
use tower_pulse_file::FileOptions;

use crate::file::power::Power;
use crate::file::service::{PAGE, Place, Service, until_released};
use crate::rig::wait::until;

const MOVED: &str = "All recorded data is now in a new file";
const BESIDE: &str = "pulse.redb is left as it is, and the next start reads it";
const OVERWRITTEN: &str = "pulse.redb was overwritten while the service ran";

/// Lets 10 s pass, and waits until the service's warnings contain a text. Returns the warnings.
async fn until_warned(place: &Place, service: &Service, text: &str) -> String {
    place.manual_clock.advance(Duration::from_secs(10));
    // The call wakes the store.
    let _ = service.store.status(place.clock.now_seconds()).await;
    until(text, async || service.warnings().contains(text)).await;
    let warnings = service.warnings();
    // Health has the store's warnings.
    assert!(service.pulse.health().warnings.contains(&warnings));
    warnings
}

async fn serve(service: &Service, requests: u64) {
    service.serve(PAGE, requests);
    service.settle().await;
}

/// Ends a service. Returns the requests that the next service finds in the file at `path`.
async fn next_served(place: &Place, service: Service, path: &Path) -> [u64; 3] {
    service.shutdown().await;
    served_at(place, path).await
}

/// The requests that a new service finds in the file at `path`.
async fn served_at(place: &Place, path: &Path) -> [u64; 3] {
    until_released(path).await;
    let options = FileOptions::new(path).unwrap().clock(place.clock.clone());
    let service = Service::new(options, &place.clock, |builder| builder);
    service.until_open().await;
    let served = service.served(&[PAGE.to_owned()]).await;
    assert_eq!(service.warnings(), "");
    service.shutdown().await;
    until_released(path).await;
    served
}

/// A directory ([`Place`]) with a service that has recorded 15 requests, of which ten are durable.
async fn running() -> (Place, Service) {
    let place = Place::new();
    let service = place.start();
    serve(&service, 10).await;
    service.store.sync().await.unwrap();
    serve(&service, 5).await;
    (place, service)
}

/// A directory with a copy of its file that has three requests, and a service that has recorded 15 more.
async fn with_backup() -> (Place, Service, PathBuf) {
    let place = Place::new();
    let service = place.start();
    serve(&service, 3).await;
    service.shutdown().await;
    place.until_released().await;
    let backup = place.dir.path().join("backup");
    std::fs::copy(place.path(), &backup).unwrap();
    let service = place.start();
    serve(&service, 15).await;
    service.store.sync().await.unwrap();
    (place, service, backup)
}

/// The file that a store has written beside its path.
fn beside(place: &Place) -> PathBuf {
    let files = place.files();
    let mut beside = files.iter().filter(|name| name.contains(".beside-"));
    let name = beside.next().unwrap();
    assert!(beside.next().is_none(), "{files:?}");
    place.dir.path().join(name)
}

#[tokio::test]
async fn the_store_creates_a_removed_file_again_with_all_its_data() {
    let (place, service) = running().await;
    std::fs::remove_file(place.path()).unwrap();
    // The store notices the removal although nothing calls it.
    place.manual_clock.advance(Duration::from_secs(10));
    until("the file is there", async || place.path().exists()).await;
    let warnings = until_warned(&place, &service, MOVED).await;
    assert!(warnings.contains("pulse.redb was removed"), "{warnings}");
    let mode = std::fs::metadata(place.path()).unwrap().mode();
    assert_eq!(mode & 0o777, 0o600);
    serve(&service, 7).await;
    assert_eq!(place.files(), ["pulse.redb"]);
    assert_eq!(next_served(&place, service, &place.path()).await, [22; 3]);
}

#[tokio::test]
async fn a_renamed_file_stays_complete_and_the_store_continues_at_its_path() {
    let (place, service) = running().await;
    let moved = place.dir.path().join("moved.redb");
    std::fs::rename(place.path(), &moved).unwrap();
    until_warned(&place, &service, MOVED).await;
    assert_eq!(served_at(&place, &moved).await, [15; 3]);
    serve(&service, 7).await;
    assert_eq!(place.files(), ["moved.redb", "pulse.redb"]);
    assert_eq!(next_served(&place, service, &place.path()).await, [22; 3]);
}

#[tokio::test]
async fn a_file_that_is_removed_again_and_again_under_flushes_counts_each_request_once() {
    let (place, service) = running().await;
    let mut served = 15;
    for round in 0..40 {
        service.serve(PAGE, round);
        served += round;
        let flush = service.pulse.flush();
        if round % 3 == 0 {
            let _ = std::fs::remove_file(place.path());
        }
        place.manual_clock.advance(Duration::from_secs(2));
        flush.await.unwrap();
    }
    assert_eq!(
        next_served(&place, service, &place.path()).await,
        [served; 3]
    );
    assert_eq!(place.files(), ["pulse.redb"]);
}

#[tokio::test]
async fn a_shutdown_right_after_the_removal_loses_nothing() {
    let (place, service) = running().await;
    std::fs::remove_file(place.path()).unwrap();
    assert_eq!(next_served(&place, service, &place.path()).await, [15; 3]);
    let service = place.start();
    serve(&service, 1).await;
    std::fs::remove_file(place.path()).unwrap();
    drop(service);
    until("the file is there", async || place.path().exists()).await;
    assert_eq!(served_at(&place, &place.path()).await, [16; 3]);
}

#[tokio::test]
async fn the_store_does_not_change_another_file_at_its_path() {
    let (place, service, backup) = with_backup().await;
    let content = std::fs::read(&backup).unwrap();
    std::fs::rename(&backup, place.path()).unwrap();
    let warnings = until_warned(&place, &service, BESIDE).await;
    let beside = beside(&place);
    assert!(warnings.contains(beside.to_str().unwrap()), "{warnings}");
    serve(&service, 7).await;
    until_warned(&place, &service, BESIDE).await;
    assert_eq!(service.store.warnings().len(), 1);
    assert_eq!(place.files().len(), 2);
    service.shutdown().await;
    until_released(&beside).await;
    assert_eq!(std::fs::read(place.path()).unwrap(), content);
    assert_eq!(served_at(&place, &place.path()).await, [3; 3]);
    // Do what the warning in health advises.
    std::fs::rename(&beside, place.path()).unwrap();
    assert_eq!(served_at(&place, &place.path()).await, [25; 3]);
}

/// Waits until the store is at its path again, and no warning says that its file is beside the path.
async fn until_back(place: &Place, service: &Service) {
    until("the store is at its path", async || {
        service.until_open().await;
        place.files() == ["backup", "pulse.redb"] && !service.warnings().contains(BESIDE)
    })
    .await;
}

#[tokio::test]
async fn a_file_beside_the_path_is_kept_and_returns_to_the_path_when_it_is_free() {
    let (place, service, backup) = with_backup().await;
    let content = std::fs::read(&backup).unwrap();
    std::fs::copy(&backup, place.dir.path().join("new")).unwrap();
    std::fs::rename(place.dir.path().join("new"), place.path()).unwrap();
    until_warned(&place, &service, BESIDE).await;
    let first = beside(&place);
    std::fs::remove_file(&first).unwrap();
    place.manual_clock.advance(Duration::from_secs(10));
    until("there is another file", async || {
        service.until_open().await;
        place.files().iter().any(|name| name.contains(".beside-"))
    })
    .await;
    assert_ne!(beside(&place), first);
    assert_eq!(std::fs::read(place.path()).unwrap(), content);
    // The store returns to its path when the other file is removed, and when its own file is renamed to the path.
    std::fs::remove_file(place.path()).unwrap();
    place.manual_clock.advance(Duration::from_secs(10));
    until_back(&place, &service).await;
    assert!(service.warnings().contains(MOVED), "{}", service.warnings());
    serve(&service, 7).await;
    std::fs::copy(&backup, place.dir.path().join("new")).unwrap();
    std::fs::rename(place.dir.path().join("new"), place.path()).unwrap();
    until_warned(&place, &service, BESIDE).await;
    std::fs::rename(beside(&place), place.path()).unwrap();
    place.manual_clock.advance(Duration::from_secs(10));
    until_back(&place, &service).await;
    serve(&service, 7).await;
    assert_eq!(next_served(&place, service, &place.path()).await, [32; 3]);
}

/// `cp backup pulse.redb` and `> pulse.redb` keep the file and change its content.
#[tokio::test]
async fn the_store_does_not_overwrite_content_that_another_program_has_written() {
    for (is_empty, has_recorded) in [(false, false), (false, true), (true, false)] {
        let (place, service, backup) = with_backup().await;
        if is_empty {
            std::fs::write(&backup, "").unwrap();
        }
        std::fs::copy(&backup, place.path()).unwrap();
        if has_recorded {
            serve(&service, 2).await;
            let _ = service.store.sync().await;
        }
        let warnings = until_warned(&place, &service, OVERWRITTEN).await;
        serve(&service, 7).await;
        let beside = beside(&place);
        assert!(warnings.contains(beside.to_str().unwrap()), "{warnings}");
        assert_eq!(service.store.warnings().len(), 1);
        service.shutdown().await;
        until_released(&beside).await;
        let content = std::fs::read(&backup).unwrap();
        assert!(std::fs::read(place.path()).unwrap() == content);
        if !is_empty {
            assert_eq!(served_at(&place, &place.path()).await, [3; 3]);
        }
        assert!(served_at(&place, &beside).await[0] >= 7);
    }
}

#[tokio::test]
async fn the_store_waits_for_a_directory_that_was_removed_with_the_file() {
    for is_away in [false, true] {
        let place = Place::new();
        let (dir, away) = (place.dir.path().join("data"), place.dir.path().join("away"));
        let path = dir.join("pulse.redb");
        std::fs::create_dir(&dir).unwrap();
        let options = FileOptions::new(&path).unwrap().clock(place.clock.clone());
        let service = Service::new(options, &place.clock, |builder| builder);
        serve(&service, 15).await;
        std::fs::rename(&dir, &away).unwrap();
        until_warned(&place, &service, "its directory does not exist: create it").await;
        assert_eq!(service.store.warnings().len(), 1);
        serve(&service, 7).await;
        let error = service.store.sync().await.unwrap_err().to_string();
        assert!(error.contains("ends with this process"), "{error}");
        // The directory comes back with or without its file.
        match is_away {
            true => std::fs::rename(&away, &dir).unwrap(),
            false => std::fs::create_dir(&dir).unwrap(),
        }
        place.manual_clock.advance(Duration::from_secs(20));
        if is_away {
            until("the warning ends", async || {
                service.until_open().await;
                service.warnings().is_empty()
            })
            .await;
        } else {
            until_warned(&place, &service, MOVED).await;
        }
        serve(&service, 1).await;
        assert_eq!(next_served(&place, service, &path).await, [23; 3]);
    }
}

/// A disk that is full while the flag is set: a write to a file with a name writes only half of the bytes, and fails.
#[derive(Debug, Default)]
struct NoRoom(AtomicBool);

impl FileIo for NoRoom {
    fn write(&self, file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let is_named = file.metadata()?.nlink() > 0;
        if is_named && self.0.load(Ordering::SeqCst) {
            file.write_all_at(&bytes[..bytes.len() / 2], offset)?;
            return Err(io::ErrorKind::StorageFull.into());
        }
        file.write_all_at(bytes, offset)
    }
}

#[tokio::test]
async fn a_copy_without_room_leaves_no_file_and_is_tried_again() {
    let place = Place::new();
    let disk = Arc::new(NoRoom::default());
    let service = place.start_on(disk.clone());
    serve(&service, 15).await;
    std::fs::remove_file(place.path()).unwrap();
    disk.0.store(true, Ordering::SeqCst);
    let full = "the new file cannot be written: the disk is full";
    until_warned(&place, &service, full).await;
    for _ in 0..5 {
        serve(&service, 2).await;
        place.manual_clock.advance(Duration::from_secs(20));
    }
    assert_eq!(place.files(), [""; 0]);
    assert_eq!(service.store.warnings().len(), 1);
    disk.0.store(false, Ordering::SeqCst);
    place.manual_clock.advance(Duration::from_secs(20));
    until_warned(&place, &service, MOVED).await;
    serve(&service, 1).await;
    assert_eq!(next_served(&place, service, &place.path()).await, [26; 3]);
    assert_eq!(place.files(), ["pulse.redb"]);
}

/// After a failure, the store opens its file again, although its path has another file or no file.
#[tokio::test]
async fn after_a_failure_the_store_opens_no_other_file() {
    for is_replaced in [false, true] {
        let place = Place::new();
        let power = Arc::new(Power::new(io::ErrorKind::Other));
        let service = place.start_on(power.clone());
        serve(&service, 10).await;
        service.store.sync().await.unwrap();
        serve(&service, 5).await;
        std::fs::remove_file(place.path()).unwrap();
        if is_replaced {
            std::fs::write(place.path(), "").unwrap();
        }
        power.fail_syncs(1);
        let _ = service.store.sync().await;
        until("the file is written again", async || {
            place.manual_clock.advance(Duration::from_secs(20));
            service.pulse.flush().await.is_ok()
        })
        .await;
        serve(&service, 7).await;
        assert_eq!(service.served(&[PAGE.to_owned()]).await, [22; 3]);
        let path = match is_replaced {
            true => beside(&place),
            false => place.path(),
        };
        assert_eq!(next_served(&place, service, &path).await, [22; 3]);
        if is_replaced {
            assert_eq!(std::fs::read(place.path()).unwrap(), b"");
        }
    }
}

#[tokio::test]
async fn a_link_to_the_file_stays_a_link() {
    let place = Place::new();
    let (data, link) = (place.dir.path().join("data"), place.path());
    std::fs::create_dir(&data).unwrap();
    std::os::unix::fs::symlink("data/real.redb", &link).unwrap();
    let service = place.start();
    serve(&service, 15).await;
    std::fs::remove_file(data.join("real.redb")).unwrap();
    until_warned(&place, &service, MOVED).await;
    serve(&service, 7).await;
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    let real = data.join("real.redb");
    assert_eq!(next_served(&place, service, &real).await, [22; 3]);
    // If the link itself is removed, the store creates a file at the path of the link.
    let service = place.start();
    service.until_open().await;
    std::fs::remove_file(&link).unwrap();
    until_warned(&place, &service, MOVED).await;
    assert_eq!(next_served(&place, service, &link).await, [22; 3]);
}

#[tokio::test]
async fn the_store_does_not_change_a_directory_at_its_path() {
    let (place, service) = running().await;
    std::fs::remove_file(place.path()).unwrap();
    std::fs::create_dir(place.path()).unwrap();
    until_warned(&place, &service, BESIDE).await;
    serve(&service, 7).await;
    assert_eq!(next_served(&place, service, &beside(&place)).await, [22; 3]);
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn the_store_does_not_change_a_file_that_the_next_process_has_created() {
    let (place, old) = running().await;
    std::fs::remove_file(place.path()).unwrap();
    let new = place.start();
    serve(&new, 4).await;
    until_warned(&place, &old, BESIDE).await;
    serve(&old, 7).await;
    serve(&new, 1).await;
    assert_eq!(next_served(&place, old, &beside(&place)).await, [22; 3]);
    assert_eq!(next_served(&place, new, &place.path()).await, [5; 3]);
}
