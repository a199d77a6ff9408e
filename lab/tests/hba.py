"""Hash-Based Addresses (RFC 5535), without a public key."""

import hashlib
import os
import struct

MULTI_PREFIX = 0x0012
# The bits of an identifier's first octet that are neither Sec nor u nor g.
HASHED = 0x1C


def der(tag, contents):
    length = len(contents)
    return bytes([tag, length] if length < 128 else [tag, 0x81, length]) + contents


def der_integer(number):
    return der(2, number.to_bytes(number.bit_length() // 8 + 1, "big"))


def hba_set(prefixes):
    """RFC 5535 s6 with Sec 0 and without a key: the addresses, and the parameters with the first prefix."""
    algorithm = der(0x30, der(6, bytes.fromhex("2a864886f70d010101")) + der(5, b""))
    extended_modifier = int.from_bytes(os.urandom(48), "big")
    numbers = der(0x30, der_integer(extended_modifier) + der_integer(65537))
    key = der(0x30, algorithm + der(3, b"\0" + numbers))
    extension = struct.pack("!HHI", MULTI_PREFIX, 4 + 8 * len(prefixes), 0) + b"".join(prefixes)
    modifier = os.urandom(16)
    parameters = [modifier + prefix + b"\0" + key + extension for prefix in prefixes]
    return [one[16:24] + identifier(one) for one in parameters], parameters[0]


def identifier(parameters):
    octets = bytearray(hashlib.sha1(parameters).digest()[:8])
    octets[0] &= HASHED
    return bytes(octets)


def prefixes_of(parameters):
    """The prefixes of the Multi-Prefix extension, behind a key whose length takes one to three octets."""
    length, at = parameters[26], 27
    if length > 128:
        at = 27 + (length & 0x7F)
        length = int.from_bytes(parameters[27:at], "big")
    at += length
    while at < len(parameters):
        kind, length = struct.unpack("!HH", parameters[at : at + 4])
        if kind == MULTI_PREFIX:
            return [parameters[one : one + 8] for one in range(at + 8, at + 4 + length, 8)]
        at += 4 + length
    return []


def is_of_set(locator, parameters):
    """RFC 5535 s7.2"""
    made = identifier(parameters[:16] + locator[:8] + parameters[24:])
    is_made = made == bytes([locator[8] & HASHED]) + locator[9:]
    hash2 = hashlib.sha1(parameters[:16] + bytes(9) + parameters[25:]).digest()
    is_hard = not any(hash2[: 2 * (locator[8] >> 5)])
    return is_made and is_hard and locator[:8] in prefixes_of(parameters)
