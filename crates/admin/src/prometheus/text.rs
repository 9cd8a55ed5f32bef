//! The text format itself: one buffer that metrics are written to.

use std::fmt::{Display, Write};

/// The text that has been written so far.
#[derive(Debug)]
pub(super) struct Text(String);

impl Text {
    /// A text without metrics, with room for `bytes`.
    pub(super) fn with_capacity(bytes: usize) -> Self {
        Self(String::with_capacity(bytes))
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0.into_bytes()
    }

    /// Begins a metric. Each metric is begun once, before all of its samples.
    pub(super) fn begin(&mut self, name: &str, kind: &str, help: &str) {
        for part in [
            "# HELP ",
            name,
            " ",
            help,
            "\n# TYPE ",
            name,
            " ",
            kind,
            "\n",
        ] {
            self.0.push_str(part);
        }
    }

    /// Writes a metric without labels.
    pub(super) fn single(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.begin(name, kind, help);
        self.sample(name, &[], value);
    }

    pub(super) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        for (at, (label, value)) in labels.iter().enumerate() {
            self.0.push(if at == 0 { '{' } else { ',' });
            self.label(label, value);
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        self.value(value);
    }

    /// Writes one sample for each value of the last label, `label`, whose values need no escape.
    pub(super) fn samples<'a, V: Display>(
        &mut self,
        name: &str,
        labels: &[(&str, &str)],
        label: &str,
        samples: impl IntoIterator<Item = (&'a str, V)>,
    ) {
        let start = self.0.len();
        self.0.push_str(name);
        self.0.push('{');
        for (label, value) in labels {
            self.label(label, value);
            self.0.push(',');
        }
        self.0.push_str(label);
        self.0.push_str("=\"");
        // Names are long and may need escapes, so the lines share what stands before the last value.
        let shared = start..self.0.len();
        let mut is_first = true;
        for (last, value) in samples {
            if !is_first {
                self.0.extend_from_within(shared.clone());
            }
            is_first = false;
            self.0.push_str(last);
            self.0.push_str("\"}");
            self.value(value);
        }
        if is_first {
            self.0.truncate(start);
        }
    }

    fn label(&mut self, label: &str, value: &str) {
        self.0.push_str(label);
        self.0.push_str("=\"");
        self.escaped(value);
        self.0.push('"');
    }

    fn escaped(&mut self, mut value: &str) {
        while let Some(at) = value.find(['\\', '"', '\n']) {
            let (plain, tail) = value.split_at(at);
            self.0.push_str(plain);
            self.0.push_str(match tail.as_bytes()[0] {
                b'\n' => "\\n",
                b'"' => "\\\"",
                _ => "\\\\",
            });
            // The character is one of ASCII.
            value = &tail[1..];
        }
        self.0.push_str(value);
    }

    fn value(&mut self, value: impl Display) {
        // Writing to a string never fails.
        let _ = writeln!(self.0, " {value}");
    }
}
