#!/bin/dash
# Runs in the virtual machine: does Moorline work on this kernel? One line for each check, then the result.
# Its log of each check goes to standard output only if the check failed, or with VERBOSE=1.
set -u
PATH=/bin
export PATH
# shellcheck disable=SC1091 # written by test.sh
. /settings

passed=0
failed=0
log=/tmp/check.log
# tcx came with Linux 6.6.
oldest=$(printf '6.6\n%s\n' "$(uname -r)" | sort -V | head -1)
if [ "$oldest" = 6.6 ]; then hooks=tcx; else hooks=tc; fi

# Runs a check in a process of its own; its output is its log.
check() {
    name=$1
    shift
    printf '%s ... ' "$name"
    began=$(date +%s)
    ("$@") >"$log" 2>&1
    status=$?
    took=$(($(date +%s) - began))
    if [ $status = 0 ]; then
        passed=$((passed + 1))
        printf 'ok, %s%d s\n' "$(sed -n 's/^NOTE \(.*\)/\1, /p' "$log" | tail -1)" "$took"
    else
        failed=$((failed + 1))
        printf 'FAILED, exit status %d, %d s\n' "$status" "$took"
    fi
    if [ $status != 0 ] || [ "${VERBOSE:-0}" = 1 ]; then
        tail -n "${LOG_LINES:-150}" "$log" | sed 's/^/    | /'
    fi
}

# A test program of cargo. One test at a time: the machine is slow.
run_tests() {
    MOORLINE_REQUIRE_ROOT=1 "$@" --test-threads=1 >/tmp/tests.log 2>&1
    status=$?
    cat /tmp/tests.log
    if grep -q '^SKIPPED ' /tmp/tests.log; then
        return 1
    fi
    sed -n 's/^test result: ok\. \([0-9]* passed\); .*/NOTE \1/p' /tmp/tests.log
    return $status
}

programs_load() {
    # One test reads the sources, which are not here.
    run_tests /tests/datapath --skip no_function_with_a_frame_of_its_own
}

datapath_between_namespaces() {
    if [ $hooks = tcx ]; then
        run_tests /tests/datapath-namespaces
    else
        run_tests /tests/datapath-namespaces --skip tcx
    fi
}

netlink_changes() {
    run_tests /tests/netlink-namespaces
}

# A host with two uplinks, in a namespace; the daemon as on a real host but for its folders. It is stopped in order,
# then killed.
daemon_attaches() {
    make_host
    state_of_host >/tmp/before
    start_daemon && uplinks_are_protected && kill -INT "$pid" && wait "$pid" && host_is_as_before &&
        start_daemon && uplinks_are_protected && kill -KILL "$pid" && ! wait "$pid" &&
        ! state_of_host | cmp -s - /tmp/before &&
        ip netns exec host moorline down --state-dir /run/host/state --pin-dir /run/host/bpf/moorline &&
        host_is_as_before
    result=$?
    kill "$pid" 2>/dev/null
    wait "$pid"
    umount /run/host/bpf
    rm -r /run/host
    ip netns del host
    echo "NOTE status says $hooks"
    return $result
}

make_host() {
    ip netns add host
    # Link-local addresses that come later would look like ours.
    ip netns exec host sysctl -qw net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0
    for isp in 1 2; do
        ip -n host link add up$isp type veth peer name isp$isp
        ip -n host link set isp$isp up
        ip -n host link set up$isp up
        ip -n host addr add 2001:db8:a$isp::a/64 dev up$isp nodad
        ip -n host route add default via 2001:db8:a$isp::1 dev up$isp metric $((isp * 1024))
    done
    mkdir -p /run/host/bpf
    mount -t bpf bpf /run/host/bpf
}

start_daemon() {
    ip netns exec host moorlined --socket /run/host/socket --state-dir /run/host/state \
        --pin-dir /run/host/bpf/moorline &
    pid=$!
    until moorline --socket /run/host/socket status; do
        kill -0 $pid || return 1
        sleep 1
    done 2>/dev/null
}

uplinks_are_protected() {
    # Addresses, and the programs with them, come a moment after the daemon answers.
    tries=30
    until moorline --socket /run/host/socket status --json >/tmp/status.json &&
        [ "$(ip -n host -6 addr show scope global | grep -c 'inet6 2001:db8:a[12]:')" -ge 4 ]; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || { ip -n host addr; return 1; }
        sleep 1
    done
    cat /tmp/status.json
    grep -qE "\"data_plane\": *\"$hooks\"" /tmp/status.json || return 1
    [ $hooks = tcx ] && return
    for isp in 1 2; do
        for hook in ingress egress; do
            tc -n host filter show dev up$isp $hook
            tc -n host filter show dev up$isp $hook | grep -q "uplink_$hook" || return 1
        done
    done
}

host_is_as_before() {
    state_of_host >/tmp/after
    diff -u /tmp/before /tmp/after && [ -z "$(ls -A /run/host/bpf)" ]
}

# What a daemon changes.
state_of_host() {
    ip -n host -o link
    ip -n host -6 -o addr show scope global
    ip -n host -6 rule
    ip -n host -6 route show table all | grep -v '^multicast' | sort
    for isp in 1 2; do
        tc -n host qdisc show dev up$isp
        tc -n host filter show dev up$isp ingress
        tc -n host filter show dev up$isp egress
    done
}

# The unit of the package under systemd, which is the first process of namespaces of its own.
unit_under_systemd() {
    if [ ! -x /lib/systemd/systemd ]; then
        echo 'NOTE not tried: no systemd on the machine that built this'
        return 0
    fi
    make_host
    # systemd sets lo up on a host.
    ip -n host link set lo up
    state_of_host >/tmp/before
    ip netns exec host unshare --pid --fork --mount --cgroup --kill-child dash /systemd &
    systemd=$!
    tries=60
    until moorline status --json >/tmp/status.json; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || break
        sleep 1
    done 2>/dev/null
    sandbox_holds && down_of_unit && host_is_as_before
    result=$?
    cat /run/unit.log
    kill -KILL $systemd
    wait $systemd
    umount /run/host/bpf
    rm -rf /run/host /run/moorline /run/unit.log /var/lib/moorline
    ip netns del host
    return $result
}

# Whether the daemon has the capabilities, the filter and the mounts of the unit.
sandbox_holds() {
    cat /tmp/status.json
    daemon=$(pidof moorlined) || return 1
    grep -E '^(Cap|NoNewPrivs|Seccomp|NSpid)' "/proc/$daemon/status"
    for line in 'CapPrm:.000000c000003000' 'CapBnd:.000000c000003000' 'NoNewPrivs:.1' 'Seccomp:.2'; do
        grep -q "^$line\$" "/proc/$daemon/status" || return 1
    done
    inside() {
        nsenter --target="$daemon" --mount --net dash -c "$1"
    }
    ls -la /run/moorline
    [ "$(stat -c %G /run/moorline/moorlined.sock)" = moorline ] || return 1
    touch /root/t
    inside 'echo 0 >/proc/sys/net/ipv6/conf/up1/optimistic_dad && touch /var/lib/moorline/t && rm /var/lib/moorline/t' ||
        return 1
    for refused in 'touch /usr/t' 'touch /etc/t' 'echo 1 >/proc/sys/net/ipv6/auto_flowlabels' 'cat /root/t'; do
        if inside "$refused"; then
            echo "allowed: $refused"
            return 1
        fi
    done 2>/dev/null
}

down_of_unit() {
    ip netns exec host dash -c 'mount --bind /run/host/bpf /sys/fs/bpf && moorline down'
}

demo_survives() {
    # shellcheck disable=SC2086 # several words
    moorline demo $DEMO_OPTIONS >/tmp/demo.log 2>&1
    status=$?
    cat /tmp/demo.log
    sed -n 's/^ *\(SURVIVED\).*/NOTE \1/p' /tmp/demo.log
    # It would fall back to the simulator, and survive there.
    [ $status = 0 ] && grep -q 'SURVIVED: .*SHA-256' /tmp/demo.log
}

survival_tests() {
    run_tests env MOORLINED=/bin/moorlined /tests/lab survival::
}

harmless_tests() {
    run_tests env MOORLINED=/bin/moorlined /tests/lab harmless::
}

# Everything in the machine that could be left over.
state_of_machine() {
    ip netns list
    ip -o link | cut -d: -f2
    ip -6 rule
    ip -6 route show table all
    sed 's/ .*bpf/ bpf/' /proc/mounts | sort
    ls -A /run /run/netns /run/moorline-lab /sys/fs/bpf
    # shellcheck disable=SC2009 # busybox has no pgrep here
    ps | grep -E '[m]oor|[i]perf3|[c]url' | grep -v '/checks.sh' | sed 's/^ *[0-9]* *//'
    if command -v bpftool >/dev/null; then
        bpftool prog list | grep -cE 'name (uplink|moor|control|tcp)'
        bpftool map list | grep -cE 'name (slots|lives|timers|contexts|flows|peers) '
    fi
}

# The kernel takes its time to free programs.
nothing_is_left() {
    tries=20
    while :; do
        state_of_machine >/tmp/machine-now
        cmp -s /tmp/machine-before /tmp/machine-now && return 0
        tries=$((tries - 1))
        [ $tries -gt 0 ] || break
        sleep 1
    done
    diff -u /tmp/machine-before /tmp/machine-now
}

echo "Linux $(uname -r), $(sed -n 's/^Linux version [^(]*//; s/.*#1/#1/p' /proc/version), $(nproc) processors"
# What the first namespace leaves is not ours.
ip netns add first
ip netns del first
mkdir -p /run/moorline-lab
state_of_machine >/tmp/machine-before

check 'every program loads, and does to packets what the vectors say' programs_load
check 'programs between namespaces' datapath_between_namespaces
check 'addresses, routes and rules by netlink' netlink_changes
check 'the daemon attaches, marks its addresses, and leaves nothing' daemon_attaches
check 'the unit under systemd, in its sandbox' unit_under_systemd
check 'the demo' demo_survives
if [ "${LAB_TESTS:-0}" = 1 ]; then
    check 'TCP and UDP through every failure' survival_tests
    check 'harmless to others' harmless_tests
fi
check 'nothing is left behind' nothing_is_left

[ $failed = 0 ]
