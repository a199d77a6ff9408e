#!/usr/bin/env bash
# Blocks of SHA-1 a second: the search's engines against the bulk rate of OpenSSL, on one core, in turn.
# Both count the time that they ran, so other work on the machine matters little. Best of each.
#
# usage: search-rate.sh [MOORLINE [CORE [ROUNDS]]]
set -euo pipefail
moorline=${1:-target/release/moorline}
core=${2:-0}
rounds=${3:-5}

for ((round = 0; round < rounds; round++)); do
    taskset -c "$core" openssl speed -seconds 1 -evp sha1 -bytes 16384 2>/dev/null |
        awk '/^sha1/ { sub("k", "", $2); printf "OpenSSL %.0f\n", $2 * 1000 / 64 }'
    taskset -c "$core" "$moorline" addr bench --seconds 1 --json |
        awk -F '[:",]+ *' '/"name"/ { name = $4 } /"blocks_per_s"/ { printf "%s %.0f\n", name, $3 }'
done | awk '
    $2 > best[$1] { best[$1] = $2 }
    END {
        printf "%-9s %12s %9s\n", "ENGINE", "BLOCKS/S", "RATIO"
        for (name in best)
            printf "%-9s %10.1f M %9.2f\n", name, best[name] / 1e6, best[name] / best["OpenSSL"]
    }'
