//! README's program, with its store in the file `PULSE_FILE`.
include!(concat!(env!("OUT_DIR"), "/readme.rs"));
