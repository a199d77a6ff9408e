#!/usr/bin/env bash
# All that can be said about the source without running it. Stops at the first thing that is wrong.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}

step() { printf '==> %s\n' "$1"; }

step 'format (cargo fmt)'
$cargo fmt --all --check

step 'shell scripts (bash -n)'
mapfile -t scripts < <(git ls-files | xargs -r awk '/^#!.*sh$/ { print FILENAME } { nextfile }' | sort)
for script in "${scripts[@]}"; do
    bash -n "$script"
    [ -x "$script" ] || { echo "$script is not executable: chmod +x it" >&2; exit 1; }
done
if command -v shellcheck >/dev/null; then
    shellcheck "${scripts[@]}"
else
    echo 'no shellcheck here: syntax only'
fi

step 'dependencies (docs/dependencies.md)'
scripts/check-dependencies.sh

step 'lock file of the fuzz programs (cargo metadata)'
$cargo metadata --locked --format-version 1 --manifest-path fuzz/libfuzzer/Cargo.toml >/dev/null || {
    echo 'bring it up to date: cargo metadata --manifest-path fuzz/libfuzzer/Cargo.toml >/dev/null' >&2
    exit 1
}

step 'C format (clang-format)'
mapfile -t sources < <(git ls-files 'bpf/*.c' 'bpf/*.h' | grep -v vmlinux || true)
if [ ${#sources[@]} -eq 0 ]; then
    echo 'no C sources'
elif formatter=$(compgen -c clang-format | grep -Ex 'clang-format(-[0-9]+)?' | sort -V | tail -1); [ -n "$formatter" ]; then
    "$formatter" --dry-run -Werror "${sources[@]}"
else
    echo 'no clang-format here: not checked'
fi

step 'lints (cargo clippy, warnings denied)'
$cargo clippy --workspace --all-targets --locked -- -D warnings

step 'small build (cargo check without default features)'
$cargo check -p moorlined -p moorline --no-default-features --locked

step 'documentation (cargo doc, warnings denied)'
RUSTDOCFLAGS='-D warnings' $cargo doc --workspace --no-deps --locked

echo 'check: all is well'
