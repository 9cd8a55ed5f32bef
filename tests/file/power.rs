//! Power cuts: any part of the writes since the last fsync may have reached the disk.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tower_pulse_core::store::Store;
use tower_pulse_file::FileIo;

use crate::file::service::Site;
use crate::rig::seed::seed;

/// A disk that a test can make fail.
#[derive(Debug)]
pub struct FailingDisk {
    kind: io::ErrorKind,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Whether writes and fsyncs fail.
    is_refusing: bool,
    /// How many of the next fsyncs fail.
    failing_syncs: u64,
    /// Whether all reads, writes and fsyncs fail.
    is_cut: bool,
    /// The changes since the last fsync.
    unsynced: Vec<Change>,
}

#[derive(Debug)]
enum Change {
    Write {
        offset: u64,
        before: Vec<u8>,
        after: Vec<u8>,
    },
    Len {
        before: u64,
        after: u64,
    },
}

impl FailingDisk {
    pub fn new(kind: io::ErrorKind) -> Self {
        Self {
            kind,
            state: Mutex::default(),
        }
    }

    pub fn refuse(&self, is_refusing: bool) {
        self.state.lock().unwrap().is_refusing = is_refusing;
    }

    pub fn fail_syncs(&self, times: u64) {
        self.state.lock().unwrap().failing_syncs = times;
    }

    fn cut(&self) {
        self.state.lock().unwrap().is_cut = true;
    }

    /// Restores the file as of the last fsync, and applies a random part of the later changes.
    fn lose_changes(&self, file: &File, random: &mut fastrand::Rng) {
        let changes = std::mem::take(&mut self.state.lock().unwrap().unsynced);
        for change in changes.iter().rev() {
            match change {
                Change::Write { offset, before, .. } => {
                    file.write_all_at(before, *offset).unwrap();
                }
                Change::Len { before, .. } => file.set_len(*before).unwrap(),
            }
        }
        for change in &changes {
            match change {
                Change::Write { offset, after, .. } => match random.u8(0..8) {
                    0..4 => {}
                    // Only the first sectors of the write reach the disk.
                    4 => {
                        let part = random.usize(0..=after.len() / 512) * 512;
                        file.write_all_at(&after[..part], *offset).unwrap();
                    }
                    _ => file.write_all_at(after, *offset).unwrap(),
                },
                Change::Len { after, .. } if random.bool() => file.set_len(*after).unwrap(),
                Change::Len { .. } => {}
            }
        }
    }

    fn failure(&self) -> io::Error {
        io::Error::new(self.kind, "a failure of the test")
    }

    /// The state, unless changes fail.
    fn writable(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.state.lock().unwrap();
        match state.is_refusing || state.is_cut {
            true => Err(self.failure()),
            false => Ok(state),
        }
    }
}

impl FileIo for FailingDisk {
    fn read(&self, file: &File, offset: u64, out: &mut [u8]) -> io::Result<()> {
        match self.state.lock().unwrap().is_cut {
            true => Err(self.failure()),
            false => file.read_exact_at(out, offset),
        }
    }

    fn write(&self, file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.writable()?;
        let mut before = vec![0; bytes.len()];
        let len = file.metadata()?.len();
        let known = len.saturating_sub(offset).min(bytes.len() as u64) as usize;
        file.read_exact_at(&mut before[..known], offset)?;
        before.truncate(known);
        if known < bytes.len() {
            let after = len.max(offset + bytes.len() as u64);
            state.unsynced.push(Change::Len { before: len, after });
        }
        state.unsynced.push(Change::Write {
            offset,
            before,
            after: bytes.to_vec(),
        });
        file.write_all_at(bytes, offset)
    }

    fn set_len(&self, file: &File, len: u64) -> io::Result<()> {
        let mut state = self.writable()?;
        let before = file.metadata()?.len();
        state.unsynced.push(Change::Len { before, after: len });
        file.set_len(len)
    }

    fn sync(&self, _: &File) -> io::Result<()> {
        let mut state = self.writable()?;
        if state.failing_syncs > 0 {
            state.failing_syncs -= 1;
            return Err(self.failure());
        }
        state.unsynced.clear();
        Ok(())
    }
}

/// How often the power is cut: `PULSE_POWER_CUTS`, 25 times by default.
fn cuts() -> u64 {
    let cuts = std::env::var("PULSE_POWER_CUTS");
    cuts.map_or(25, |cuts| cuts.parse().expect("a number of power cuts"))
}

#[tokio::test]
async fn a_power_cut_loses_only_requests_that_were_not_durable() {
    let seed = seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let site = Site::new();
    let pages: Vec<String> = (0..40).map(|page| format!("GET /{page}")).collect();
    // The number of durable requests, by each of the three counts of `served`. The counts may differ, because a cut may
    // lose only the last calls of a flush.
    let mut durable = [0; 3];
    for cut in 0..cuts() {
        let disk = Arc::new(FailingDisk::new(io::ErrorKind::Other));
        let service = site.start_on(disk.clone());
        service.until_open().await;
        let counted = service.served(&pages).await;
        assert_eq!(counted, durable, "seed {seed}, cut {cut}");
        let mut served = durable;
        for _ in 0..random.u64(1..15) {
            for _ in 0..random.u64(0..60) {
                let requests = random.u64(1..4);
                service.serve(&pages[random.usize(0..pages.len())], requests);
                served = served.map(|counted| counted + requests);
            }
            let seconds = random.u64(0..3) * random.u64(1..40);
            site.manual_clock.advance(Duration::from_secs(seconds));
            if random.u8(0..8) == 0 {
                disk.fail_syncs(random.u64(1..3));
            }
            // If the flush fails, the next flush appends lost calls again.
            let is_flushed = service.pulse.flush().await.is_ok();
            if is_flushed && random.u8(0..4) == 0 && service.store.sync().await.is_ok() {
                durable = served;
            }
        }
        disk.cut();
        let store = service.store.clone();
        drop(service);
        let _ = store.sync().await;
        drop(store);
        site.until_released().await;
        let mut options = std::fs::OpenOptions::new();
        let file = options.read(true).write(true).open(site.path()).unwrap();
        disk.lose_changes(&file, &mut random);
        drop(file);

        let service = site.start();
        // No task folds here. This addition makes the next flush fold the entries from before the cut.
        service.pulse.counter("reopened").add(1);
        service.settle().await;
        let counted = service.served(&pages).await;
        for (n, range) in counted.iter().zip(durable.into_iter().zip(served)) {
            assert!(
                (range.0..=range.1).contains(n),
                "seed {seed}, cut {cut}: {counted:?} of {served:?}, and {durable:?} were durable"
            );
        }
        durable = counted;
        service.shutdown().await;
        site.until_released().await;
    }
    assert_eq!(site.files(), ["pulse.redb"], "seed {seed}");
}
