#!/usr/bin/env bash
# Installs the named tools that are missing, on Debian or Ubuntu, as root or by sudo. If this is not possible, says
# so, and fails. See `make setup`. usage: setup.sh TOOL...
set -euo pipefail

is_root() { [ "$(id -u)" = 0 ]; }

# The Debian packages of a tool, including the recommended packages that the tool needs.
packages_of() {
  case $1 in
    cc) echo gcc libc6-dev ;;
    # The tests start Chromium with a sandbox, except for root (tests/browser/src/chromium.rs).
    chromium)
      # Ubuntu has no chromium-headless-shell.
      grep -qx ID=debian /etc/os-release 2>/dev/null && echo chromium-headless-shell || echo chromium
      is_root || echo chromium-sandbox
      ;;
    pip3) echo python3-pip ;;
    taskset) echo util-linux ;;
    valgrind) echo valgrind libc6-dbg ;;
    *) echo "$1" ;;
  esac
}

give_up() {
  echo "make setup: $1" >&2
  case " ${missing[*]} " in
    *" chromium "*) echo "Any Chromium or Chrome works: set CHROMIUM to its path." >&2 ;;
  esac
  exit 1
}

missing=() packages=()
for tool in "$@"; do
  # The tests read these two variables before PATH.
  case $tool in
    chromium) variable=CHROMIUM ;;
    redis-server) variable=PULSE_REDIS_SERVER ;;
    *) variable= ;;
  esac
  if [ -n "$variable" ] && [ -n "${!variable:-}" ]; then
    command -v "${!variable}" >/dev/null ||
      give_up "$variable is ${!variable}, which is not a program. Unset $variable, or set it to a program."
  elif ! command -v "$tool" >/dev/null &&
    ! { [ "$tool" = chromium ] && command -v chromium-headless-shell >/dev/null; }; then
    missing+=("$tool")
    read -d '' -ra needed <<<"$(packages_of "$tool")" || true
    packages+=("${needed[@]}")
  fi
done
[ "${#missing[@]}" -gt 0 ] || exit 0

lacks="this machine lacks ${missing[*]}"
command -v apt-get >/dev/null ||
  give_up "$lacks, and there is no apt-get. Install them by the package manager of this system, and run make again."
by_hand="As root, run \`apt-get install --no-install-recommends ${packages[*]}\`, and then make again."
as_root=()
if ! is_root; then
  command -v sudo >/dev/null || give_up "$lacks. Installing needs root, but there is no sudo. $by_hand"
  as_root=(sudo)
fi
echo "make setup: installing ${packages[*]}"
"${as_root[@]}" apt-get update -qq || give_up "$lacks, and apt-get update failed. $by_hand"
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" ||
  give_up "$lacks, and apt-get could not install it. $by_hand"
