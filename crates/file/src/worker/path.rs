//! Keeps the file at its path. The store can still read its open file after the file was removed, renamed or replaced.
//! The store then moves all data to a new file: at the path or, if another file is at the path, beside the path.

use std::io::ErrorKind::{NotADirectory, NotFound};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use super::{LONGEST_RETRY, Worker};
use crate::disk::Disk;
use crate::trouble::Trouble;
use tower_pulse_core::task::lock;

/// The time between two checks whether the file is at its path.
pub(super) const CHECK_PATH_EVERY: Duration = Duration::from_secs(5);

/// The message for a store that has moved all its data.
const MOVED: &str =
    "was removed, renamed or replaced while the service ran. All recorded data is now in";
/// The message for a store whose file another program has overwritten.
const LOST: &str =
    "was overwritten while the service ran, with all recorded data. The store continues in";

impl Worker {
    /// Checks whether the file is at its path. If not, moves the store.
    pub(super) fn check_path(&mut self) {
        self.path_checked = self.options.clock.tick();
        let is_lost = self.is_lost();
        let Some(path) = self.new_path(is_lost) else {
            self.check_path_after = CHECK_PATH_EVERY;
            return;
        };
        let wanted = self.options.path.display().to_string();
        let report = match self.move_to(&path, is_lost) {
            Ok(message) => {
                (self.path, self.check_path_after) = (path.into(), CHECK_PATH_EVERY);
                let advice = match self.path == self.options.path {
                    true => String::new(),
                    false => format!(
                        ". {wanted} is left as it is, and the next start reads it: to continue with the new file, stop \
                         the service and rename the new file to {wanted}"
                    ),
                };
                let new = self.path.display();
                format!("{wanted} {message} a new file, {new}{advice}")
            }
            // A file that cannot be moved, but is at a path, stays there.
            Err(_) if self.has_name() => return,
            Err(trouble) => {
                self.check_path_after = (2 * self.check_path_after).min(LONGEST_RETRY);
                let why = trouble.in_words(Path::new("the new file"));
                format!(
                    "{wanted} was removed, renamed or replaced while the service ran, and all recorded data ends with \
                     this process unless a new file can be made: {why}"
                )
            }
        };
        *lock(&self.report.moved) = Some(report);
        if self.open.is_none() {
            self.attempt();
        }
    }

    /// Whether the file is at the store's path, or was not opened yet.
    pub(super) fn has_name(&self) -> bool {
        let is_at_path = |held: &Disk| matches!(held.is_at(&self.path), Ok(true));
        self.held.as_ref().is_none_or(is_at_path)
    }

    pub(super) fn is_lost(&self) -> bool {
        self.held.as_ref().is_some_and(Disk::is_lost)
    }

    /// The path to which the store must move; `None` if the store can stay.
    fn new_path(&mut self, is_lost: bool) -> Option<PathBuf> {
        let (wanted, held) = (&self.options.path, self.held.as_ref()?);
        let is_beside = self.path != *wanted;
        match held.is_at(wanted) {
            // On systems other than Unix, the file at the wanted path may be another file.
            Ok(true) if !is_lost && (cfg!(unix) || !is_beside) => {
                if is_beside || self.check_path_after > CHECK_PATH_EVERY {
                    self.path = wanted.clone();
                    *lock(&self.report.moved) = None;
                }
                None
            }
            Ok(_) if is_beside && !is_lost && self.has_name() => None,
            Ok(_) => Some(self.free_name(".beside-")),
            Err(error) if matches!(error.kind(), NotFound | NotADirectory) => {
                Some(wanted.to_path_buf())
            }
            // If the path cannot be checked, the file may still be there.
            Err(_) => None,
        }
    }

    /// Renames the file to `path`, or copies a file without a name. Abandons an overwritten file. Returns the message
    /// for the operator.
    fn move_to(&mut self, path: &Path, is_lost: bool) -> Result<&'static str, Trouble> {
        let Some(held) = self.held.clone().filter(|_| !is_lost) else {
            self.close();
            self.held = None;
            return Ok(LOST);
        };
        // A symbolic link stays a link: the file is moved to the target of the link.
        let link = fs::read_link(path);
        let target = link.map_or_else(|_| path.into(), |link| path.with_file_name(link));
        if self.has_name() {
            rename(&self.path, &target)?;
            return Ok(MOVED);
        }
        let part = self.free_name(".copy-");
        // The database is closed only if the new file can be created.
        let new = Disk::open(&part, self.options.io.clone(), self.options.file_bytes);
        let new = new.inspect_err(|_| drop(fs::remove_file(&part)))?;
        self.commit_changes();
        self.close();
        if let Err(error) = held.copy_to(&new).and_then(|()| rename(&part, &target)) {
            drop(fs::remove_file(&part));
            return Err(error.into());
        }
        self.held = Some(new);
        Ok(MOVED)
    }

    /// A path beside the configured path at which there is no file.
    pub(super) fn free_name(&self, suffix: &str) -> PathBuf {
        let mut name = self.options.path.as_os_str().to_owned();
        name.push(format!("{suffix}{}", self.options.clock.now_seconds()));
        // If the check fails, no file can be created in this directory anyway.
        while Path::new(&name).try_exists().unwrap_or(false) {
            name.push("x");
        }
        name.into()
    }
}

/// Renames a file, unless a file has the new name.
fn rename(from: &Path, to: &Path) -> io::Result<()> {
    if let Err(error) = fs::hard_link(from, to) {
        if to.try_exists()? {
            return Err(error);
        }
        // Some file systems have no hard links.
        return fs::rename(from, to);
    }
    let _ = fs::remove_file(from);
    Ok(())
}
