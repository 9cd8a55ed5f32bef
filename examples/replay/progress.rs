//! A line on standard error that says how far it is, if that is a terminal.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Time between two changes of the line.
const PERIOD: Duration = Duration::from_millis(200);
/// Columns of the bar.
const WIDTH: usize = 30;

/// A progress bar.
#[derive(Debug)]
pub(crate) struct Progress {
    what: &'static str,
    bytes: u64,
    start: Instant,
    next: Option<Instant>,
}

impl Progress {
    /// A bar for a file of so many bytes.
    pub(crate) fn new(what: &'static str, bytes: u64) -> Self {
        let start = Instant::now();
        let next = std::io::stderr().is_terminal().then_some(start + PERIOD);
        Self {
            what,
            bytes,
            start,
            next,
        }
    }

    /// Shows so many lines and bytes, at times.
    pub(crate) fn show(&mut self, lines: u64, bytes: u64) {
        let Some(next) = self.next else { return };
        let now = Instant::now();
        if now < next {
            return;
        }
        self.next = Some(now + PERIOD);
        let part = bytes.min(self.bytes) as f64 / self.bytes.max(1) as f64;
        let bar = "#".repeat((part * WIDTH as f64) as usize);
        let rate = lines as f64 / (now - self.start).as_secs_f64();
        let (what, percent) = (self.what, part * 100.0);
        eprint!("\r\x1b[K{what:<9} [{bar:<WIDTH$}] {percent:3.0} % {lines} lines, {rate:.0}/s");
        let _ = std::io::stderr().flush();
    }

    /// Removes the line.
    pub(crate) fn clear(&self) {
        if self.next.is_some() {
            eprint!("\r\x1b[K");
        }
    }
}
