# Guardian of a lab: removes all of it when standard input ends, that is, when the process that
# holds the other end is gone, however it went.
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

# Daemons get the time to undo what they did outside of their namespace.
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

# BPF file systems of the daemons: what is pinned in them goes with them.
grep -o " $directory/[^ ]*" /proc/self/mounts | sort -r | while read -r mounted; do
    umount -l "$mounted"
done
rm -rf --one-file-system -- "$directory"

# A setting of the whole kernel: who has changed it holds its lock.
setting=/proc/sys/kernel/bpf_stats_enabled
kept=/run/moorline-lab.bpf_stats_enabled
if [ -e "$kept" ]; then
    flock --nonblock "$setting" sh -c 'cat "$0" >"$1" && rm -f "$0"' "$kept" "$setting"
fi
exit 0
