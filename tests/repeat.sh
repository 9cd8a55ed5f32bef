#!/usr/bin/env bash
# Runs suites N times, the last BUSY times beside a busy loop, and prints how often each test failed: see `make repeat`.
# usage: N=10 BUSY=3 LONG="SUITES THAT START FIRST" repeat.sh "lib stores page" ARGUMENTS OF cargo test
set -uo pipefail
suites=$1 && shift
logs=target/repeat && rm -rf "$logs" && mkdir -p "$logs"

busy=
end_busy_loop() { [ -z "$busy" ] || kill "$busy" 2>/dev/null; busy=; }
trap end_busy_loop EXIT
failures=0

# All suites, as `make test` runs them.
if [ -z "$suites" ]; then
  for run in $(seq "$N"); do
    if [ "$run" -gt $((N - BUSY)) ]; then (while :; do :; done) & busy=$!; fi
    start=$SECONDS
    if tests/suites.sh "$LONG" "$@" >"$logs/run.$run" 2>&1; then result=passed; else
      result=FAILED && failures=$((failures + 1))
    fi
    mv target/suites "$logs/suites.$run"
    echo "run $run/$N${busy:+ beside a busy loop}: $result in $((SECONDS - start)) s"
    sed -n '/^failed:$/,$p' "$logs/run.$run"
    end_busy_loop
  done
  [ "$failures" = 0 ] || { echo "$failures runs failed ($logs has their output)" && exit 1; }
  exit 0
fi

cargo test --no-run "$@" 2>&1 | tee "$logs/build" || exit 1
export RUST_TEST_THREADS=${TEST_THREADS:-4}
for suite in $suites; do
  target=(--test "$suite") && [ "$suite" != lib ] || target=(--lib)
  ! grep -qx "mod $suite;" tests/features.rs || target=(--test features -- "$suite::")
  ! grep -qx "mod $suite;" tests/main.rs || target=(--test integration -- "$suite::")
  # The suite `stores` has modules with the names of other suites, which the filter would also select.
  [ "$suite" = stores ] || [ "${target[1]}" != integration ] || target+=(--skip stores::)
  for run in $(seq "$N"); do
    if [ "$run" -gt $((N - BUSY)) ]; then (while :; do :; done) & busy=$!; fi
    log=$logs/$suite.$run
    start=$SECONDS
    if cargo test --no-fail-fast "$@" "${target[@]}" >"$log" 2>&1; then result=passed; else
      result=FAILED && failures=$((failures + 1))
    fi
    echo "$suite $run/$N${busy:+ beside a busy loop}: $result in $((SECONDS - start)) s"
    end_busy_loop
  done
done

echo
if [ "$failures" = 0 ]; then echo "Nothing failed in $N runs of: $suites" | tr '\n' ' ' && echo && exit 0; fi
echo "$failures runs failed ($logs has their output):"
cd "$logs" && grep -HE '^test .* FAILED$|^error: ' -- *.* |
  sed 's/\.[0-9]*:test /: /; s/\.[0-9]*:error/: error/; s/ \.\.\. FAILED$//' | sort | uniq -c | sort -rn
exit 1
