"""NTLMv2 (MS-NLMP 3.3.2) with as little as a server takes, so that thousands of sign-ins a second can be sent: no MIC, no key exchange."""

import functools
import hmac
import os
import struct

from spnego._ntlm_raw.crypto import ntowfv1

from conformance.hostile.client import unwrapped

# Unicode, request target, sign, NTLM, always sign, extended session security, target info, 128 bits.
FLAGS = 0x20888215 & ~0x8000 | 0x8000
NEGOTIATE = b"NTLMSSP\0" + struct.pack("<II", 1, FLAGS)


def negotiate(length=32):
    """A NEGOTIATE_MESSAGE, as long as is wanted: names that nobody reads fill it."""
    return NEGOTIATE + bytes(length - len(NEGOTIATE))


@functools.cache
def key_of(user, password):
    return hmac.digest(ntowfv1(password), user.upper().encode("utf-16-le"), "md5")


def authenticate(answer_body, user, password):
    """The AUTHENTICATE_MESSAGE for a challenge, and the session's key."""
    challenge = unwrapped(answer_body)
    length, _, offset = struct.unpack_from("<HHI", challenge, 40)
    key = key_of(user, password)
    blob = struct.pack("<BBHIQ", 1, 1, 0, 0, 0) + os.urandom(8) + bytes(4) + challenge[offset:offset + length] + bytes(4)
    proof = hmac.digest(key, challenge[24:32] + blob, "md5")
    return message(user, proof + blob), hmac.digest(key, proof, "md5")


def message(user, response):
    """An AUTHENTICATE_MESSAGE (MS-NLMP 2.2.1.3) with this name and this response."""
    name = user.encode("utf-16-le")
    head, payload = b"NTLMSSP\0" + struct.pack("<I", 3), b""
    for data in (bytes(24), response, b"", name, b"", b""):
        head += struct.pack("<HHI", len(data), len(data), 64 + len(payload))
        payload += data
    return head + struct.pack("<I", FLAGS) + payload
