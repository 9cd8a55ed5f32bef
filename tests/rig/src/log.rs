//! The log of a test.

use std::io::Write;
use std::sync::{Arc, Mutex};

use tracing::subscriber::DefaultGuard;

/// The log lines of this thread.
#[derive(Clone, Debug, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Records the log of this thread until the guard is dropped.
    pub fn start() -> (Self, DefaultGuard) {
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }

    pub fn lines_with(&self, text: &str) -> Vec<String> {
        let log = self.text();
        let lines = log.lines().filter(|line| line.contains(text));
        lines.map(str::to_owned).collect()
    }

    /// Panics unless each line begins with a time and has a level: a recorded text must not forge log lines.
    pub fn assert_whole_lines(&self) {
        for line in self.text().lines() {
            let is_event = [" WARN ", " ERROR ", " INFO "]
                .iter()
                .any(|level| line.contains(level));
            assert!(is_event && line.starts_with("20"), "a forged line: {line}");
        }
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
