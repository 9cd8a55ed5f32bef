//! A file that cannot be used: the service serves, reports the problem, and uses the file as soon as it can.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tower_pulse::{Condition, ManualClock};
use tower_pulse_core::store::{Store, Upkeep};
use tower_pulse_file::{FileIo, FileOptions};

use crate::file::power::FailingDisk;
use crate::file::service::{NOW, PAGE, Service, Site};
use crate::rig::wait::until;

/// Starts a service on a file with content that the service must not change. Returns the error of a flush.
async fn refusal_of(content: &[u8]) -> String {
    let site = Site::new();
    std::fs::write(site.path(), content).unwrap();
    let service = site.start();
    service.serve(PAGE, 3);
    let error = service.pulse.flush().await.unwrap_err().to_string();
    assert!(service.warnings().contains(&error), "{error}");
    let conditions = service.pulse.health().conditions;
    assert!(conditions.contains(&Condition::File), "{conditions:?}");
    drop(service);
    site.until_released().await;
    assert_eq!(std::fs::read(site.path()).unwrap(), content);
    assert_eq!(site.files(), ["pulse.redb"]);
    error
}

#[tokio::test]
async fn a_file_of_another_program_or_of_a_newer_version_is_never_changed() {
    let site = Site::new();
    let other = site.dir.path().join("other.redb");
    drop(redb::Database::create(&other).unwrap());
    let mut newer = b"tower-pulse file".to_vec();
    newer.extend_from_slice(&2u32.to_be_bytes());
    newer.resize(100_000, 5);
    let foreign = "was written by another program";
    for (content, text) in [
        (b"x".to_vec(), foreign),
        (vec![7; 10_000], foreign),
        (std::fs::read(&other).unwrap(), foreign),
        (newer, "newer version of tower-pulse (format 2)"),
    ] {
        let error = refusal_of(&content).await;
        assert!(error.contains(text), "{error}");
    }
}

/// Damages a file with 100 requests, and serves 7 requests in a new service. Returns the new service's warnings, the
/// counted requests, and the names of the files.
async fn damaged(damage: impl FnOnce(&Path)) -> (String, u64, Vec<String>) {
    let site = Site::new();
    let service = site.start();
    service.serve(PAGE, 100);
    service.shutdown().await;
    site.until_released().await;
    damage(&site.path());
    let before = std::fs::read(site.path()).unwrap();
    let service = site.start();
    service.serve(PAGE, 7);
    service.settle().await;
    let (warnings, served) = (service.warnings(), service.sum("served").await);
    service.shutdown().await;
    let files = site.files();
    if let [_, renamed] = &files[..] {
        let renamed = std::fs::read(site.dir.path().join(renamed)).unwrap();
        // The process that opened the file has written its own id into the first page.
        let header = before.len().min(4_096);
        assert_eq!(renamed[header..], before[header..]);
    }
    (warnings, served, files)
}

#[tokio::test]
async fn a_damaged_file_is_renamed() {
    for len in [10_000, 4_096 + 320, 100, usize::MAX] {
        let (warnings, served, files) = damaged(|path| {
            let mut content = std::fs::read(path).unwrap();
            match len {
                // Damages all pages except the first ones, which have the positions of all pages.
                usize::MAX => content[20_000..].iter_mut().for_each(|byte| *byte ^= 0x55),
                _ => content.truncate(len),
            }
            std::fs::write(path, content).unwrap();
        })
        .await;
        assert_eq!((served, files.len()), (7, 2), "{len}: {warnings}");
        assert!(warnings.contains(&files[1]), "{warnings}");
        assert!(
            len < usize::MAX || warnings.contains("is damaged"),
            "{warnings}"
        );
    }
}

#[tokio::test]
async fn the_store_waits_for_a_missing_directory_and_refuses_a_directory_as_its_file() {
    let site = Site::new();
    let dir = site.dir.path().join("later");
    let options = FileOptions::new(dir.join("pulse.redb")).unwrap();
    let service = Service::new(options.clock(site.clock.clone()), &site.clock, |b| b);
    service.serve(PAGE, 5);
    let error = service.pulse.flush().await.unwrap_err().to_string();
    assert!(error.contains("does not exist: create it"), "{error}");
    std::fs::create_dir(&dir).unwrap();
    site.manual_clock.advance(Duration::from_secs(20));
    service.settle().await;
    assert_eq!(service.sum("served").await, 5);
    assert_eq!(service.warnings(), "");
    let mode = std::fs::metadata(dir.join("pulse.redb")).unwrap().mode();
    assert_eq!(mode & 0o777, 0o600, "only its owner reads the file");

    let site = Site::new();
    std::fs::create_dir(site.path()).unwrap();
    let service = site.start();
    service.serve(PAGE, 5);
    let error = service.pulse.flush().await.unwrap_err().to_string();
    assert!(error.contains("it is a directory"), "{error}");
}

/// Advances the clock until a flush succeeds.
async fn until_written(site: &Site, service: &Service) {
    until("the file is written again", async || {
        site.manual_clock.advance(Duration::from_secs(20));
        service.pulse.flush().await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn a_disk_that_refuses_writes_for_a_while_loses_nothing() {
    for (kind, text) in [
        (io::ErrorKind::StorageFull, "the disk is full"),
        (io::ErrorKind::ReadOnlyFilesystem, "read-only"),
    ] {
        let (site, disk) = (Site::new(), Arc::new(FailingDisk::new(kind)));
        let service = site.start_on(disk.clone());
        service.serve(PAGE, 10);
        service.settle().await;
        service.store.sync().await.unwrap();
        service.serve(PAGE, 10);
        service.settle().await;
        disk.refuse(true);
        let error = service.store.sync().await.unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
        for _ in 0..5 {
            service.serve(PAGE, 10);
            site.manual_clock.advance(Duration::from_secs(20));
            assert!(service.pulse.flush().await.is_err());
        }
        assert!(service.warnings().contains(text), "{}", service.warnings());
        disk.refuse(false);
        until_written(&site, &service).await;
        assert_eq!(service.served(&[PAGE.to_owned()]).await, [70; 3]);
        assert_eq!(service.warnings(), "");
        service.shutdown().await;
        site.until_released().await;
        let service = site.start();
        service.until_open().await;
        assert_eq!(service.served(&[PAGE.to_owned()]).await, [70; 3]);
    }
}

/// The flusher holds a limited number of calls that it may have to append again. The store syncs before the limit is
/// exceeded.
#[tokio::test]
async fn a_failed_fsync_loses_nothing_of_many_busy_pages() {
    let site = Site::new();
    let disk = Arc::new(FailingDisk::new(io::ErrorKind::Other));
    let options = site.options().io(disk.clone());
    let options = options.durable_every(Duration::from_secs(60)).unwrap();
    let service = Service::new(options, &site.clock, |builder| builder);
    let pages: Vec<_> = (0..1_900).map(|page| format!("GET /{page}")).collect();
    for second in 0..45 {
        for page in &pages {
            for millis in [1, 3 + second % 7, 40, 700] {
                let duration = Duration::from_millis(millis);
                let status = http::StatusCode::OK;
                service.pulse.record(page, duration, status);
            }
        }
        site.manual_clock.advance(Duration::from_secs(1));
        service.settle().await;
    }
    disk.fail_syncs(1);
    assert!(service.store.sync().await.is_err());
    until_written(&site, &service).await;
    let lost = service.pulse.health().flush.lost;
    assert_eq!((service.sum("hits").await, lost), (45 * 4 * 1_900, 0));
    service.shutdown().await;
}

#[tokio::test]
async fn a_shutdown_on_a_full_disk_reports_the_disk_and_the_lost_requests() {
    let site = Site::new();
    let disk = Arc::new(FailingDisk::new(io::ErrorKind::StorageFull));
    let options = site.options().io(disk.clone());
    let service = Service::new(options, &site.clock, |builder| {
        builder.shutdown_timeout(Duration::from_millis(300))
    });
    service.serve(PAGE, 10);
    service.settle().await;
    service.store.sync().await.unwrap();
    for n in [3, 4] {
        service.serve(PAGE, n);
        service.settle().await;
    }
    disk.refuse(true);
    let error = service.pulse.shutdown().await.unwrap_err();
    assert!(format!("{error:?}").contains("the disk is full"));
    // These requests were appended to the file, but were not durable.
    assert_eq!((error.requests(), error.additions()), (7, 7));
    assert_eq!(service.pulse.health().flush.lost, 7);
}

#[tokio::test]
async fn the_file_stays_within_file_bytes_by_removing_the_oldest_minutes() {
    let site = Site::new();
    let options = site.options().file_bytes(16 << 20).unwrap();
    let service = Service::new(options, &site.clock, |builder| builder);
    let mut served = 0;
    for minute in 0..120 {
        for page in 0..500 {
            let page = format!("GET /a/rather/long/path/of/a/page/{page}");
            for millis in [1, 10 + minute % 7, 100] {
                let duration = Duration::from_millis(millis);
                service.pulse.record(&page, duration, http::StatusCode::OK);
                served += 1;
            }
        }
        site.manual_clock.advance(Duration::from_secs(60));
        service.settle().await;
        let len = std::fs::metadata(site.path()).unwrap().len();
        assert!(len <= 16 << 20, "minute {minute}: {len} bytes");
    }
    let warnings = service.warnings();
    assert!(warnings.contains("`file_bytes` = 16777216"), "{warnings}");
    assert_eq!(service.sum("hits").await, served, "counters are complete");
    service.shutdown().await;
}

#[tokio::test]
async fn recording_continues_after_the_clock_has_gone_back() {
    let site = Site::new();
    let service = site.start();
    service.serve(PAGE, 10);
    service.shutdown().await;
    site.until_released().await;
    site.manual_clock
        .set_wall(site.clock.now_seconds() - 86_400);
    let service = site.start();
    service.serve(PAGE, 10);
    service.settle().await;
    assert_eq!(service.sum("served").await, 20);
    let warnings = service.warnings();
    assert!(warnings.contains("ahead of this clock"), "{warnings}");
    service.shutdown().await;
}

/// A disk whose writes hang while the flag is set.
#[derive(Debug, Default)]
struct Hanging(AtomicBool);

impl FileIo for Hanging {
    fn write(&self, file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
        while self.0.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        file.write_all_at(bytes, offset)
    }
}

#[tokio::test]
async fn the_number_of_calls_that_wait_for_a_hanging_disk_is_bounded() {
    let site = Site::new();
    let disk = Arc::new(Hanging::default());
    let service = site.start_on(disk.clone());
    service.serve(PAGE, 10);
    service.settle().await;
    for _ in 0..3 {
        disk.0.store(true, Ordering::SeqCst);
        let store = service.store.clone();
        let sync = tokio::spawn(async move { store.sync().await });
        let calls: Vec<_> = (0..1_500)
            .map(|_| {
                let store = service.store.clone();
                tokio::spawn(async move { store.status(NOW).await })
            })
            .collect();
        let mut refused = 0;
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        disk.0.store(false, Ordering::SeqCst);
        for call in calls {
            if let Err(error) = call.await.unwrap() {
                assert!(error.to_string().contains("its disk is slow"), "{error}");
                refused += 1;
            }
        }
        assert!((500..=502).contains(&refused), "{refused} calls");
        sync.await.unwrap().unwrap();
        service.serve(PAGE, 10);
        service.settle().await;
    }
    assert_eq!(service.sum("served").await, 40);
    service.shutdown().await;
}

/// A disk whose next fsync takes a given time on the manual clock.
#[derive(Debug)]
struct Slow {
    manual_clock: ManualClock,
    next_takes: Mutex<Duration>,
    syncs: AtomicU64,
}

impl FileIo for Slow {
    fn sync(&self, _: &File) -> io::Result<()> {
        self.manual_clock
            .advance(std::mem::take(&mut *self.next_takes.lock().unwrap()));
        self.syncs.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

#[tokio::test]
async fn a_slow_fsync_does_not_delay_the_next_one() {
    let site = Site::new();
    let disk = Arc::new(Slow {
        manual_clock: site.manual_clock.clone(),
        next_takes: Mutex::default(),
        syncs: AtomicU64::new(0),
    });
    let service = site.start_on(disk.clone());
    service.until_open().await;
    for _ in 0..2 {
        let synced = disk.syncs.load(Ordering::SeqCst);
        // The commit begins with the flush, and ends half a second later.
        *disk.next_takes.lock().unwrap() = Duration::from_millis(500);
        service.serve(PAGE, 10);
        service.settle().await;
        let is_synced = async || disk.syncs.load(Ordering::SeqCst) > synced;
        until("the flush is durable", is_synced).await;
        // The next flush begins a second after this one.
        site.manual_clock.advance(Duration::from_millis(500));
    }
    service.shutdown().await;
}
