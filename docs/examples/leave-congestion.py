#!/usr/bin/env python3
"""A controller from outside: reads congestion events of moorlined and puts contexts elsewhere.

    leave-congestion.py [--socket PATH] [--hold SECONDS] [--once]

Nothing but the standard library: HTTP over the control socket, events as server-sent events. Run it as
root or as a member of the group `moorline`.
"""

import argparse
import http.client
import json
import socket
import sys
import time


class Control(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path, timeout=None):
        super().__init__("moorlined", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def ask(path, method, request, body=None):
    control = Control(path, timeout=10)
    control.request(method, request, body and json.dumps(body))
    answer = control.getresponse()
    said = json.loads(answer.read())
    if answer.status != 200:
        raise RuntimeError(said.get("error", answer.reason))
    return said


def events(path):
    """Events as they happen, one dictionary each."""
    control = Control(path)
    control.request("GET", "/v1/events")
    for line in control.getresponse():
        if line.startswith(b"data:"):
            yield json.loads(line[5:])


def way_out(context):
    """The first pair that shares no end with the current one, else the first other that can be used."""
    current, *others = context["paths"]
    others = [p for p in others if p["state"] != "unusable" and p["preference"] != "avoid"]
    shared = lambda p: (p["local"] == current["local"]) + (p["peer"] == current["peer"])
    return min(others, key=shared, default=None)


def main():
    args = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    args.add_argument("--socket", default="/run/moorline/moorlined.sock")
    args.add_argument("--hold", type=float, default=60, help="least seconds between two moves")
    args.add_argument("--once", action="store_true", help="end after the first move")
    args = args.parse_args()
    moved = {}
    for event in events(args.socket):
        if event["kind"] != "congested":
            continue
        number, pair = event["context"], event["to"]
        print(f"congested: {pair['local']} -> {pair['peer']} ({event['reason']})", flush=True)
        # Who moves at each mark makes two paths flap instead of one.
        if time.monotonic() - moved.get(number, -args.hold) < args.hold:
            continue
        contexts = ask(args.socket, "GET", "/v1/paths")["contexts"]
        context = next((c for c in contexts if c["context"] == number), None)
        to = context and way_out(context)
        if not to:
            continue
        moved[number] = time.monotonic()
        request = {"scope": str(number), "pair": {"local": to["local"], "peer": to["peer"]}}
        for outcome in ask(args.socket, "POST", "/v1/paths/switch", request)["outcomes"]:
            print(f"#{number}: {outcome['text']}", flush=True)
            if args.once and outcome["result"] == "moved":
                return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
