//! The log file, which is read twice: first to learn its format and its number of contexts, then to record its lines.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, Take};
use std::path::Path;

use crate::args::STDIN;
use crate::line::{self, Format, Unreadable};

/// The largest `max_contexts` that the builder allows.
pub(crate) const MAX_CONTEXTS: usize = 100_000;
/// The longest line. The rest of a longer line is skipped, so that no file can fill the memory.
const LONGEST_LINE: u64 = 64 * 1024;
const READ_AT_ONCE: usize = 1 << 20;
/// The seconds by which lines may be out of order.
const DISORDER: i64 = 3_600;
/// The bytes with which some editors begin a UTF-8 file.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

#[derive(Debug)]
pub(crate) struct Input {
    name: String,
    file: File,
    bytes: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Survey {
    pub(crate) format: Option<Format>,
    pub(crate) readable: u64,
    pub(crate) unreadable: u64,
    /// The first unreadable line, and the reason.
    pub(crate) first_unreadable: Option<String>,
    /// The second of the first line that can be read.
    pub(crate) first: i64,
    /// The latest second of all lines that can be read.
    pub(crate) last: i64,
    /// The number of lines that are more than [`DISORDER`] older than an earlier line.
    pub(crate) disordered: u64,
    /// The number of different contexts; [`MAX_CONTEXTS`] + 1 if there are more.
    pub(crate) contexts: usize,
}

impl Input {
    /// Opens a file. If an input can be read only once, as standard input, the input is copied to a temporary file.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        let (name, opened) = match path == Path::new(STDIN) {
            true => ("standard input".to_owned(), spooled(io::stdin().lock())),
            false => (path.display().to_string(), reopenable(path)),
        };
        // The second reading must not see lines that were added after the first reading.
        let with_len = opened.and_then(|file| Ok((file.metadata()?.len(), file)));
        let (bytes, file) = with_len.map_err(|error| format!("{name}: {error}"))?;
        Ok(Self { name, file, bytes })
    }

    pub(crate) fn lines(&mut self) -> Result<Lines<'_>, String> {
        let rewound = self.file.rewind();
        rewound.map_err(|error| format!("{}: {error}", self.name))?;
        Ok(Lines {
            name: &self.name,
            reader: BufReader::with_capacity(READ_AT_ONCE, (&self.file).take(self.bytes)),
            line: Vec::new(),
            is_first: true,
        })
    }

    pub(crate) fn survey(&mut self) -> Result<Survey, String> {
        let mut survey = Survey::default();
        let (mut contexts, mut context) = (HashSet::new(), String::new());
        let mut lines = self.lines()?;
        while let Some(bytes) = lines.next()? {
            let format = survey.format.map_or_else(|| line::format_of(bytes), Ok);
            match format.and_then(|format| Ok((format, line::parse(format, bytes, &mut context)?)))
            {
                Ok((format, line)) => {
                    if survey.readable == 0 {
                        (survey.format, survey.first) = (Some(format), line.second);
                        survey.last = line.second;
                    }
                    survey.disordered += u64::from(line.second < survey.last - DISORDER);
                    survey.last = survey.last.max(line.second);
                    survey.readable += 1;
                    if contexts.len() <= MAX_CONTEXTS && !contexts.contains(line.context) {
                        contexts.insert(line.context.to_owned());
                    }
                }
                Err(why) => survey.add_unreadable(bytes, why),
            }
        }
        survey.contexts = contexts.len();
        Ok(survey)
    }
}

impl Survey {
    fn add_unreadable(&mut self, line: &[u8], why: Unreadable) {
        const SHOWN: usize = 200;
        self.unreadable += 1;
        let number = self.readable + self.unreadable;
        self.first_unreadable.get_or_insert_with(|| {
            // The client chose parts of the line, so characters that act on a terminal are escaped.
            let text = String::from_utf8_lossy(line);
            let text: String = text.chars().take(SHOWN).collect();
            format!("line {number} ({}): {}", why.0, text.escape_debug())
        });
    }
}

/// Reads lines, without their ends, into one buffer.
#[derive(Debug)]
pub(crate) struct Lines<'a> {
    name: &'a str,
    reader: BufReader<Take<&'a File>>,
    line: Vec<u8>,
    is_first: bool,
}

impl Lines<'_> {
    pub(crate) fn next(&mut self) -> Result<Option<&[u8]>, String> {
        let read = self.read();
        if !read.map_err(|error| format!("{}: {error}", self.name))? {
            return Ok(None);
        }
        let mut line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        if std::mem::take(&mut self.is_first) {
            line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        }
        Ok(Some(line.strip_suffix(b"\r").unwrap_or(line)))
    }

    fn read(&mut self) -> io::Result<bool> {
        self.line.clear();
        let mut part = self.reader.by_ref().take(LONGEST_LINE);
        let read = part.read_until(b'\n', &mut self.line)? as u64;
        if read == LONGEST_LINE && !self.line.ends_with(b"\n") {
            self.reader.skip_until(b'\n')?;
        }
        Ok(read > 0)
    }
}

fn reopenable(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => spooled(file),
    }
}

/// Copies the input to a temporary file without a name, which the system deletes when the file is closed.
fn spooled(mut from: impl Read) -> io::Result<File> {
    let name = format!("replay-{}-{:016x}", std::process::id(), fastrand::u64(..));
    let path = std::env::temp_dir().join(name);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&path)?;
    std::fs::remove_file(&path)?;
    io::copy(&mut from, &mut file)?;
    Ok(file)
}
