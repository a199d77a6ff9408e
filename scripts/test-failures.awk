# Of the output of cargo test: what the compiler refused, and what failed tests printed.
/^error/ { print; refused = 1; next }
refused && /^ *$/ { refused = 0 }
refused { print }
# libtest lists the output of failed tests after "failures:", then their names after a second one.
/^successes:$/ { inside = 0 }
/^failures:$/ { inside = 1 }
/^test result:/ { if (inside) print; inside = 0 }
inside { print }
