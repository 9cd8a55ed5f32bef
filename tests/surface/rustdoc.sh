#!/bin/sh
# The JSON of rustdoc is unstable. The variable is set here, for rustdoc alone: set for cargo, it has crates built again.
RUSTC_BOOTSTRAP=1 exec rustdoc "$@"
