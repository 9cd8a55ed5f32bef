#!/bin/sh
# The variable allows rustdoc's unstable JSON output. If it were set for cargo too, cargo would build all crates again.
RUSTC_BOOTSTRAP=1 exec rustdoc "$@"
