//! The text of an answer: a buffer to which metrics are written, in one of two similar formats.

use std::fmt::{Display, Write};

use super::format::Format;
use tower_pulse_core::recorder::exemplars::Exemplar;

#[derive(Debug)]
pub(super) struct Text {
    text: String,
    format: Format,
}

impl Text {
    pub(super) fn with_capacity(bytes: usize, format: Format) -> Self {
        let text = String::with_capacity(bytes);
        Self { text, format }
    }

    pub(super) fn into_bytes(mut self) -> Vec<u8> {
        if self.format == Format::OpenMetrics {
            // Tells a scraper that the text is complete.
            self.text.push_str("# EOF\n");
        }
        self.text.into_bytes()
    }

    /// Begins a counter, whose name ends with `_total`, or a gauge. Call once per metric, before its samples.
    pub(super) fn begin(&mut self, name: &str, help: &str) {
        let is_counter = name.ends_with("_total");
        self.begin_kind(name, if is_counter { "counter" } else { "gauge" }, help);
    }

    pub(super) fn begin_kind(&mut self, name: &str, kind: &str, help: &str) {
        let is_openmetrics = self.format == Format::OpenMetrics;
        let name = match is_openmetrics && kind == "counter" {
            // In OpenMetrics only the samples have the suffix.
            true => name.strip_suffix("_total").unwrap_or(name),
            false => name,
        };
        self.text.extend(["# HELP ", name, " ", help, "\n"]);
        self.text.extend(["# TYPE ", name, " ", kind, "\n"]);
        let unit = ["_seconds", "_bytes"]
            .into_iter()
            .find(|unit| name.ends_with(unit));
        if let Some(unit) = unit.filter(|_| is_openmetrics) {
            self.text.extend(["# UNIT ", name, " ", &unit[1..], "\n"]);
        }
    }

    /// Writes a metric without labels.
    pub(super) fn single(&mut self, name: &str, help: &str, value: &dyn Display) {
        self.begin(name, help);
        self.sample(name, &[], value);
    }

    pub(super) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: &dyn Display) {
        self.sample_with_exemplar(name, labels, value, None);
    }

    pub(super) fn sample_with_exemplar(
        &mut self,
        name: &str,
        labels: &[(&str, &str)],
        value: &dyn Display,
        exemplar: Option<&Exemplar>,
    ) {
        self.text.push_str(name);
        for (at, (label, value)) in labels.iter().enumerate() {
            self.text.push(if at == 0 { '{' } else { ',' });
            self.label(label, value);
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        self.value(value, exemplar);
    }

    /// Writes one sample for each value of the last label, `label`. The values must need no escape.
    pub(super) fn samples<'a>(
        &mut self,
        name: &str,
        labels: &[(&str, &str)],
        label: &str,
        samples: impl Iterator<Item = (&'a str, u64, Option<&'a Exemplar>)>,
    ) {
        let start = self.text.len();
        self.text.push_str(name);
        self.text.push('{');
        for (label, value) in labels {
            self.label(label, value);
            self.text.push(',');
        }
        self.text.push_str(label);
        self.text.push_str("=\"");
        // Names are long and may need escapes. So only the first line writes them, and each other line copies the text
        // before its last value.
        let shared = start..self.text.len();
        let mut is_first = true;
        for (last, value, exemplar) in samples {
            if !is_first {
                self.text.extend_from_within(shared.clone());
            }
            is_first = false;
            self.text.push_str(last);
            self.text.push_str("\"}");
            self.value(&value, exemplar);
        }
        if is_first {
            self.text.truncate(start);
        }
    }

    fn label(&mut self, label: &str, value: &str) {
        self.text.push_str(label);
        self.text.push_str("=\"");
        self.escaped(value);
        self.text.push('"');
    }

    fn escaped(&mut self, mut value: &str) {
        while let Some(at) = value.find(['\\', '"', '\n']) {
            let (plain, tail) = value.split_at(at);
            self.text.push_str(plain);
            self.text.push_str(match tail.as_bytes()[0] {
                b'\n' => "\\n",
                b'"' => "\\\"",
                _ => "\\\\",
            });
            // The escaped character is one byte long.
            value = &tail[1..];
        }
        self.text.push_str(value);
    }

    fn value(&mut self, value: &dyn Display, exemplar: Option<&Exemplar>) {
        // Writing to a string never fails.
        let _ = write!(self.text, " {value}");
        if let Some(exemplar) = exemplar.filter(|_| self.format == Format::OpenMetrics) {
            self.exemplar(exemplar);
        }
        self.text.push('\n');
    }

    /// Writes an exemplar. The name and the value of its label have at most 72 characters; OpenMetrics allows 128.
    fn exemplar(&mut self, exemplar: &Exemplar) {
        self.text.push_str(" # {");
        self.label("trace_id", &exemplar.trace_id);
        let ended = exemplar.ended;
        let (seconds, millis) = (ended.div_euclid(1_000), ended.rem_euclid(1_000));
        // Writing to a string never fails.
        let _ = write!(self.text, "}} {} {seconds}.{millis:03}", exemplar.seconds());
    }
}
