# Guardian of a lab: removes the lab when standard input ends. Standard input ends when the process at the other
# end has ended, in any way.
# Arguments: the lab's directory, then its namespaces.
directory=$1
shift
cat >/dev/null

processes() {
    for namespace; do
        ip netns pids "$namespace" 2>/dev/null
    done
}

signal_all() {
    for pid in $(processes "$@"); do
        kill "-$signal" "$pid" 2>/dev/null
    done
}

# SIGTERM first, so that daemons can undo their changes outside of their namespaces.
signal=TERM; signal_all "$@"
tries=30
while [ $tries -gt 0 ] && [ -n "$(processes "$@")" ]; do
    sleep 0.1
    tries=$((tries - 1))
done
signal=KILL; signal_all "$@"

for namespace; do
    [ -e "/run/netns/$namespace" ] && ip netns del "$namespace"
done

# Unmount the BPF file systems of the daemons. The pins in them end with them.
grep -o " $directory/[^ ]*" /proc/self/mounts | sort -r | while read -r mounted; do
    umount -l "$mounted"
done
rm -rf --one-file-system -- "$directory"

# Restore a kernel-wide setting, unless a process that has changed it still holds its lock.
setting=/proc/sys/kernel/bpf_stats_enabled
kept=/run/moorline-lab.bpf_stats_enabled
if [ -e "$kept" ]; then
    flock --nonblock "$setting" sh -c 'cat "$0" >"$1" && rm -f "$0"' "$kept" "$setting"
fi
exit 0
