"""Logins that lie, sessions that are not one's own, signatures and seals that are wrong."""

import os
import struct

import spnego

from conformance.hostile.case import (
    ACCESS_DENIED, ANY_ERROR, INVALID_PARAMETER, LOGON_FAILURE, NETWORK_NAME_DELETED, REQUEST_NOT_ACCEPTED, USER_SESSION_DELETED, alive, case,
)
from conformance.hostile.client import (
    CLOSED, ECHO, ECHO_BODY, LOGOFF, MORE_PROCESSING_REQUIRED, READ, SESSION_SETUP, SIGNED, SUCCESS,
    TREE_CONNECT, TREE_DISCONNECT, Closed, Raw, client, der, parsed, read_body, setup_body, tree_body, unwrapped,
    wrapped,
)

DEEP = 10_000
LOGOFF_BODY = struct.pack("<HH", 4, 0)
BIND = 1


def setup(token, **how):
    """The answer to a SESSION_SETUP on a new connection."""
    with Raw() as raw:
        raw.negotiate()
        return raw.call(SESSION_SETUP, setup_body(token, **how)).status


def first_token():
    login = spnego.client("user", "password", hostname="host", service="cifs", protocol="ntlm")
    return login, login.step()


def authenticated(change, username=None, password=None):
    """The answer to an AUTHENTICATE message that was changed before it was sent."""
    with Raw() as raw:
        raw.negotiate()
        login = spnego.client(username or os.environ["SMB_USER"], password or os.environ["SMB_PASSWORD"],
                              hostname="host", service="cifs", protocol="ntlm")
        answer = raw.call(SESSION_SETUP, setup_body(wrapped(login.step())))
        raw.session_id = answer.session_id
        token = change(bytearray(login.step(unwrapped(answer.body))))
        return raw.call(SESSION_SETUP, setup_body(wrapped(bytes(token), login))).status


def without_mic(token):
    """The message as a client sends it that computes no MIC: the field zeroed. Its flag stays, as in a downgrade."""
    token[72:88] = bytes(16)
    return token


@case("login with a token beyond the message", INVALID_PARAMETER, CLOSED)
def _():
    return setup(b"abc", offset=60000, length=3000)


@case("login with a token longer than the message", INVALID_PARAMETER, CLOSED)
def _():
    return setup(b"abc", length=60000)


@case("login with a token inside the header", ANY_ERROR, CLOSED)
def _():
    return setup(b"abc", offset=3, length=16)


@case("login with no token", ANY_ERROR, CLOSED, MORE_PROCESSING_REQUIRED)
def _():
    return setup(b"")


@case("login with random bytes for a token", ANY_ERROR, CLOSED)
def _():
    return setup(bytes(range(256)) * 8)


@case(f"login with {DEEP} nested ASN.1 sequences", ANY_ERROR, CLOSED)
def _():
    return setup(b"\x60\x84\x00\x00\xff\xff" + b"\x30\x80" * DEEP)


@case("login with SPNEGO whose lengths lie", ANY_ERROR, CLOSED)
def _():
    token = bytearray(wrapped(first_token()[1]))
    token[1] = 0x84
    return setup(bytes(token))


@case("login with SPNEGO that has no mechanism token", ANY_ERROR, MORE_PROCESSING_REQUIRED)
def _():
    oids = der(0x30, der(0x06, bytes.fromhex("2b06010401823702020a")))
    return setup(der(0x60, der(0x06, bytes.fromhex("2b0601050502")) + der(0xA0, der(0x30, der(0xA0, oids)))))


@case("login with an unknown mechanism only", ANY_ERROR, MORE_PROCESSING_REQUIRED)
def _():
    oids = der(0x30, der(0x06, b"\x2a\x03\x04\x05"))
    inner = der(0xA0, oids) + der(0xA2, der(0x04, b"hello"))
    return setup(der(0x60, der(0x06, bytes.fromhex("2b0601050502")) + der(0xA0, der(0x30, inner))))


@case("login that begins with its last message", ANY_ERROR, CLOSED)
def _():
    return setup(wrapped(b"NTLMSSP\0" + struct.pack("<I", 3) + bytes(80), first_token()[0]))


@case("login whose NTLM fields lie beyond the message", ANY_ERROR)
def _():
    def change(token):
        struct.pack_into("<HHI", token, 20, 0xFFFF, 0xFFFF, 0xFFFFFFF0)  # NtChallengeResponseFields
        return token
    return authenticated(change)


@case("login whose NTLM response is shorter than its proof", ANY_ERROR)
def _():
    def change(token):
        offset = struct.unpack_from("<I", token, 24)[0]
        struct.pack_into("<HHI", token, 20, 8, 8, offset)
        return token
    return authenticated(change)


@case("login whose NTLM response is cut in the middle of its pairs", ANY_ERROR)
def _():
    def change(token):
        length, _, offset = struct.unpack_from("<HHI", token, 20)
        struct.pack_into("<HHI", token, 20, length - 30, length - 30, offset)
        return token
    return authenticated(change)


@case("login with a spoiled MIC", ANY_ERROR)
def _():
    def change(token):
        token[72] ^= 0xFF
        return token
    return authenticated(change)


@case("login with a wrong password and no MIC", LOGON_FAILURE, ACCESS_DENIED, INVALID_PARAMETER)
def _():
    return authenticated(without_mic, password="wrong")


@case("login with an empty NTLM response", LOGON_FAILURE, ACCESS_DENIED, INVALID_PARAMETER, ANY_ERROR)
def _():
    def change(token):
        for field in (12, 20):
            struct.pack_into("<HHI", token, field, 0, 0, 64)
        return token
    return authenticated(change)


@case("login with another user's name in a right response", ANY_ERROR)
def _():
    def change(token):
        offset = struct.unpack_from("<I", token, 40)[0]
        token[offset] ^= 1
        return token
    return authenticated(change)


@case("a session that is only half set up does nothing", ANY_ERROR, CLOSED)
def _():
    with Raw() as raw:
        raw.negotiate()
        answer = raw.call(SESSION_SETUP, setup_body(wrapped(first_token()[1])))
        raw.session_id = answer.session_id
        return raw.call(TREE_CONNECT, tree_body(rf"\\host\{os.environ['SMB_SHARE']}")).status


def as_nobody(raw, **how):
    """The answer to who asks for the anonymous user: NTLM without a name and without a response."""
    flags = 0x80201  # Unicode, NTLM, extended session security
    challenge = raw.call(SESSION_SETUP, setup_body(b"NTLMSSP\0" + struct.pack("<II", 1, flags) + bytes(16)), **how)
    if challenge.status != MORE_PROCESSING_REQUIRED:
        return challenge
    raw.session_id = challenge.session_id
    fields = struct.pack("<HHI", 1, 1, 64) + struct.pack("<HHI", 0, 0, 65) * 5
    return raw.call(SESSION_SETUP, setup_body(b"NTLMSSP\0\3\0\0\0" + fields + struct.pack("<I", flags | 0x800) + b"\0"), **how)


@case("login as the anonymous user", LOGON_FAILURE, ACCESS_DENIED)
def _():
    with Raw() as raw:
        raw.negotiate()
        return as_nobody(raw).status


@case("a session that signs in again as nobody", LOGON_FAILURE, ACCESS_DENIED)
def _():
    with client() as raw:
        return as_nobody(raw).status


@case("SESSION_SETUP for a session nobody has", USER_SESSION_DELETED)
def _():
    with Raw() as raw:
        raw.negotiate()
        raw.session_id = 0x123456789
        return raw.call(SESSION_SETUP, setup_body(wrapped(first_token()[1]))).status


@case("a bind to a session nobody has, or to any where there is no multichannel", USER_SESSION_DELETED, REQUEST_NOT_ACCEPTED)
def _():
    with Raw() as raw:
        raw.negotiate()
        raw.session_id = 0x123456789
        return raw.call(SESSION_SETUP, setup_body(wrapped(first_token()[1]), flags=BIND), flags=SIGNED).status


@case("unsigned and wrongly signed binds to another's session leave it as it was", SUCCESS)
def _():
    with client() as victim:
        for flags, signature in ((0, bytes(16)), (SIGNED, bytes(range(16)))):
            for _ in range(5):
                with Raw() as thief:
                    thief.negotiate()
                    thief.session_id = victim.session_id
                    token = wrapped(first_token()[1])
                    try:
                        answer = thief.call(SESSION_SETUP, setup_body(token, flags=BIND), flags=flags,
                                            signature=signature)
                    except Closed:
                        continue
                    if answer.status in (SUCCESS, MORE_PROCESSING_REQUIRED):
                        return f"the bind went on with {answer.status:#010x}"
        return SUCCESS if alive(victim) else "the victim's session is gone"


@case("another's session id on one's own connection", USER_SESSION_DELETED)
def _():
    with client() as victim, client() as thief:
        return thief.call(READ, read_body(bytes(16), 1), session_id=victim.session_id, tree_id=victim.tree_id,
                          sign=False).status


@case("2,000 logins begun and not finished on one connection", SUCCESS)
def _():
    token = wrapped(first_token()[1])
    with Raw() as raw:
        raw.negotiate()
        for _ in range(2000):
            try:
                raw.call(SESSION_SETUP, setup_body(token))
            except Closed:
                break
    return SUCCESS  # each answered, refused, or the connection closed


@case("after LOGOFF the session is gone", USER_SESSION_DELETED)
def _():
    with client() as raw:
        raw.call(LOGOFF, LOGOFF_BODY)
        return raw.call(TREE_CONNECT, tree_body(rf"\\host\{os.environ['SMB_SHARE']}")).status


@case("after TREE_DISCONNECT the tree is gone", NETWORK_NAME_DELETED)
def _():
    with client() as raw:
        file = raw.open("left-open")
        raw.call(TREE_DISCONNECT, LOGOFF_BODY)
        return raw.call(READ, read_body(file, 1)).status


@case("a request without a session", USER_SESSION_DELETED)
def _():
    with Raw() as raw:
        raw.negotiate()
        return raw.call(TREE_CONNECT, tree_body(rf"\\host\{os.environ['SMB_SHARE']}")).status


@case("a request for a tree nobody has", NETWORK_NAME_DELETED)
def _():
    with client() as raw:
        return raw.call(READ, read_body(bytes(16), 1), tree_id=0x7777).status


@case("TREE_CONNECT with a path beyond the message", INVALID_PARAMETER, CLOSED)
def _():
    with client() as raw:
        return raw.call(TREE_CONNECT, tree_body("x", length=60000)).status


@case("TREE_CONNECT with a path of odd length", ANY_ERROR)
def _():
    with client() as raw:
        return raw.call(TREE_CONNECT, tree_body("\\\\host\\share", length=9)).status


@case("TREE_CONNECT with a path without a share", ANY_ERROR)
def _():
    with client() as raw:
        return raw.call(TREE_CONNECT, tree_body("share")).status


@case("an unsigned TREE_CONNECT on 3.1.1", ACCESS_DENIED, CLOSED)
def _():
    with Raw() as raw:
        raw.negotiate()
        raw.login()
        return raw.call(TREE_CONNECT, tree_body(rf"\\host\{os.environ['SMB_SHARE']}"), sign=False).status


@case("a wrong signature", ACCESS_DENIED)
def _():
    with client() as raw:
        return raw.call(ECHO, ECHO_BODY, sign=False, flags=SIGNED, signature=bytes(range(16))).status


@case("a signature over other bytes than those sent", ACCESS_DENIED)
def _():
    with client() as raw:
        message = bytearray(raw.message(READ, read_body(bytes(16), 1)))
        message[-20] ^= 1
        raw.send_frame(bytes(message))
        return raw.receive().status


# Transform headers, MS-SMB2 3.3.5.2.1.1: what cannot be opened ends the connection.

def sealed_echo(**how):
    with client() as raw:
        raw.send_frame(raw.sealed(raw.message(ECHO, ECHO_BODY, sign=False), **how))
        return parsed(raw.unsealed(raw.receive_frame())).status


@case("a sealed ECHO is answered sealed", SUCCESS)
def _():
    return sealed_echo()


@case("a seal with a wrong tag", CLOSED)
def _():
    return sealed_echo(spoil=True)


@case("a seal under another key", CLOSED)
def _():
    return sealed_echo(key=bytes(16))


@case("a seal for a session nobody has", CLOSED)
def _():
    return sealed_echo(session_id=0x123456789)


@case("a seal that announces more than it holds", CLOSED)
def _():
    return sealed_echo(original_size=0xFFFFFFFF)


@case("a seal that announces nothing", CLOSED)
def _():
    return sealed_echo(original_size=0)


@case("a seal with unknown flags", CLOSED)
def _():
    return sealed_echo(flags=7)


@case("a transform header without a message", CLOSED)
def _():
    with client() as raw:
        raw.send_frame(b"\xfdSMB" + bytes(20))
        return raw.receive().status


@case("a seal within a seal", CLOSED)
def _():
    with client() as raw:
        raw.send_frame(raw.sealed(raw.sealed(raw.message(ECHO, ECHO_BODY, sign=False))))
        return raw.receive().status


@case("a seal around random bytes", CLOSED)
def _():
    with client() as raw:
        raw.send_frame(raw.sealed(bytes(range(100))))
        return raw.receive().status


@case("a seal before login", CLOSED)
def _():
    with Raw(seconds=5) as raw:
        raw.negotiate()
        raw.send_frame(b"\xfdSMB" + bytes(range(100)))
        return raw.receive().status
