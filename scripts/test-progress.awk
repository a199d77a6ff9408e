# One line for each test program, while cargo test writes its output.
/^ *Running / {
    name = $0
    sub(/.*\/deps\//, "", name)
    sub(/-[0-9a-f]+\)$/, "", name)
    what = $2 == "unittests" ? "unit tests" : $2
}
/^ *Doc-tests / { name = $2; what = "examples in documentation" }
/^test result:/ {
    if ($4 + $6 + $8 > 0) {
        printf "%-7s %4d passed %3d failed %3d ignored  %s (%s)\n", $3 == "ok." ? "ok" : "FAILED", $4, $6, $8, name, what
        fflush()
    }
}
