//! The file as the database sees it. The first page is a header of this crate: a magic number, the version of the
//! format, and the id of the process that holds the file. The database begins after this page.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use redb::StorageBackend;

use super::trouble::Trouble;
use tower_pulse_core::task::lock;

/// The length of the header page, in bytes.
pub(super) const HEADER: u64 = 4_096;
const MAGIC: &[u8; 16] = b"tower-pulse file";
/// The length of the magic number, the version and the process, in bytes.
const HEADER_FIELDS: usize = MAGIC.len() + 8;
/// The version of the file's format. A file of a newer version is not opened.
const VERSION: u32 = 1;
const COPIED_AT_ONCE: usize = 1024 * 1024;

/// Reads and writes a file. Tests implement this trait to make the disk fail.
pub trait FileIo: std::fmt::Debug + Send + Sync {
    /// Reads from an offset on.
    fn read(&self, file: &File, offset: u64, out: &mut [u8]) -> io::Result<()> {
        read_at(file, offset, out)
    }

    /// Writes from an offset on.
    fn write(&self, file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
        write_at(file, offset, bytes)
    }

    /// Sets the length of the file.
    fn set_len(&self, file: &File, len: u64) -> io::Result<()> {
        file.set_len(len)
    }

    /// Returns once all written data is on the disk.
    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }
}

#[derive(Debug)]
pub(super) struct PlainIo;

impl FileIo for PlainIo {}

#[cfg(unix)]
fn read_at(file: &File, offset: u64, out: &mut [u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, out, offset)
}

#[cfg(unix)]
fn write_at(file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

// The store's thread is the only user of the file, so nothing else moves the file's cursor.
#[cfg(not(unix))]
fn read_at(mut file: &File, offset: u64, out: &mut [u8]) -> io::Result<()> {
    use std::io::{Read, Seek, SeekFrom};
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(out)
}

#[cfg(not(unix))]
fn write_at(mut file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
    use std::io::{Seek, SeekFrom, Write};
    file.seek(SeekFrom::Start(offset))?;
    file.write_all(bytes)
}

/// An open file, which this store has locked.
#[derive(Clone, Debug)]
pub(super) struct Disk {
    file: Arc<File>,
    io: Arc<dyn FileIo>,
    /// The first bytes of the database, as last written; empty if unknown, as after a failure.
    beginning: Arc<Mutex<Vec<u8>>>,
    /// The largest permitted size of the file, in bytes.
    most_bytes: u64,
}

impl Disk {
    pub(super) fn open(path: &Path, io: Arc<dyn FileIo>, most_bytes: u64) -> Result<Self, Trouble> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Trouble::Held(holder(&file))),
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        let disk = Self {
            file: file.into(),
            io,
            beginning: Arc::default(),
            most_bytes,
        };
        disk.check_header()?;
        Ok(disk)
    }

    /// Whether a path leads to this file. On systems other than Unix, any file at the path counts.
    pub(super) fn is_at(&self, path: &Path) -> io::Result<bool> {
        let found = std::fs::metadata(path)?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            let file = self.file.metadata()?;
            Ok((file.dev(), file.ino()) == (found.dev(), found.ino()))
        }
        #[cfg(not(unix))]
        Ok(found.is_file())
    }

    /// Whether another program has overwritten or cut off the first bytes of the database, or a network file system has
    /// removed the file.
    pub(super) fn is_lost(&self) -> bool {
        let written = lock(&self.beginning);
        let mut found = vec![0; written.len().max(1)];
        match read_at(&self.file, HEADER, &mut found) {
            Ok(()) => !found.starts_with(&written),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => !written.is_empty(),
            Err(error) => error.kind() == io::ErrorKind::StaleNetworkFileHandle,
        }
    }

    fn refuse_lost(&self) -> io::Result<()> {
        match self.is_lost() {
            true => Err(io::Error::other("another program wrote into the file")),
            false => Ok(()),
        }
    }

    /// Copies all bytes to another file, and makes the copy durable.
    pub(super) fn copy_to(&self, new: &Self) -> io::Result<()> {
        let len = self.file.metadata()?.len();
        let mut bytes = vec![0; COPIED_AT_ONCE];
        for offset in (0..len).step_by(COPIED_AT_ONCE) {
            bytes.truncate((len - offset).min(COPIED_AT_ONCE as u64) as usize);
            self.io.read(&self.file, offset, &mut bytes)?;
            self.io.write(&new.file, offset, &bytes)?;
        }
        self.refuse_lost()?;
        self.io.sync(&new.file)
    }

    /// Writes the id of this process into the header. Refuses a file that is foreign, newer or cut off.
    fn check_header(&self) -> Result<(), Trouble> {
        let len = self.file.metadata()?.len();
        let process = std::process::id();
        if len > 0 {
            let mut header = [0; HEADER_FIELDS];
            let known = header.len().min(len as usize);
            self.io.read(&self.file, 0, &mut header[..known])?;
            let Some([version, holder]) = numbers(&header) else {
                return Err(Trouble::Foreign);
            };
            if len < HEADER {
                return Err(Trouble::Damaged("its first page is cut off".to_owned()));
            }
            if version > VERSION {
                return Err(Trouble::Newer(version));
            }
            if holder == process {
                // The header is not written again, so the file opens even if the disk is full.
                return Ok(());
            }
        }
        let mut page = [&MAGIC[..], &VERSION.to_be_bytes()].concat();
        page.extend_from_slice(&process.to_be_bytes());
        page.resize(HEADER as usize, 0);
        self.io.write(&self.file, 0, &page)?;
        Ok(())
    }
}

fn holder(file: &File) -> Option<u32> {
    let mut header = [0; HEADER_FIELDS];
    read_at(file, 0, &mut header).ok()?;
    numbers(&header).map(|[_, process]| process)
}

/// The version and the process in a header; `None` if another program has written it.
fn numbers(header: &[u8; HEADER_FIELDS]) -> Option<[u32; 2]> {
    let numbers = header.strip_prefix(MAGIC)?.chunks_exact(4);
    let mut numbers = numbers.map(|number| number.try_into().map_or(0, u32::from_be_bytes));
    Some([numbers.next()?, numbers.next()?])
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len().saturating_sub(HEADER))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.io.read(&self.file, HEADER + offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if HEADER + len > self.most_bytes {
            let message = format!("the file has no room within {} bytes", self.most_bytes);
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, message));
        }
        self.refuse_lost()?;
        self.io.set_len(&self.file, HEADER + len)
    }

    fn sync_data(&self) -> io::Result<()> {
        let synced = self.io.sync(&self.file);
        synced.inspect_err(|_| lock(&self.beginning).clear())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.refuse_lost()?;
        let written = self.io.write(&self.file, HEADER + offset, bytes);
        if offset == 0 || written.is_err() {
            let known = if written.is_ok() { bytes } else { &[] };
            *lock(&self.beginning) = known.to_vec();
        }
        written
    }
}

/// The most bytes that tables may take in a file of `len` bytes: half of the largest size, up to `most`, that the file
/// reaches by doubling. In measurements, fields could take two thirds of this size. Each time that the file was full
/// (`times_full`) lowers the result by a quarter, at most 8 times.
pub(super) fn table_bytes(len: u64, most: u64, times_full: u32) -> usize {
    let mut largest = len.max(HEADER);
    while 2 * largest <= most {
        largest *= 2;
    }
    let mut bytes = largest / 2;
    for _ in 0..times_full.min(8) {
        bytes -= bytes / 4;
    }
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::table_bytes;

    #[test]
    fn tables_take_half_of_the_largest_file_that_doubling_reaches() {
        let mib = 1024 * 1024;
        assert_eq!(table_bytes(5 * mib, 256 * mib, 0), 80 * 1024 * 1024);
        assert_eq!(table_bytes(16 * mib, 16 * mib, 0), 8 * 1024 * 1024);
        assert_eq!(table_bytes(16 * mib, 16 * mib, 2), 4_718_592);
        assert_eq!(table_bytes(0, 64, 0), 2_048);
    }
}
