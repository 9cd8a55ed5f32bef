#!/bin/sh
# RUSTC_BOOTSTRAP allows rustdoc's unstable JSON output. Only rustdoc gets this variable: if cargo had it, cargo would
# build all crates again.
RUSTC_BOOTSTRAP=1 exec rustdoc "$@"
