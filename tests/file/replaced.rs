//! A file that is removed, renamed, replaced or overwritten while the service runs. The store keeps the data that can
//! still be read, and overwrites no other file. Health says where the store is.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tower_pulse_core::store::{Store, Upkeep};
use tower_pulse_file::{FileIo, FileOptions};

use crate::file::power::FailingDisk;
use crate::file::service::{PAGE, Service, Site, until_released};
use crate::rig::wait::until;

const MOVED: &str = "All recorded data is now in a new file";
const BESIDE: &str = "pulse.redb is left as it is, and the next start reads it";
const OVERWRITTEN: &str = "pulse.redb was overwritten while the service ran";

/// Lets 10 s pass, and waits until the service's warnings contain a text. Returns the warnings.
async fn until_warned(site: &Site, service: &Service, text: &str) -> String {
    site.manual_clock.advance(Duration::from_secs(10));
    // The call wakes the store.
    let _ = service.store.status(site.clock.now_seconds()).await;
    until(text, async || service.warnings().contains(text)).await;
    let warnings = service.warnings();
    assert!(service.pulse.health().warnings.contains(&warnings));
    warnings
}

async fn serve(service: &Service, requests: u64) {
    service.serve(PAGE, requests);
    service.settle().await;
}

/// Ends a service. Returns the requests that the next service finds in the file at `path`.
async fn next_served(site: &Site, service: Service, path: &Path) -> [u64; 3] {
    service.shutdown().await;
    served_at(site, path).await
}

/// The requests that a new service finds in the file at `path`.
async fn served_at(site: &Site, path: &Path) -> [u64; 3] {
    until_released(path).await;
    let options = FileOptions::new(path).unwrap().clock(site.clock.clone());
    let service = Service::new(options, &site.clock, |builder| builder);
    service.until_open().await;
    let served = service.served(&[PAGE.to_owned()]).await;
    assert_eq!(service.warnings(), "");
    service.shutdown().await;
    until_released(path).await;
    served
}

/// A service that has recorded 15 requests, ten of them durable.
async fn running() -> (Site, Service) {
    let site = Site::new();
    let service = site.start();
    serve(&service, 10).await;
    service.store.sync().await.unwrap();
    serve(&service, 5).await;
    (site, service)
}

/// A service that has recorded 18 requests, and a copy of its file with the first three.
async fn with_backup() -> (Site, Service, PathBuf) {
    let site = Site::new();
    let service = site.start();
    serve(&service, 3).await;
    service.shutdown().await;
    site.until_released().await;
    let backup = site.dir.path().join("backup");
    std::fs::copy(site.path(), &backup).unwrap();
    let service = site.start();
    serve(&service, 15).await;
    service.store.sync().await.unwrap();
    (site, service, backup)
}

/// The file that a store has written beside its path.
fn beside(site: &Site) -> PathBuf {
    let files = site.files();
    let mut beside = files.iter().filter(|name| name.contains(".beside-"));
    let name = beside.next().unwrap();
    assert!(beside.next().is_none(), "{files:?}");
    site.dir.path().join(name)
}

#[tokio::test]
async fn the_store_creates_a_removed_or_renamed_file_again_with_all_its_data() {
    for is_renamed in [false, true] {
        let (site, service) = running().await;
        let moved = site.dir.path().join("moved.redb");
        match is_renamed {
            true => std::fs::rename(site.path(), &moved).unwrap(),
            false => std::fs::remove_file(site.path()).unwrap(),
        }
        // The store notices this without a call.
        site.manual_clock.advance(Duration::from_secs(10));
        until("the file is there", async || site.path().exists()).await;
        let warnings = until_warned(&site, &service, MOVED).await;
        assert!(warnings.contains("pulse.redb was removed"), "{warnings}");
        let mode = std::fs::metadata(site.path()).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
        if is_renamed {
            assert_eq!(served_at(&site, &moved).await, [15; 3]);
            std::fs::remove_file(&moved).unwrap();
        }
        serve(&service, 7).await;
        assert_eq!(site.files(), ["pulse.redb"]);
        assert_eq!(next_served(&site, service, &site.path()).await, [22; 3]);
    }
}

#[tokio::test]
async fn a_file_that_is_removed_again_and_again_under_flushes_counts_each_request_once() {
    let (site, service) = running().await;
    let mut served = 15;
    for round in 0..40 {
        service.serve(PAGE, round);
        served += round;
        let flush = service.pulse.flush();
        if round % 3 == 0 {
            let _ = std::fs::remove_file(site.path());
        }
        site.manual_clock.advance(Duration::from_secs(2));
        flush.await.unwrap();
    }
    let found = next_served(&site, service, &site.path()).await;
    assert_eq!(found, [served; 3]);
    assert_eq!(site.files(), ["pulse.redb"]);
}

#[tokio::test]
async fn a_shutdown_right_after_the_removal_loses_nothing() {
    let (site, service) = running().await;
    std::fs::remove_file(site.path()).unwrap();
    assert_eq!(next_served(&site, service, &site.path()).await, [15; 3]);
    let service = site.start();
    serve(&service, 1).await;
    std::fs::remove_file(site.path()).unwrap();
    drop(service);
    until("the file is there", async || site.path().exists()).await;
    assert_eq!(served_at(&site, &site.path()).await, [16; 3]);
}

#[tokio::test]
async fn the_store_does_not_change_another_file_at_its_path() {
    let (site, service, backup) = with_backup().await;
    let content = std::fs::read(&backup).unwrap();
    std::fs::rename(&backup, site.path()).unwrap();
    let warnings = until_warned(&site, &service, BESIDE).await;
    let beside = beside(&site);
    assert!(warnings.contains(beside.to_str().unwrap()), "{warnings}");
    serve(&service, 7).await;
    until_warned(&site, &service, BESIDE).await;
    assert_eq!(service.store.warnings().len(), 1);
    assert_eq!(site.files().len(), 2);
    service.shutdown().await;
    until_released(&beside).await;
    assert_eq!(std::fs::read(site.path()).unwrap(), content);
    assert_eq!(served_at(&site, &site.path()).await, [3; 3]);
    // Health advises this rename.
    std::fs::rename(&beside, site.path()).unwrap();
    assert_eq!(served_at(&site, &site.path()).await, [25; 3]);
}

/// Waits until the store is at its path again, and no warning says that its file is beside the path.
async fn until_back(site: &Site, service: &Service) {
    until("the store is at its path", async || {
        service.until_open().await;
        site.files() == ["backup", "pulse.redb"] && !service.warnings().contains(BESIDE)
    })
    .await;
}

#[tokio::test]
async fn a_file_beside_the_path_is_kept_and_returns_once_the_path_is_free() {
    let (site, service, backup) = with_backup().await;
    let content = std::fs::read(&backup).unwrap();
    let put_other_file = || {
        let new = site.dir.path().join("new");
        std::fs::copy(&backup, &new).unwrap();
        std::fs::rename(new, site.path()).unwrap();
    };
    put_other_file();
    until_warned(&site, &service, BESIDE).await;
    let first = beside(&site);
    std::fs::remove_file(&first).unwrap();
    site.manual_clock.advance(Duration::from_secs(10));
    until("there is another file", async || {
        service.until_open().await;
        site.files().iter().any(|name| name.contains(".beside-"))
    })
    .await;
    assert_ne!(beside(&site), first);
    assert_eq!(std::fs::read(site.path()).unwrap(), content);
    // The store returns to its path when the other file is removed, and when its own file is renamed to the path.
    std::fs::remove_file(site.path()).unwrap();
    site.manual_clock.advance(Duration::from_secs(10));
    until_back(&site, &service).await;
    assert!(service.warnings().contains(MOVED), "{}", service.warnings());
    serve(&service, 7).await;
    put_other_file();
    until_warned(&site, &service, BESIDE).await;
    std::fs::rename(beside(&site), site.path()).unwrap();
    site.manual_clock.advance(Duration::from_secs(10));
    until_back(&site, &service).await;
    serve(&service, 7).await;
    assert_eq!(next_served(&site, service, &site.path()).await, [32; 3]);
}

/// `cp backup pulse.redb` and `> pulse.redb` keep the file and change its content.
#[tokio::test]
async fn the_store_does_not_overwrite_content_that_another_program_has_written() {
    for (is_empty, has_recorded) in [(false, false), (false, true), (true, false)] {
        let (site, service, backup) = with_backup().await;
        if is_empty {
            std::fs::write(&backup, "").unwrap();
        }
        std::fs::copy(&backup, site.path()).unwrap();
        if has_recorded {
            serve(&service, 2).await;
            let _ = service.store.sync().await;
        }
        let warnings = until_warned(&site, &service, OVERWRITTEN).await;
        serve(&service, 7).await;
        let beside = beside(&site);
        assert!(warnings.contains(beside.to_str().unwrap()), "{warnings}");
        assert_eq!(service.store.warnings().len(), 1);
        service.shutdown().await;
        until_released(&beside).await;
        let content = std::fs::read(&backup).unwrap();
        assert!(std::fs::read(site.path()).unwrap() == content);
        if !is_empty {
            assert_eq!(served_at(&site, &site.path()).await, [3; 3]);
        }
        assert!(served_at(&site, &beside).await[0] >= 7);
    }
}

#[tokio::test]
async fn the_store_waits_for_a_directory_that_was_removed_with_the_file() {
    for has_file in [false, true] {
        let site = Site::new();
        let (dir, away) = (site.dir.path().join("data"), site.dir.path().join("away"));
        let path = dir.join("pulse.redb");
        std::fs::create_dir(&dir).unwrap();
        let options = FileOptions::new(&path).unwrap().clock(site.clock.clone());
        let service = Service::new(options, &site.clock, |builder| builder);
        serve(&service, 15).await;
        std::fs::rename(&dir, &away).unwrap();
        until_warned(&site, &service, "its directory does not exist: create it").await;
        assert_eq!(service.store.warnings().len(), 1);
        serve(&service, 7).await;
        let error = service.store.sync().await.unwrap_err().to_string();
        assert!(error.contains("ends with this process"), "{error}");
        // The directory comes back with or without its file.
        match has_file {
            true => std::fs::rename(&away, &dir).unwrap(),
            false => std::fs::create_dir(&dir).unwrap(),
        }
        site.manual_clock.advance(Duration::from_secs(20));
        if has_file {
            until("the warning ends", async || {
                service.until_open().await;
                service.warnings().is_empty()
            })
            .await;
        } else {
            until_warned(&site, &service, MOVED).await;
        }
        serve(&service, 1).await;
        assert_eq!(next_served(&site, service, &path).await, [23; 3]);
    }
}

/// A disk that is full while the flag is set: a write fails after half of its bytes, unless the file was removed.
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
    let site = Site::new();
    let disk = Arc::new(NoRoom::default());
    let service = site.start_on(disk.clone());
    serve(&service, 15).await;
    std::fs::remove_file(site.path()).unwrap();
    disk.0.store(true, Ordering::SeqCst);
    let full = "the new file cannot be written: the disk is full";
    until_warned(&site, &service, full).await;
    for _ in 0..5 {
        serve(&service, 2).await;
        site.manual_clock.advance(Duration::from_secs(20));
    }
    assert_eq!(site.files(), [""; 0]);
    assert_eq!(service.store.warnings().len(), 1);
    disk.0.store(false, Ordering::SeqCst);
    site.manual_clock.advance(Duration::from_secs(20));
    until_warned(&site, &service, MOVED).await;
    serve(&service, 1).await;
    assert_eq!(next_served(&site, service, &site.path()).await, [26; 3]);
    assert_eq!(site.files(), ["pulse.redb"]);
}

/// After a failure, the store opens its own file again, although another file or no file is at its path.
#[tokio::test]
async fn after_a_failure_the_store_opens_no_other_file() {
    for is_replaced in [false, true] {
        let site = Site::new();
        let disk = Arc::new(FailingDisk::new(io::ErrorKind::Other));
        let service = site.start_on(disk.clone());
        serve(&service, 10).await;
        service.store.sync().await.unwrap();
        serve(&service, 5).await;
        std::fs::remove_file(site.path()).unwrap();
        if is_replaced {
            std::fs::write(site.path(), "").unwrap();
        }
        disk.fail_syncs(1);
        let _ = service.store.sync().await;
        until("the file is written again", async || {
            site.manual_clock.advance(Duration::from_secs(20));
            service.pulse.flush().await.is_ok()
        })
        .await;
        serve(&service, 7).await;
        assert_eq!(service.served(&[PAGE.to_owned()]).await, [22; 3]);
        let path = match is_replaced {
            true => beside(&site),
            false => site.path(),
        };
        assert_eq!(next_served(&site, service, &path).await, [22; 3]);
        if is_replaced {
            assert_eq!(std::fs::read(site.path()).unwrap(), b"");
        }
    }
}

#[tokio::test]
async fn a_link_to_the_file_stays_a_link() {
    let site = Site::new();
    let (data, link) = (site.dir.path().join("data"), site.path());
    std::fs::create_dir(&data).unwrap();
    std::os::unix::fs::symlink("data/real.redb", &link).unwrap();
    let service = site.start();
    serve(&service, 15).await;
    std::fs::remove_file(data.join("real.redb")).unwrap();
    until_warned(&site, &service, MOVED).await;
    serve(&service, 7).await;
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    let real = data.join("real.redb");
    assert_eq!(next_served(&site, service, &real).await, [22; 3]);
    // If the link itself is removed, the store creates a file at the path of the link.
    let service = site.start();
    service.until_open().await;
    std::fs::remove_file(&link).unwrap();
    until_warned(&site, &service, MOVED).await;
    assert_eq!(next_served(&site, service, &link).await, [22; 3]);
}
