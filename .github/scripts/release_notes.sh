#!/usr/bin/env bash
# Prints the section of CHANGELOG.md about a version, for the text of its release.
# usage: release_notes.sh v1.2.3
set -euo pipefail
cd "$(dirname "$0")/../.."
version=${1#v}
manifest=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"$/\1/p' Cargo.toml)
if [ "$manifest" != "$version" ]; then
  echo "Cargo.toml has version $manifest, and the tag says $version." >&2
  exit 1
fi
# GitHub shows each line break in the text of a release, so each paragraph and each list item becomes one line.
notes=$(awk -v heading="## [$version]" '
  /^## / { here = index($0, heading) == 1; next }
  !here || /^\[[^]]*\]: / { next }
  function flush() { if (line != "") print line; line = "" }
  /^$/ || /^#/ { flush(); print; next }
  /^- / { flush(); line = $0; next }
  { sub(/^ +/, ""); line = line == "" ? $0 : line " " $0 }
  END { flush() }
' CHANGELOG.md | sed '/./,$!d')
if [ -z "$notes" ]; then
  echo "CHANGELOG.md has no section \"## [$version]\"." >&2
  exit 1
fi
echo "$notes"
