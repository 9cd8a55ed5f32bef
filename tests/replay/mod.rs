//! The example `replay` as its user runs it, and its files that read lines.

// Parts of the example itself.
#[path = "../../examples/replay/caddy.rs"]
mod caddy;
#[path = "../../examples/replay/combined.rs"]
mod combined;
#[path = "../../examples/replay/line.rs"]
mod line;
#[path = "../../examples/replay/template.rs"]
mod template;
#[path = "../../examples/replay/time.rs"]
mod time;

mod exact;
mod formats;
mod model;
mod programs;
mod run;
