"""A program as people write them: asks for something each 10 ms, over TCP or UDP, or answers.

serve tcp|udp ADDRESS PORT              answers with what it was asked
serve udp-pktinfo ADDRESS PORT              UDP on all addresses, answers from the address and interface that were asked
ask tcp|udp ADDRESS PORT SIZE [DEVICE [SOURCE]]  prints the monotonic time of each answer, in ns
once ADDRESS PORT                       connects, asks once and prints "ok"
"""
import errno
import socket
import struct
import sys
import threading
import time

EVERY = 0.01


def say(what):
    print(what, flush=True)


def exactly(sock, size):
    parts = []
    while size:
        part = sock.recv(size)
        if not part:
            raise ConnectionError("closed")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def request(number, size):
    return (struct.pack("!II", number, size) + bytes(i * 7 + number & 255 for i in range(256)) * (size // 256 + 1))[:size]


def serve_one(sock):
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            head = exactly(sock, 8)
            sock.sendall(head + exactly(sock, struct.unpack("!II", head)[1] - 8))
    except OSError:
        sock.close()


def serve_tcp(port):
    listener = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("::", port))
    listener.listen()
    say("ready")
    while True:
        threading.Thread(target=serve_one, args=(listener.accept()[0],), daemon=True).start()


def serve_udp(kind, address, port):
    sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
    sock.bind(("::" if kind == "udp-pktinfo" else address, port))
    say("ready")
    while True:
        try:
            data, info, _, client = sock.recvmsg(65536, 256)
            sock.sendmsg([data], info if kind == "udp-pktinfo" else [], 0, client)
        except OSError as error:
            print(error, file=sys.stderr, flush=True)


def open_socket(kind, options):
    sock = socket.socket(socket.AF_INET6, kind)
    if options and options[0]:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, options[0].encode())
    if len(options) > 1:
        sock.bind((options[1], 0))
    return sock


def ask_tcp(address, port, size, options):
    sock = open_socket(socket.SOCK_STREAM, options)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        sock.connect((address, port))
        number = 0
        while True:
            begin, asked = time.monotonic(), request(number, size)
            sock.sendall(asked)
            say("damaged" if exactly(sock, size) != asked else time.monotonic_ns())
            number += 1
            time.sleep(max(0, begin + EVERY - time.monotonic()))
    except OSError as error:
        say(f"ended {errno.errorcode.get(error.errno, error)}")


def receive_udp(sock, size):
    while True:
        try:
            data = sock.recv(65536)
            number = struct.unpack("!II", data[:8])[0]
            say("damaged" if data != request(number, size) else time.monotonic_ns())
        except OSError as error:
            print(error, file=sys.stderr, flush=True)
            time.sleep(EVERY)


def ask_udp(address, port, size, options):
    sock = open_socket(socket.SOCK_DGRAM, options)
    sock.connect((address, port))
    threading.Thread(target=receive_udp, args=(sock, size), daemon=True).start()
    number = 0
    while True:
        try:
            sock.send(request(number, size))
        except OSError as error:
            print(error, file=sys.stderr, flush=True)
        number += 1
        time.sleep(EVERY)


def once(address, port):
    sock = socket.create_connection((address, port), timeout=3)
    sock.sendall(request(0, 64))
    say("ok" if exactly(sock, 64) == request(0, 64) else "damaged")


def main(what, *words):
    if what == "serve" and words[0] == "tcp":
        serve_tcp(int(words[2]))
    elif what == "serve":
        serve_udp(words[0], words[1], int(words[2]))
    elif what == "ask":
        ask = ask_tcp if words[0] == "tcp" else ask_udp
        ask(words[1], int(words[2]), int(words[3]), words[4:])
    else:
        once(words[0], int(words[1]))


main(*sys.argv[1:])
