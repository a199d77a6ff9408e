#!/usr/bin/env bash
# Tries Moorline on another kernel: boots it in a virtual machine (qemu, software emulation: no KVM is needed) and
# runs scripts/vm/checks.sh in there. The last line says what came out; docs/kernels.md keeps the record.
#
# Usage: scripts/vm/test.sh [VERSION | PACKAGE | FILE.deb...]
# VERSION is a kernel of the distribution such as 6.1 (the default), PACKAGE one of its packages, linux-image-...: it is
# downloaded and unpacked into a folder of its own, never installed. Packages on disk may be given instead (Ubuntu
# splits a kernel into linux-image and linux-modules: give both).
#
#   TIME_LIMIT=900      seconds until the virtual machine is stopped
#   VERBOSE=1           show what every check printed, not only the failed ones
#   LAB_TESTS=1         run the lab's tests too: every failure, every workload (on a fast and idle machine)
#   KEEP=folder         keep logs and kernel messages there
set -euo pipefail
cd "$(dirname "$0")/../.."
PATH=$PATH:/usr/sbin:/sbin
cargo=${CARGO:-cargo}
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
here=$PWD/scripts/vm
time_limit=${TIME_LIMIT:-900}

work=$(mktemp -d)
machine=
clean_up() {
    [ -z "$machine" ] || kill "$machine" 2>/dev/null || true
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP

step() { printf '==> %s\n' "$1"; }
fail() { echo "$1" >&2; exit 1; }

install_missing() {
    local missing=() package
    command -v qemu-system-x86_64 >/dev/null || missing+=(qemu-system-x86)
    [[ $(busybox --list 2>/dev/null) == *setsid* ]] || missing+=(busybox-static)
    command -v cpio >/dev/null || missing+=(cpio)
    command -v modprobe >/dev/null || missing+=(kmod)
    [ ${#missing[@]} = 0 ] && return
    step "installing ${missing[*]}"
    [ "$(id -u)" = 0 ] || set -- sudo
    "$@" apt-get update -q || true
    "$@" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
}

# Name of the newest package of the distribution with a kernel of this version: the plain one, not real-time or cloud.
kernel_package() {
    case $1 in
    linux-image-*) echo "$1" ;;
    *) apt-cache search --names-only "^linux-image-${1//./\\.}[-.][-.+~0-9bpo]*-(amd64|generic)$" |
        cut -d' ' -f1 | sort -V | tail -1 ;;
    esac
}

# Packages are kept: a download for each run would be rude.
download_kernel() {
    local package
    package=$(kernel_package "$1")
    [ -n "$package" ] || fail "This distribution has no kernel $1: give the path of its package (.deb)."
    mkdir -p "$target/vm"
    compgen -G "$target/vm/${package}_*.deb" >/dev/null ||
        (cd "$target/vm" && apt-get download -q -o APT::Sandbox::User=root "$package" >&2)
    ls "$target/vm/${package}"_*.deb
}

unpack_kernel() {
    local package
    mkdir "$work/kernel"
    for package; do
        dpkg-deb --extract "$package" "$work/kernel"
    done
    compgen -G "$work/kernel/boot/vmlinuz-*" >/dev/null || fail "No kernel in $*."
    # Merged /usr: newer packages have modules there.
    if [ -d "$work/kernel/usr/lib/modules" ] && [ ! -e "$work/kernel/lib" ]; then
        ln -s usr/lib "$work/kernel/lib"
    fi
    [ -d "$work/kernel/lib/modules" ] || fail "No modules in $*: Ubuntu has them in linux-modules-..., give both."
}

# Programs and test programs, the latter under the names they have in the virtual machine.
build() {
    local program
    mkdir -p "$work/overlay"/{bin,tests}
    $cargo build --release --locked --quiet -p moorline -p moorlined -p moorline-lab
    for program in moorline moorlined moorline-lab; do
        strip --strip-debug -o "$work/overlay/bin/$program" "$target/release/$program"
    done
    # One call: of other sets of crates cargo would build other variants.
    $cargo test --locked --quiet --no-run -p moorline-bpf -p moorline-netlink -p moorline-lab \
        --message-format=json >"$work/cargo.json"
    test_program datapath io/bpf/src/lib.rs
    test_program datapath-namespaces io/bpf/tests/namespaces/main.rs
    test_program netlink-namespaces io/netlink/tests/namespaces/main.rs
    test_program lab lab/tests/lab/main.rs
    # Where the first one was compiled to look for them.
    mkdir -p "$work/overlay$PWD/tests"
    cp -r tests/vectors "$work/overlay$PWD/tests/"
    make_units
}

# The unit of the package, and what it is started with: none of the distribution's units, which would change the machine.
make_units() {
    local units=$work/overlay/units name
    mkdir "$units"
    sed 's|@PREFIX@||' packaging/moorlined.service >"$units/moorlined.service"
    for name in sysinit basic network shutdown; do
        printf '[Unit]\nDescription=%s\n' "$name" >"$units/$name.target"
    done
    printf '[Unit]\nWants=moorlined.service\n' >"$units/check.target"
    # There is no journal, so the unit writes its log into a file.
    mkdir "$units/moorlined.service.d"
    printf '[Service]\nStandardOutput=append:/run/unit.log\n' >"$units/moorlined.service.d/log.conf"
}

test_program() {
    local file
    file=$(grep -F "\"src_path\":\"$PWD/$2\"" "$work/cargo.json" | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -1)
    [ -n "$file" ] || fail "cargo built no test program of $2"
    strip --strip-debug -o "$work/overlay/tests/$1" "$file"
}

make_initramfs() {
    cp "$here/init" "$here/checks.sh" "$here/systemd" "$work/overlay/"
    chmod 755 "$work/overlay/init"
    cat >"$work/overlay/settings" <<-END
		VERBOSE=${VERBOSE:-0}
		LAB_TESTS=${LAB_TESTS:-0}
		DEMO_OPTIONS='${DEMO_OPTIONS:---send-timeout 2s --rate 500000}'
	END
    "$here/initramfs.sh" "$work/kernel" "$work/overlay" "$work/initramfs.gz"
}

# No network, no disk: what the machine needs is in its memory. The serial ports are files.
boot() {
    local kernel
    kernel=$(compgen -G "$work/kernel/boot/vmlinuz-*")
    : >"$work/checks.log"
    timeout "$time_limit" qemu-system-x86_64 -accel "tcg,thread=multi" -cpu max -smp "$(nproc)" -m "${MEMORY:-1536}" \
        -display none -monitor none -nic none -no-reboot \
        -serial "file:$work/kernel.log" -serial "file:$work/checks.log" -serial "file:$work/status" \
        -kernel "$kernel" -initrd "$work/initramfs.gz" \
        -append 'console=ttyS0 panic=-1 loglevel=6' </dev/null >"$work/qemu.log" 2>&1 &
    machine=$!
    # Shows what comes, and ends with the machine.
    tail --pid="$machine" -n +1 -f "$work/checks.log" &
    local shown=$!
    wait "$machine" || true
    machine=
    wait "$shown" || true
}

result() {
    local release status passed failed trouble='Kernel panic|BUG:|WARNING:|Oops:'
    release=$(sed -n 's/^Linux \([^ ,]*\).*/\1/p' "$work/checks.log" | head -1)
    status=$(tr -dc '0-9' <"$work/status" || true)
    passed=$(grep -cE '^[^ ].* \.\.\. ok' "$work/checks.log" || true)
    failed=$(grep -cE '^[^ ].* \.\.\. FAILED' "$work/checks.log" || true)
    [ -z "${KEEP:-}" ] || { mkdir -p "$KEEP" && cp "$work"/*.log "$KEEP/"; }
    echo
    if grep -qE "$trouble" "$work/kernel.log"; then
        grep -E -A 20 "$trouble" "$work/kernel.log" | head -80
        echo "FAILED on Linux ${release:-that did not come up}: the kernel complained"
    elif [ -z "$status" ]; then
        tail -n 5 "$work/kernel.log" "$work/qemu.log"
        echo "FAILED on Linux ${release:-that did not come up}: not done in $time_limit s, $passed checks had passed"
    elif [ "$status" != 0 ]; then
        echo "FAILED on Linux ${release:-?}: $failed of $((passed + failed)) checks"
    else
        echo "PASSED on Linux $release: $passed checks, $((SECONDS - booted)) s in the virtual machine"
        return
    fi
    return 1
}

[ "$(uname -m)" = x86_64 ] || fail 'This runs programs of this machine in an x86-64 one: not on this processor.'
install_missing
case ${1:-6.1} in
*.deb) packages=("$@") ;;
*) mapfile -t packages < <(download_kernel "${1:-6.1}") ;;
esac
[ ${#packages[@]} -gt 0 ] || exit 1
step "kernel: ${packages[*]##*/}"
unpack_kernel "${packages[@]}"
step 'building'
build
make_initramfs
step 'booting (software emulation: be patient)'
booted=$SECONDS
boot
result
