//! Keeps the file at its path. An open file keeps its content without a name: if the file is removed, renamed or
//! replaced, the store copies it to its path or, if another file is there, to a name beside that file.

use std::io::ErrorKind::{NotADirectory, NotFound};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use super::{LONGEST_RETRY, Worker};
use crate::disk::Disk;
use crate::trouble::Trouble;
use tower_pulse_core::task::lock;

/// How often the store checks its file's place.
pub(super) const CHECK_PATH_EVERY: Duration = Duration::from_secs(5);

/// The messages for a store that has moved, and for one whose file another program has written into.
const MOVED: &str =
    "was removed, renamed or replaced while the service ran. All that was recorded is now in";
const LOST: &str =
    "was overwritten while the service ran, with all that was recorded. The store goes on in";

impl Worker {
    /// Checks the file's place, and moves the store if its path has another file or none.
    pub(super) fn check_path(&mut self) {
        self.path_checked = self.options.clock.tick();
        let is_lost = self.is_lost();
        let Some(place) = self.new_place(is_lost) else {
            self.check_path_after = CHECK_PATH_EVERY;
            return;
        };
        let wanted = self.options.path.display().to_string();
        let report = match self.move_to(&place, is_lost) {
            Ok(how) => {
                (self.path, self.check_path_after) = (place.into(), CHECK_PATH_EVERY);
                let then = match self.path == self.options.path {
                    true => String::new(),
                    false => format!(
                        ". {wanted} is left as it is, and the next start reads it: to go on with the new file, stop the \
                         service and rename it to {wanted}"
                    ),
                };
                format!("{wanted} {how} a new file, {}{then}", self.path.display())
            }
            // A file that cannot be moved but has a name stays where it is.
            Err(_) if self.has_name() => return,
            Err(trouble) => {
                self.check_path_after = (2 * self.check_path_after).min(LONGEST_RETRY);
                let why = trouble.in_words(Path::new("the new file"));
                format!(
                    "{wanted} was removed, renamed or replaced while the service ran, and all that was recorded ends with \
                     this process unless a new file can be made: {why}"
                )
            }
        };
        *lock(&self.report.place) = Some(report);
        if self.open.is_none() {
            self.attempt();
        }
    }

    /// Whether the file is at the store's path, or was not opened yet.
    pub(super) fn has_name(&self) -> bool {
        let stands = |held: &Disk| matches!(held.stands_at(&self.path), Ok(true));
        self.held.as_ref().is_none_or(stands)
    }

    /// Whether another program has overwritten or removed the file's content.
    pub(super) fn is_lost(&self) -> bool {
        self.held.as_ref().is_some_and(Disk::is_lost)
    }

    /// The path to which the store must move, if it must.
    fn new_place(&mut self, is_lost: bool) -> Option<PathBuf> {
        let (wanted, held) = (&self.options.path, self.held.as_ref()?);
        let is_beside = self.path != *wanted;
        match held.stands_at(wanted) {
            // On systems other than Unix, the file at the wanted path may be another one.
            Ok(true) if !is_lost && (cfg!(unix) || !is_beside) => {
                if is_beside || self.check_path_after > CHECK_PATH_EVERY {
                    self.path = wanted.clone();
                    *lock(&self.report.place) = None;
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

    /// Copies all recorded data to a new file at `place`. Returns what happened.
    fn move_to(&mut self, place: &Path, is_lost: bool) -> Result<&'static str, Trouble> {
        let Some(held) = self.held.clone().filter(|_| !is_lost) else {
            self.close();
            self.held = None;
            return Ok(LOST);
        };
        // A symbolic link stays a link: the file is moved to the target of the link.
        let link = fs::read_link(place);
        let target = link.map_or_else(|_| place.into(), |link| place.with_file_name(link));
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

    /// A name beside the path of the store that no other file has.
    pub(super) fn free_name(&self, suffix: &str) -> PathBuf {
        let mut name = self.options.path.as_os_str().to_owned();
        name.push(format!("{suffix}{}", self.options.clock.now_seconds()));
        // If the check itself fails, no file can be created or renamed there anyway.
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
