#!/usr/bin/env bash
# Makes the initial RAM disk of the virtual machine: busybox, programs of this machine with their libraries, modules
# of the machine's kernel, and an overlay.
#
# Usage: initramfs.sh KERNEL_ROOT OVERLAY OUT
# KERNEL_ROOT is an unpacked kernel package; OVERLAY a folder whose files go in as they are, and programs in its bin/
# and tests/ with their libraries; OUT the file to write.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin

# What the lab, the tests and the checks call and busybox does not have, or not well enough.
programs=(dash curl ethtool ip iperf3 kmod nft nsenter radvd rm setpriv tc tcpdump unshare)
# For people who look at what went wrong.
optional=(bpftool)
# Loaded on demand, as on a real machine; with what they depend on. Those that a kernel has built in are skipped.
modules=(
    veth dummy tun ifb bridge 8021q macvlan ip6_tunnel sch_ingress sch_fq sch_fq_codel cls_bpf act_bpf act_mirred
    nf_tables nft_ct nft_log nft_limit nft_numgen nft_reject_inet nf_log_syslog inet_diag tcp_diag udp_diag tcp_bbr
)

kernel_root=$1
overlay=$2
out=$3
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

copy_libraries() {
    local library
    for library in $(ldd "$1" 2>/dev/null | grep -oE '/[^ ]+'); do
        [ -e "$root$library" ] && continue
        mkdir -p "$root$(dirname "$library")"
        cp -L "$library" "$root$library"
    done
}

copy_program() {
    local path
    path=$(type -P "$1") || { echo "$1 is not installed" >&2; return 1; }
    # Instead of busybox's link, which cp would follow.
    rm -f "$root/bin/$1"
    cp -L "$path" "$root/bin/$1"
    copy_libraries "$path"
}

copy_modules() {
    local version=$1 folder=lib/modules/$1 name file
    # Written into KERNEL_ROOT, which is ours: an unpacked package has no index yet.
    depmod --basedir "$kernel_root" "$version"
    for name in "${modules[@]}"; do
        # Fails for what this kernel does not have.
        modprobe --dirname "$kernel_root" --set-version "$version" --show-depends "$name" 2>/dev/null || true
    done | sed -n "s|^insmod $kernel_root/*\([^ ]*\).*|\1|p" | sort -u |
        while read -r file; do
            mkdir -p "$root/$(dirname "$file")"
            cp "$kernel_root/$file" "$root/$file"
        done
    mkdir -p "$root/$folder"
    cp "$kernel_root/$folder"/modules.{builtin,builtin.modinfo,order} "$root/$folder/"
    depmod --basedir "$root" "$version"
}

# One folder for programs, as in distributions with a merged /usr.
mkdir -p "$root"/{usr/bin,usr/lib,usr/lib64,proc,sys,dev,run,tmp,root,etc,var/tmp,var/lib}
ln -s usr/bin "$root/bin"
ln -s usr/bin "$root/sbin"
ln -s usr/lib "$root/lib"
ln -s usr/lib64 "$root/lib64"
ln -s bin "$root/usr/sbin"

busybox=$(type -P busybox)
cp "$busybox" "$root/bin/busybox"
for applet in $("$busybox" --list); do
    [ -e "$root/bin/$applet" ] || ln -s busybox "$root/bin/$applet"
done
for program in "${programs[@]}"; do
    copy_program "$program"
done
for program in "${optional[@]}"; do
    copy_program "$program" 2>/dev/null || true
done
ln -sf dash "$root/bin/sh"
ln -sf kmod "$root/bin/modprobe"

# systemd, for the unit. `/lib` is a link to `usr/lib` in the machine, as here.
if [ -x /lib/systemd/systemd ]; then
    mkdir -p "$root/usr/lib/systemd"
    cp -L /lib/systemd/systemd "$root/usr/lib/systemd/"
    copy_libraries /lib/systemd/systemd
fi

copy_modules "$(ls "$kernel_root/lib/modules")"

tar -C "$overlay" -c . | tar -C "$root" -x --keep-directory-symlink --no-same-owner
for file in "$overlay"/bin/* "$overlay"/tests/*; do
    [ ! -f "$file" ] || copy_libraries "$file"
done
# tcpdump becomes the user of its name.
printf '%s\n' 'root:x:0:0:root:/root:/bin/sh' 'tcpdump:x:100:100::/:/bin/false' >"$root/etc/passwd"
# The control socket belongs to the group moorline.
printf '%s\n' 'root:x:0:' 'tcpdump:x:100:' 'moorline:x:101:' >"$root/etc/group"

# ip looks names of protocols up.
cp /etc/protocols "$root/etc/protocols"

(cd "$root" && find . | cpio --quiet --create --format=newc --owner=0:0) | gzip -1 >"$out"
