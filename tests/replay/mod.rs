//! Tests the example `replay` as a user runs it, and its modules that parse log lines.

// Modules of the example.
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
