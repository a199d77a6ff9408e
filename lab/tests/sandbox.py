"""Runs a program in the sandbox that a systemd unit describes, where no systemd is process 1.

Usage: sandbox.py UNIT WRITABLE -- PROGRAM ARGUMENT...
The folder WRITABLE stands for the state directory, /run/moorline and /sys/fs/bpf. The script applies each directive
of the sandbox by hand: mounts, bounding set, seccomp filter. A directive that the script does not know is an error, so that
no directive goes into the unit untried.
"""

import ctypes
import errno
import glob
import os
import platform
import re
import struct
import subprocess
import sys

LIBC = ctypes.CDLL(None, use_errno=True)

# Directives that describe no sandbox, or that hold for every program a test starts.
OTHER = """Type ExecStartPre ExecStart ExecReload Restart RestartSec StateDirectory StateDirectoryMode
    LimitMEMLOCK LimitNOFILE""".split()
# Directives with the only value that the script can apply.
FIXED = {name: "yes" for name in """NoNewPrivileges ProtectHome PrivateTmp PrivateDevices PrivateMounts ProtectClock
    ProtectControlGroups ProtectHostname ProtectKernelLogs ProtectKernelModules RestrictNamespaces
    RestrictRealtime RestrictSUIDSGID LockPersonality MemoryDenyWriteExecute""".split()}
FIXED |= {"ProtectSystem": "strict", "ProtectProc": "invisible", "SystemCallArchitectures": "native",
          "SystemCallErrorNumber": "EPERM"}
VALUES = "CapabilityBoundingSet UMask ReadOnlyPaths ReadWritePaths RestrictAddressFamilies SystemCallFilter Environment".split()

FAMILIES = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10, "AF_NETLINK": 16, "AF_PACKET": 17}
CAPABILITIES = {"CAP_CHOWN": 0, "CAP_SETPCAP": 8, "CAP_NET_ADMIN": 12, "CAP_NET_RAW": 13, "CAP_SYS_RESOURCE": 24,
                "CAP_PERFMON": 38, "CAP_BPF": 39}
# linux/audit.h
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}


def call(what, result):
    """Checks the result of a function of the C library."""
    if result < 0:
        number = ctypes.get_errno()
        sys.exit(f"sandbox.py: {what}: {os.strerror(number)}")


def directives(unit):
    """The directives of [Service] with their values."""
    section, found = None, {}
    for line in open(unit):
        line = line.strip()
        if line.startswith("["):
            section = line
        elif section == "[Service]" and line and line[0] not in "#;":
            name, value = line.split("=", 1)
            found.setdefault(name, []).append(value)
    for name, values in found.items():
        known = name in OTHER or name in VALUES or values == [FIXED.get(name)]
        if not known:
            sys.exit(f"sandbox.py: {name}={values} is not known here: add it")
    missing = set(FIXED) - set(found)
    if missing:
        sys.exit(f"sandbox.py: the unit lacks {sorted(missing)}")
    return found


# Mounts

MS_RDONLY, MS_BIND, MS_REC, MS_PRIVATE = 1, 4096, 16384, 1 << 18
MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE, ATTR_RDONLY = 442, -100, 0x8000, 1
CLONE_NEWNS, CLONE_NEWUTS = 0x20000, 0x4000000


def mount(source, target, kind=None, flags=0, data=None):
    octets = [text and text.encode() for text in (source, target, kind)]
    call(f"mount {target}", LIBC.mount(*octets, ctypes.c_ulong(flags), data and data.encode()))


def bind(path):
    mount(path, path, flags=MS_BIND | MS_REC)


def set_read_only(path, is_read_only):
    """Sets or clears MOUNT_ATTR_RDONLY of a mount and of those below it."""
    set_, clear = (ATTR_RDONLY, 0) if is_read_only else (0, ATTR_RDONLY)
    attributes = struct.pack("QQQQ", set_, clear, 0, 0)
    result = LIBC.syscall(MOUNT_SETATTR, AT_FDCWD, path.encode(), AT_RECURSIVE, attributes, len(attributes))
    call(f"mount_setattr {path}", result)


def apply_mounts(writable, read_only, also_writable):
    call("unshare", LIBC.unshare(CLONE_NEWNS | CLONE_NEWUTS))
    mount(None, "/", flags=MS_REC | MS_PRIVATE)
    bind(writable)
    set_read_only("/", True)
    for path in [writable, "/sys"]:
        set_read_only(path, False)
    mount("proc", "/proc", "proc", data="hidepid=invisible")
    for paths, is_read_only in [(read_only + ["/sys/fs/cgroup"], True), (also_writable, False)]:
        for path in filter(os.path.exists, paths):
            bind(path)
            set_read_only(path, is_read_only)
    for path in ["/tmp", "/var/tmp"]:
        mount("tmpfs", path, "tmpfs")
    hidden = ["/home", "/root", "/run/user", "/lib/modules", "/usr/lib/modules"]
    for path in filter(os.path.isdir, hidden):
        mount("tmpfs", path, "tmpfs", MS_RDONLY, "mode=000")
    apply_devices()


def apply_devices():
    nodes = ["null", "zero", "full", "random", "urandom", "tty"]
    held = {node: os.open(f"/dev/{node}", os.O_PATH) for node in nodes}
    mount("tmpfs", "/dev", "tmpfs", data="mode=755")
    for node, descriptor in held.items():
        open(f"/dev/{node}", "x").close()
        mount(f"/proc/self/fd/{descriptor}", f"/dev/{node}", flags=MS_BIND)
        os.close(descriptor)
    set_read_only("/dev", True)


# Capabilities

PR_CAPBSET_READ, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 23, 24, 38


def apply_bounding_set(names):
    kept = {CAPABILITIES[name] for name in names}
    for number in range(64):
        if number not in kept and LIBC.prctl(PR_CAPBSET_READ, number) == 1:
            call(f"drop capability {number}", LIBC.prctl(PR_CAPBSET_DROP, number, 0, 0, 0))


# Seccomp

PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
LOAD, AND, EQUAL, RETURN = 0x20, 0x54, 0x15, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
NUMBER_AT, ARCHITECTURE_AT, ARGUMENTS_AT = 0, 4, 16
CLONE_ANY_NAMESPACE = 0x7E020080
O_CREAT, SET_ID, PROT_WRITE_EXEC, PROT_EXEC, SHM_EXEC = 0o100, 0o6000, 6, 4, 0o100000


def numbers():
    """System calls of this machine by name, from the headers of the kernel."""
    places = ["/usr/include/*/asm/unistd_64.h", "/usr/include/asm/unistd_64.h", "/usr/include/asm-generic/unistd.h"]
    files = [file for place in places for file in sorted(glob.glob(place))]
    if not files:
        sys.exit("sandbox.py: no header of the kernel has the numbers of system calls")
    pairs = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", open(files[0]).read())
    return {name: int(number) for name, number in pairs}


def members(entry):
    """System calls of an entry of SystemCallFilter=: a name, or a group of systemd."""
    if not entry.startswith("@"):
        return {entry}
    shown = subprocess.run(["systemd-analyze", "syscall-filter", entry], check=True, capture_output=True, text=True)
    lines = [line.strip() for line in shown.stdout.splitlines()]
    inner = [line for line in lines[1:] if line and not line.startswith("#")]
    return set().union(*map(members, inner))


def allowed_calls(filters):
    allowed = set()
    for text in filters:
        for entry in text.lstrip("~").split():
            allowed = allowed - members(entry) if text.startswith("~") else allowed | members(entry)
    # Directives such as ProtectKernelModules= take these.
    for group in ["@module", "@raw-io", "@clock"]:
        allowed -= members(group)
    return allowed - {"syslog", "sethostname", "setdomainname", "setns", "personality"}


def seccomp_filter(allowed, families, known):
    """The classic BPF program."""
    load_number = (LOAD, 0, 0, NUMBER_AT)
    refuse = (RETURN, 0, 0, ERRNO | errno.EPERM)
    program = [(LOAD, 0, 0, ARCHITECTURE_AT), (EQUAL, 1, 0, ARCHITECTURES[platform.machine()]), refuse, load_number]

    def for_call(name, steps):
        if name in known:
            steps = steps + [load_number]
            program.extend([(EQUAL, 0, len(steps), known[name])] + steps)

    def refuse_bits(name, argument, mask, is_all=False):
        jump = (EQUAL, 0, 1, mask) if is_all else (EQUAL, 1, 0, 0)
        for_call(name, [(LOAD, 0, 0, ARGUMENTS_AT + 8 * argument), (AND, 0, 0, mask), jump, refuse])

    # RestrictAddressFamilies=
    checks = [(EQUAL, len(families) - place, 0, FAMILIES[name]) for place, name in enumerate(families)]
    wrong = (RETURN, 0, 0, ERRNO | errno.EAFNOSUPPORT)
    for_call("socket", [(LOAD, 0, 0, ARGUMENTS_AT)] + checks + [wrong])
    # RestrictNamespaces=
    for name in ["clone", "unshare"]:
        refuse_bits(name, 0, CLONE_ANY_NAMESPACE)
    for name in ["clone3", "openat2"]:
        for_call(name, [(RETURN, 0, 0, ERRNO | errno.ENOSYS)])
    # MemoryDenyWriteExecute=
    refuse_bits("mmap", 2, PROT_WRITE_EXEC, is_all=True)
    for name in ["mprotect", "pkey_mprotect"]:
        refuse_bits(name, 2, PROT_EXEC)
    refuse_bits("shmat", 2, SHM_EXEC)
    # RestrictSUIDSGID=
    modes = dict(chmod=1, fchmod=1, fchmodat=2, mkdir=1, mkdirat=2, creat=1, open=2, openat=3)
    for name, argument in modes.items():
        refuse_bits(name, argument, SET_ID)
    # RestrictRealtime=
    for name in ["sched_setscheduler", "sched_setattr"]:
        for_call(name, [refuse])
    for number in sorted({known[name] for name in allowed if name in known}):
        program.extend([(EQUAL, 0, 1, number), (RETURN, 0, 0, ALLOW)])
    return program + [refuse]


def apply_seccomp(program):
    octets = b"".join(struct.pack("HBBI", *step) for step in program)
    memory = ctypes.create_string_buffer(octets)
    header = struct.pack("HxxxxxxQ", len(program), ctypes.addressof(memory))
    call("seccomp", LIBC.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, header, 0, 0))


def main():
    unit, writable, dashes, program, *arguments = sys.argv[1:]
    if dashes != "--":
        sys.exit(__doc__)
    found = directives(unit)

    def words(name):
        return " ".join(found[name]).split()

    read_only, also_writable = ([path.lstrip("-") for path in words(f"{kind}Paths")] for kind in ["ReadOnly", "ReadWrite"])
    calls = seccomp_filter(allowed_calls(found["SystemCallFilter"]), words("RestrictAddressFamilies"), numbers())
    environment = os.environ | dict(pair.split("=", 1) for pair in words("Environment"))
    # PrivateTmp= and ProtectHome= may hide the program.
    file = os.open(program, os.O_RDONLY)
    apply_mounts(writable, read_only, also_writable)
    os.chdir("/")
    os.umask(int(found["UMask"][0], 8))
    apply_bounding_set(words("CapabilityBoundingSet"))
    call("no_new_privs", LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    apply_seccomp(calls)
    os.execve(file, [program, *arguments], environment)


main()
