"""NEGOTIATEs that contradict themselves, MS-SMB2 3.3.5.4."""

import struct

from conformance.hostile.case import ANY_ERROR, INVALID_PARAMETER, NO_PREAUTH_OVERLAP, NOT_SUPPORTED, case
from conformance.hostile.client import (
    CLOSED, CREATE, ECHO, ECHO_BODY, NEGOTIATE, SESSION_SETUP, SIGNED, SUCCESS, Raw, client, context, create_body,
    encryption, negotiate_body, preauth, setup_body, signing,
)


def negotiated(*contexts, **how):
    with Raw() as raw:
        return raw.negotiate(contexts=list(contexts), **how).status


@case("NEGOTIATE with no dialects", INVALID_PARAMETER)
def _():
    return negotiated(dialects=())


@case("NEGOTIATE with more dialects announced than sent", INVALID_PARAMETER, CLOSED)
def _():
    return negotiated(dialects=(0x0202, 0x0210), dialect_count=600)


@case("NEGOTIATE with unknown dialects only", NOT_SUPPORTED)
def _():
    return negotiated(dialects=(0x0399, 0x0777))


@case("NEGOTIATE with a wrong StructureSize", INVALID_PARAMETER, CLOSED)
def _():
    return negotiated(preauth(), structure_size=37)


@case("NEGOTIATE of 3.1.1 without contexts", INVALID_PARAMETER)
def _():
    return negotiated()


@case("NEGOTIATE of 3.1.1 without pre-authentication integrity", INVALID_PARAMETER)
def _():
    return negotiated(encryption(2))


@case("NEGOTIATE with two pre-authentication contexts", INVALID_PARAMETER)
def _():
    return negotiated(preauth(), preauth())


@case("NEGOTIATE with two encryption contexts", INVALID_PARAMETER)
def _():
    return negotiated(preauth(), encryption(2), encryption(1))


@case("NEGOTIATE with two signing contexts", INVALID_PARAMETER)
def _():
    return negotiated(preauth(), signing(0), signing(1))


@case("NEGOTIATE with a pre-authentication context of no algorithms", INVALID_PARAMETER, NO_PREAUTH_OVERLAP)
def _():
    return negotiated(preauth(algorithms=()))


@case("NEGOTIATE with an unknown hash only", NO_PREAUTH_OVERLAP)
def _():
    return negotiated(preauth(algorithms=(99,)))


@case("NEGOTIATE with a pre-authentication context that is too short", INVALID_PARAMETER)
def _():
    return negotiated(context(1, b"\x01"))


@case("NEGOTIATE with a hash count beyond its context", INVALID_PARAMETER)
def _():
    return negotiated(context(1, struct.pack("<HHH", 60000, 32, 1) + bytes(32)))


@case("NEGOTIATE with an encryption context that is too short", INVALID_PARAMETER)
def _():
    return negotiated(preauth(), context(2, b"\x01"))


@case("NEGOTIATE with a cipher count beyond its context", INVALID_PARAMETER)
def _():
    return negotiated(preauth(), context(2, struct.pack("<HH", 60000, 2)))


@case("NEGOTIATE with more contexts announced than sent", INVALID_PARAMETER, CLOSED)
def _():
    return negotiated(preauth(), encryption(2), context_count=500)


@case("NEGOTIATE with contexts beyond the message", INVALID_PARAMETER, CLOSED)
def _():
    return negotiated(preauth(), context_offset=0xFFFFFFF0)


@case("NEGOTIATE with contexts inside the header", INVALID_PARAMETER, CLOSED)
def _():
    return negotiated(preauth(), context_offset=8)


@case("NEGOTIATE with a context longer than the message", INVALID_PARAMETER, CLOSED)
def _():
    return negotiated(context(1, struct.pack("<HHH", 1, 0, 1), length=0xFFFF))


@case("NEGOTIATE with contexts of unknown kinds is answered", SUCCESS)
def _():
    return negotiated(context(0x7777, bytes(40)), preauth(), context(0x0100, b"x"))


@case("NEGOTIATE without a common cipher is answered", SUCCESS)
def _():
    return negotiated(preauth(), encryption(99))


@case("NEGOTIATE with the signed flag", INVALID_PARAMETER, CLOSED)
def _():
    with Raw() as raw:
        return raw.call(NEGOTIATE, negotiate_body(contexts=[preauth()]), flags=SIGNED).status


@case("a second NEGOTIATE", CLOSED)
def _():
    with Raw() as raw:
        raw.negotiate()
        return raw.negotiate().status


@case("a second NEGOTIATE after login", CLOSED)
def _():
    with client() as raw:
        return raw.call(NEGOTIATE, negotiate_body(contexts=[preauth()])).status


@case("SESSION_SETUP before NEGOTIATE", CLOSED, ANY_ERROR)
def _():
    with Raw() as raw:
        return raw.call(SESSION_SETUP, setup_body(b"NTLMSSP\0" + bytes(32))).status


@case("CREATE before NEGOTIATE", CLOSED, ANY_ERROR)
def _():
    with Raw() as raw:
        return raw.call(CREATE, create_body("x")).status


@case("ECHO before NEGOTIATE", CLOSED, ANY_ERROR, SUCCESS)
def _():
    with Raw() as raw:
        return raw.call(ECHO, ECHO_BODY).status
