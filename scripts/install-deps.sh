#!/usr/bin/env bash
# Installs what building and the demo need and the machine lacks, from the distribution's packages
# (Debian 12, Ubuntu 24.04 and their like). Says what it does; does nothing when nothing is missing.
#
# Without root it uses sudo. If that cannot be, it fails when something to build with is missing, and only says so
# when it is something to run the demo and the tests in namespaces with.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin

# Versions of clang that the eBPF programs are known to compile with, best first.
clang_versions='22 21 20 19 18 17 16 15 14'

# What is missing. To build: clang, libbpf's libraries (libbpf itself is in the crate), headers of the kernel. To run:
# what the testbed calls.
missing_to_build() {
    has_clang || clang_package
    has cc || echo gcc
    has make || echo make
    has pkg-config || echo pkg-config
    has_header stdio.h || echo libc6-dev
    has_header linux/bpf.h || echo linux-libc-dev
    has_header gelf.h || echo libelf-dev
    has_header zlib.h || echo zlib1g-dev
}

missing_to_run() {
    has ip && has tc || echo iproute2
    has sysctl || echo procps
    has unshare || echo util-linux
    has iperf3 || echo iperf3
    has curl || echo curl
    has jq || echo jq
    has python3 || echo python3
    has nft || echo nftables
    has tcpdump || echo tcpdump
    has ethtool || echo ethtool
    has radvd || echo radvd
    has named || echo bind9
    has atk6-denial6 || echo thc-ipv6
    has frag6 || echo ipv6toolkit
    has bpftool || bpftool_package
    has systemd-analyze || echo systemd
}

has() {
    command -v "$1" >/dev/null
}

has_header() {
    [ -e "/usr/include/$1" ] || compgen -G "/usr/include/*-linux-gnu/$1" >/dev/null
}

has_clang() {
    local version
    [ -n "${CLANG:-}" ] && has "$CLANG" && return
    for version in $clang_versions; do
        has "clang-$version" && return
    done
    has clang || return
    version=$(clang -dumpversion)
    [ "${version%%.*}" -ge 14 ]
}

# The newest that the distribution has.
clang_package() {
    local version
    for version in $clang_versions; do
        if apt-cache show "clang-$version" >/dev/null 2>&1; then
            echo "clang-$version"
            return
        fi
    done
    echo clang
}

# A package of its own in Debian, a part of another one in Ubuntu.
bpftool_package() {
    if apt-cache show bpftool >/dev/null 2>&1; then
        echo bpftool
    else
        echo linux-tools-common
    fi
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif has sudo; then
        sudo "$@"
    else
        return 1
    fi
}

install() {
    echo "Installing from the distribution: $*"
    # Tests run name servers of their own, in namespaces: this machine shall not become one.
    if [[ " $* " == *' bind9 '* ]] && has systemctl && as_root systemctl mask named.service 2>/dev/null; then
        echo 'BIND will not run as a service. To change that: systemctl unmask named'
    fi
    # The names of packages may have to be learned first.
    as_root apt-get update -q ||
        echo "apt-get update failed: trying with the lists there are." >&2
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@"
}

read -r -d '' -a build < <(missing_to_build) || true
read -r -d '' -a run < <(missing_to_run) || true
missing=("${build[@]}" "${run[@]}")
[ "${#missing[@]}" = 0 ] && exit 0

if has apt-get; then
    # The names of packages can depend on lists that are not there yet.
    if ! compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null; then
        as_root apt-get update -q || true
        read -r -d '' -a build < <(missing_to_build) || true
        read -r -d '' -a run < <(missing_to_run) || true
    fi
    install "${build[@]}" "${run[@]}" || true
fi

read -r -d '' -a build < <(missing_to_build) || true
read -r -d '' -a run < <(missing_to_run) || true
if [ "${#run[@]}" != 0 ]; then
    echo "Missing to run the demo and the tests in namespaces (Debian's names): ${run[*]}" >&2
fi
if [ "${#build[@]}" != 0 ]; then
    echo "Missing to build (Debian's names): ${build[*]}. Install these as root, then try again." >&2
    exit 1
fi
