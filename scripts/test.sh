#!/usr/bin/env bash
# Runs every test of the workspace and says plainly what ran.
#
# A test that cannot run here (no root, no BPF) prints a line that begins with "SKIPPED " and
# passes; those lines are shown at the end. With MOORLINE_REQUIRE_ROOT=1, as in CI, they fail the run.
# Arguments go to `cargo test`, as in `scripts/test.sh -p moorline-wire`.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
target=${CARGO_TARGET_DIR:-target}
[ $# -gt 0 ] || set -- --workspace

# The tests of the lab take most of the time, and wait for their networks most of that.
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-$(($(nproc) * 2))}

mkdir -p "$target"
log=$target/test.log
if [ "$(id -u)" -ne 0 ]; then
    # shellcheck disable=SC2016 # a command to type, not to run here
    echo 'Not root: tests that need network namespaces or BPF will skip. `sudo -E make test` runs all.'
fi

echo '==> building'
# Tests of the whole start the programs, which cargo does not build for tests of other crates.
$cargo build --locked --bins "$@"
$cargo test --locked --no-run "$@"

echo "==> testing (full output in $log)"
started=$SECONDS
status=0
$cargo test --locked --no-fail-fast "$@" -- --show-output 2>&1 | tee "$log" |
    awk -f scripts/test-progress.awk || status=$?

if [ "$status" -ne 0 ]; then
    echo
    echo '==> what failed'
    awk -f scripts/test-failures.awk "$log"
fi
echo
skipped=$(grep -c '^SKIPPED ' "$log" || true)
awk -v seconds=$((SECONDS - started)) -v skipped="$skipped" '
    /^test result:/ {
        binaries += $4 + $6 > 0; passed += $4; failed += $6; ignored += $8
    }
    END {
        printf "%d tests ran in %d test programs in %d s: %d passed, %d failed",
            passed + failed, binaries, seconds, passed - skipped, failed
        printf ", %d skipped themselves, %d ignored\n", skipped, ignored
    }' "$log"
# Measurements and the like, with the reason that their authors gave.
sed -nE 's/^test (.*) \.\.\. (ignored.*)/  \2: \1/p' "$log"
if [ "$skipped" -gt 0 ]; then
    grep '^SKIPPED ' "$log" | sort | sed 's|^|  |'
    if [ "${MOORLINE_REQUIRE_ROOT:-0}" = 1 ] && [ "$status" -eq 0 ]; then
        echo 'MOORLINE_REQUIRE_ROOT is set and tests were skipped: that is a failure here.'
        status=1
    fi
fi
exit "$status"
