"""A node that speaks ILNPv6 by RFC 6744 and knows nothing of Moorline: octets by hand. Needs root.

    plain_peer.py NEW-ADDRESS     says "ready" and "answered" when it has shown its nonce in an Echo Reply; at the next line of input tells that it
                                  is at the locator of NEW-ADDRESS, by a Locator Update of 24 octets, and says "acknowledged" when an answer
                                  of the same form has come
"""

import select
import socket
import sys

NONCE = bytes([0x8B, 4, 0xA1, 2, 3, 4])
ECHO_REQUEST, ECHO_REPLY, LOCATOR_UPDATE = 128, 129, 156
ADVERTISEMENT, ACKNOWLEDGEMENT = 1, 2


def summed(source, destination, message):
    """The message with its checksum: `source` and `destination` may be identifiers alone."""
    message = message[:2] + bytes(2) + message[4:]
    octets = source + destination + len(message).to_bytes(4, "big") + bytes([0, 0, 0, 58]) + message
    total = sum(int.from_bytes(octets[at : at + 2], "big") for at in range(0, len(octets), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return message[:2] + (0xFFFF - total).to_bytes(2, "big") + message[4:]


def packet(source, destination, message):
    """An IPv6 packet with a Destination Options header that has the nonce."""
    payload = bytes([58, 0]) + NONCE + message
    return bytes([0x60, 0, 0, 0]) + len(payload).to_bytes(2, "big") + bytes([60, 64]) + source + destination + payload


def update(operation, locator):
    return bytes([LOCATOR_UPDATE, 0, 0, 0, 1, operation, 0, 0]) + locator + bytes([10, 0, 0, 0, 30, 0, 0, 0])


def main():
    locator = socket.inet_pton(socket.AF_INET6, sys.argv[1])[:8]
    link = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x86DD))
    print("ready", flush=True)
    here = None
    while True:
        readable, _, _ = select.select([link, sys.stdin], [], [])
        if sys.stdin in readable:
            if not sys.stdin.readline():
                return
            source, destination, place = here
            message = summed(source[8:], destination[8:], update(ADVERTISEMENT, locator))
            link.sendto(packet(source, destination, message), place)
        if link not in readable:
            continue
        octets, (interface, protocol, kind, hardware, address) = link.recvfrom(2048)
        # A Destination Options header with a nonce of 32 bits and nothing else, and ICMPv6.
        if kind == socket.PACKET_OUTGOING or octets[6] != 60 or octets[40:44] != bytes([58, 0]) + NONCE[:2]:
            continue
        source, destination, message = octets[8:24], octets[24:40], octets[48:]
        place = (interface, protocol, 0, 0, address)
        if message[0] == ECHO_REQUEST:
            answer = summed(destination, source, bytes([ECHO_REPLY]) + message[1:])
            link.sendto(packet(destination, source, answer), place)
            if here is None:
                here = (destination, source, place)
                print("answered", flush=True)
        if message == summed(source[8:], destination[8:], update(ACKNOWLEDGEMENT, locator)):
            print("acknowledged", flush=True)


main()
