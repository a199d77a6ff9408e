"""TCP of RFC 9293 as far as a client needs that sends one segment after the other."""

import os
import struct

import raw

TCP = 6
SYN, RST, PUSH, ACK = 2, 4, 8, 16
WINDOW = 8192
# Of a number on the stream, in octets.
NUMBER_LEN = 8


class Client:
    """A connection on which numbers go, and come back."""

    protocol = TCP

    def __init__(self, ports):
        self.ports = ports
        self.sent = self.acknowledged = int.from_bytes(os.urandom(4), "big")
        # The next octet of the peer; none before the peer's SYN.
        self.expected = None
        self.waiting, self.came = b"", b""

    def next_number(self, number):
        """The number that goes next: the last one again, if it is not acknowledged."""
        if self.waiting:
            return int.from_bytes(self.waiting, "big")
        return number

    def message(self, ends, number):
        """A segment with the number, or the SYN."""
        if self.expected is None:
            return self.segment(ends, SYN, b"")
        if not self.waiting:
            self.waiting = number.to_bytes(NUMBER_LEN, "big")
        return self.segment(ends, PUSH | ACK, self.waiting)

    def acknowledgement(self, ends):
        return self.segment(ends, ACK, b"")

    def segment(self, ends, flags, data):
        fields = [*self.ports, self.sent, self.expected or 0, 5 << 4, flags, WINDOW]
        head = struct.pack("!HHIIBBH", *fields)
        sum_ = raw.checksum(*ends, TCP, head + bytes(4) + data)
        return head + struct.pack("!HH", sum_, 0) + data

    def read(self, message):
        """The numbers that came, and whether the peer waits for an acknowledgement."""
        sequence, acknowledged, length, flags = struct.unpack("!IIBB", message[4:14])
        data = message[length >> 4 << 2 :]
        if flags & RST:
            raise ConnectionResetError
        if flags & SYN:
            self.expected, self.sent = (sequence + 1) % 2**32, acknowledged
            return [], True
        if self.expected is None:
            return [], False
        if self.waiting and acknowledged == (self.sent + NUMBER_LEN) % 2**32:
            self.sent, self.waiting = acknowledged, b""
        if not data:
            return [], False
        if sequence == self.expected:
            self.expected = (sequence + len(data)) % 2**32
            self.came += data
        whole = len(self.came) // NUMBER_LEN * NUMBER_LEN
        numbers = [self.came[at : at + NUMBER_LEN] for at in range(0, whole, NUMBER_LEN)]
        self.came = self.came[whole:]
        return [int.from_bytes(one, "big") for one in numbers], True
