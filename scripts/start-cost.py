#!/usr/bin/env python3
"""Times the start of moorlined with many contexts, in a network namespace of its own (as root).

Usage: scripts/start-cost.py [--unmoved] [--shuffled] [--forked] [--alone] [--contexts N] [--restarts N] [--cli PATH]
       [FOLDER OF THE BINARIES]

Makes up a contexts.json, as a daemon of the same boot leaves it, and prints the seconds from the start of the process to
READY=1, and until the daemon logs that it has taken over all contexts, with empty tables, some times after SIGTERM, and
after SIGKILL; how long SIGTERM takes; the longest time that `moorline status` takes until all contexts are there; and the
size of the file. With --alone nobody asks for the status meanwhile. The processor time of the daemon until READY=1, and
until all contexts are there, in brackets, depends less on what else the machine does.
"""
import argparse
import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import tempfile
import threading
import time

NAMESPACE = "moorline-start-cost"


def ip(*words):
    subprocess.run(["ip", *words], check=True)


@contextlib.contextmanager
def host(folder):
    """A host with two uplinks, whose routers answer nothing."""
    pins = os.path.join(folder, "bpf")
    os.mkdir(pins)
    ip("netns", "add", NAMESPACE)
    try:
        subprocess.run(["mount", "-t", "bpf", "bpf", pins], check=True)
        for isp in "12":
            on_host = ["-n", NAMESPACE]
            ip(*on_host, "link", "add", "up" + isp, "type", "veth", "peer", "name", "isp" + isp)
            for end in ("isp" + isp, "up" + isp):
                ip(*on_host, "link", "set", end, "up")
            ip(*on_host, "addr", "add", f"2001:db8:a{isp}::a/64", "dev", "up" + isp, "nodad")
            ip(*on_host, "neigh", "add", "fe80::1", "lladdr", "02:00:00:00:00:0" + isp, "dev", "up" + isp)
            metric = str(1024 * int(isp))
            ip(*on_host, "route", "add", "default", "via", "fe80::1", "dev", "up" + isp, "metric", metric)
        yield
    finally:
        subprocess.run(["umount", pins], check=False)
        ip("netns", "del", NAMESPACE)


class Daemon:
    def __init__(self, folder, binaries, cli, max_contexts):
        self.inside = ["ip", "netns", "exec", NAMESPACE]
        self.folder, self.binaries, self.cli = folder, binaries, cli
        with open(os.path.join(folder, "moorlined.toml"), "w", encoding="ascii") as settings:
            settings.write(f"max-contexts = {max_contexts}\n")

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self):
        """Seconds until the daemon is ready."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
            told.bind(self.path("notify"))
            told.settimeout(600)
            options = ["--config", "moorlined.toml", "--state-dir", "state", "--pin-dir", "bpf/moorline", "--socket", "socket"]
            options = [self.path(word) if at % 2 else word for at, word in enumerate(options)]
            with open(self.path("log"), "a", encoding="utf-8") as log:
                self.log_before = log.tell()
                began = time.monotonic()
                command = [*self.inside, os.path.join(self.binaries, "moorlined"), *options]
                environment = {**os.environ, "NOTIFY_SOCKET": self.path("notify")}
                self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
            while b"READY=1" not in told.recv(4096):
                pass
        os.unlink(self.path("notify"))
        self.began = began
        return time.monotonic() - began

    def processor(self):
        """Seconds of processor time that the daemon has used."""
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as stat:
            times = stat.read().rpartition(")")[2].split()[11:13]
        return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")

    def take_over(self, contexts, is_asked):
        """Seconds and processor seconds from the start until the daemon has so many contexts, and the longest time of an
        answer meanwhile."""
        longest, is_over = [0], threading.Event()

        def ask():
            while not is_over.is_set():
                longest.append(self.status()[0])
                is_over.wait(max(0.3, 5 * longest[-1]))  # `moorline status` looks at all contexts

        asker = threading.Thread(target=ask)
        if is_asked:
            asker.start()
        while not self.has_logged("took over from the run before"):
            if self.process.poll() is not None:
                raise SystemExit("the daemon has ended")
            time.sleep(0.01)
        there, used = time.monotonic() - self.began, self.processor()
        is_over.set()
        if is_asked:
            asker.join()
        established = self.status()[1]["contexts"]["established"]
        if established != contexts:
            raise SystemExit(f"{established} contexts of {contexts} are there")
        return there, used, max(longest)

    def has_logged(self, text):
        """Whether this run has logged a line with this text."""
        with open(self.path("log"), encoding="utf-8") as log:
            log.seek(self.log_before)
            return text in log.read()

    def end(self, number):
        """Seconds until the process has ended."""
        began = time.monotonic()
        self.process.send_signal(number)
        self.process.wait(600)
        return time.monotonic() - began

    def status(self):
        """Seconds that the answer takes, and the answer."""
        began = time.monotonic()
        command = [*self.inside, self.cli, "--socket", self.path("socket"), "status", "--json"]
        answer = subprocess.run(command, check=True, capture_output=True).stdout
        return time.monotonic() - began, json.loads(answer)


def contexts(count, ours, options):
    """Contexts from one of our addresses: with as many peers, or with a quarter of that and three forks for each pair."""
    drawn = random.Random(1)
    slots = list(range(count))
    if options.shuffled:
        drawn.shuffle(slots)
    for number, slot in enumerate(slots):
        peer, fork = divmod(number, 4) if options.forked else (number, 0)
        peers = [f"2001:db8:{isp}{peer >> 12:x}:{peer & 0xfff:x}::1" for isp in "cd"]
        ulids, moved = ({"local": own, "peer": peer} for own, peer in zip(ours, peers))
        tags = [list(drawn.getrandbits(47).to_bytes(6, "big")) for _ in range(2)]
        yield {
            "id": slot, "key": {"ulids": ulids, "forked_instance": fork},
            "local_tag": tags[0], "peer_tag": tags[1], "locators": ulids if options.unmoved else moved,
            "local_locators": ours, "told_preferences": False, "role": "Initiator",
            "peer": {"locators": peers, "listed": 2, "generation": 1, "send_timeout": 15000, "preferences": []},
        }


def our_addresses(daemon):
    """Those that prove each other, once both uplinks have one."""
    while True:
        uplinks = daemon.status()[1]["uplinks"]
        locators = [own for uplink in uplinks for own in uplink["locators"]]
        proved = [own["address"] for own in locators if own["announced"] and own["proof"] != "none"]
        if len(proved) == 2:
            return proved
        time.sleep(0.2)


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--unmoved", action="store_true", help="no context has moved")
    options.add_argument("--shuffled", action="store_true", help="the slots are in no order")
    options.add_argument("--forked", action="store_true", help="each pair has four contexts, three of them forked")
    options.add_argument("--alone", action="store_true", help="nobody asks for the status meanwhile")
    options.add_argument("--contexts", type=int, default=65536, help="how many (default: 65536)")
    options.add_argument("--restarts", type=int, default=3, help="how often after SIGTERM (default: 3)")
    options.add_argument("--cli", help="the moorline to ask with (default: that of the binaries)")
    options.add_argument("binaries", nargs="?", default="target/release", help="default: target/release")
    options = options.parse_args()
    with tempfile.TemporaryDirectory() as folder, host(folder):
        binaries = os.path.abspath(options.binaries)
        cli = os.path.abspath(options.cli or os.path.join(binaries, "moorline"))
        daemon = Daemon(folder, binaries, cli, max(options.contexts, 65536))
        daemon.start()
        try:
            ours = our_addresses(daemon)
            daemon.end(signal.SIGTERM)
            with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
                boot = file.read().strip()
            saved = {"boot_id": boot, "contexts": list(contexts(options.contexts, ours, options))}
            with open(daemon.path("state/contexts.json"), "w", encoding="ascii") as file:
                json.dump(saved, file)
            ends = ["empty tables"] + [signal.SIGTERM] * options.restarts + [signal.SIGKILL]
            for end in ends:
                before = end if end == "empty tables" else f"{end.name} {daemon.end(end):.2f} s"
                ready, at_ready = daemon.start(), daemon.processor()
                there, used, answered = daemon.take_over(options.contexts, not options.alone)
                ready, there = f"{ready:.2f} s ({at_ready:.2f} s)", f"{there:.2f} s ({used:.2f} s)"
                size = os.path.getsize(daemon.path("state/contexts.json")) / 2**20
                asked = "" if options.alone else f", status within {answered:.3f} s"
                print(f"{before}: ready after {ready}, all after {there}{asked}, file {size:.1f} MiB", flush=True)
        finally:
            if daemon.process.poll() is None:
                daemon.end(signal.SIGINT)


main()
