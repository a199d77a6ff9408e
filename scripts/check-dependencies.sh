#!/usr/bin/env bash
# Each dependency earns its place: docs/dependencies.md has one line for every one in Cargo.toml,
# none for what is not there, and every one is used by some crate.
set -euo pipefail
cd "$(dirname "$0")/.."

declared=$(sed -n '/^\[workspace\.dependencies\]/,/^\[workspace\.lints/p' Cargo.toml |
    sed -nE 's/^([a-z0-9_-]+) *=.*/\1/p' | grep -v '^moorline-' | sort)
described=$(sed -nE 's/^\| `([a-z0-9_-]+)` \|.*/\1/p' docs/dependencies.md | sort)
# Lines such as `serde.workspace = true` and `serde = { workspace = true, ... }`.
used=$(git ls-files '*/Cargo.toml' |
    xargs sed -nE 's/^([a-z0-9_-]+)(\.workspace *=| *= *\{ *workspace).*/\1/p' | sort -u)

fail=0
complain() {
    local name
    while read -r name; do
        [ -z "$name" ] && continue
        echo "$name $1" >&2
        fail=1
    done
}
complain 'lacks a line in docs/dependencies.md: say what it replaces' \
    < <(comm -23 <(echo "$declared") <(echo "$described"))
complain 'has a line in docs/dependencies.md and is not in Cargo.toml: remove the line' \
    < <(comm -13 <(echo "$declared") <(echo "$described"))
complain 'is in Cargo.toml and no crate uses it: remove it' \
    < <(comm -23 <(echo "$declared") <(echo "$used"))
[ "$(uniq -d <<<"$described")" = '' ] ||
    { echo "docs/dependencies.md has lines twice: $(uniq -d <<<"$described")" >&2; fail=1; }
exit $fail
