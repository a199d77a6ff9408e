"""A connection that is quiet, and whose client says something when it likes.

    quiet.py serve ADDRESS PORT       answers each line with the same line
    quiet.py ask LOCAL PEER PORT      one step for each line of input: sends a question, then waits for its answer, ...
"""

import socket
import sys


def serve(address, port):
    listener = socket.create_server((address, port), family=socket.AF_INET6)
    print("ready", flush=True)
    connection, _ = listener.accept()
    while octets := connection.recv(65536):
        connection.sendall(octets)


def ask(local, peer, port):
    connection = socket.create_connection((peer, port), source_address=(local, 0))
    number = 0
    while sys.stdin.readline():
        number += 1
        question = f"question {number}\n".encode()
        try:
            connection.sendall(question)
            print("sent", flush=True)
            sys.stdin.readline()
            answer = b""
            while len(answer) < len(question):
                answer += connection.recv(65536) or b"the end, and nothing more"
            print("answered" if answer == question else answer, flush=True)
        except OSError as error:
            print(error, flush=True)


if __name__ == "__main__":
    mode, *addresses, port = sys.argv[1:]
    {"serve": serve, "ask": ask}[mode](*addresses, int(port))
