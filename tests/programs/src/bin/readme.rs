//! README's program, with the history in `PULSE_FILE`.
include!(concat!(env!("OUT_DIR"), "/readme.rs"));
