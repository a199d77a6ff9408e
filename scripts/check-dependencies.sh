#!/usr/bin/env bash
# Each dependency earns its place: docs/dependencies.md has one line for every one in Cargo.toml,
# none for what is not there, and every one is used by some crate. Versions stand in the root only.
# And the folder is the rule (docs/architecture.md): proto/ is no_std and uses nothing above it.
set -euo pipefail
cd "$(dirname "$0")/.."

declared=$(sed -n '/^\[workspace\.dependencies\]/,/^\[workspace\.lints/p' Cargo.toml |
    sed -nE 's/^([a-z0-9_-]+) *=.*/\1/p' | grep -v '^moorline' | sort)
# shellcheck disable=SC2016 # the backquotes are those of the Markdown table
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
complain 'has a version of its own: move it to [workspace.dependencies]' < <(
    # A manifest that is a workspace of its own (fuzz/libfuzzer) cannot inherit.
    for manifest in $(git ls-files '*/Cargo.toml' | xargs grep -L '^\[workspace\]'); do
        sed -nE '/^\[.*dependencies\]/,/^\[[^d]*\]$/s/^([a-z0-9_-]+) *= *("|\{ *version).*/\1/p' "$manifest" |
            sed "s|$| in $manifest|"
    done)
for manifest in $(git ls-files 'proto/*/Cargo.toml'); do
    complain "is used by $manifest: proto/ uses proto/ only" < <(
        sed -n '/^\[dependencies\]/,/^\[dev-dep/p' "$manifest" |
            sed -nE 's/^(moorline-(bpf|netlink|link|api|sim|lab))\b.*/\1/p')
    grep -q '^#!\[no_std\]' "$(dirname "$manifest")/src/lib.rs" ||
        { echo "$(dirname "$manifest") is not no_std" >&2; fail=1; }
done
exit $fail
