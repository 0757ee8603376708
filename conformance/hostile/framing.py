"""Frames that are cut, that lie about their length, or that are no SMB2 at all."""

import random
import struct
import time

from conformance.hostile.case import ANY_ERROR, INVALID_PARAMETER, alive, case
from conformance.hostile.requests import samples
from conformance.hostile.client import (
    CLOSED, ECHO, ECHO_BODY, NEGOTIATE, SILENT, SUCCESS, Closed, Raw, client, encryption, header, negotiate_body,
    preauth, signing,
)


def answer_to(frame, length=None):
    with Raw() as raw:
        raw.send_frame(frame, length)
        return raw.receive().status


def good_negotiate():
    return header(NEGOTIATE, 0) + negotiate_body(contexts=[preauth(), encryption(2), signing(0)])


@case("a frame of no bytes", CLOSED, SILENT, INVALID_PARAMETER)
def _():
    with Raw(seconds=3) as raw:
        raw.send_frame(b"")
        return raw.receive().status


@case("a frame shorter than a header", CLOSED)
def _():
    return answer_to(b"\xfeSMB" + bytes(20))


@case("a header without a body", CLOSED, INVALID_PARAMETER)
def _():
    return answer_to(header(NEGOTIATE, 0))


@case("a frame that begins with another protocol's name", CLOSED)
def _():
    return answer_to(header(NEGOTIATE, 0, protocol=b"\xfcABC") + negotiate_body())


@case("an SMB1 message that is no NEGOTIATE", CLOSED)
def _():
    return answer_to(b"\xffSMB\x73" + bytes(60))


@case("an SMB1 NEGOTIATE that offers no SMB2 dialect", CLOSED, SUCCESS)
def _():
    dialects = b"\x02NT LM 0.12\0"
    with Raw() as raw:
        raw.send_frame(b"\xffSMB\x72" + bytes(27) + b"\0" + struct.pack("<H", len(dialects)) + dialects)
        raw.receive_frame()
        return SUCCESS  # "none of these" in SMB1 words is an answer too


@case("a frame whose first byte is not zero", CLOSED, SILENT)
def _():
    with Raw(seconds=3) as raw:
        raw.send_bytes(b"\x42\x00\x01\x00" + bytes(256))
        return raw.receive().status


@case("the longest length a frame can announce, before login, and then nothing", CLOSED, SILENT)
def _():
    with Raw(seconds=3) as raw:
        raw.send_bytes(b"\x00\xff\xff\xff" + good_negotiate())
        return raw.receive().status


@case("a header whose StructureSize is wrong", CLOSED, INVALID_PARAMETER)
def _():
    return answer_to(header(NEGOTIATE, 0, structure_size=65) + negotiate_body(contexts=[preauth()]))


@case("half a frame, then the connection goes away", SUCCESS)
def _():
    with Raw() as raw:
        message = good_negotiate()
        raw.send_bytes(struct.pack(">I", len(message)) + message[:70])
    return SUCCESS


@case("a request that arrives byte by byte is answered", SUCCESS)
def _():
    with Raw() as raw:
        message = good_negotiate()
        for byte in struct.pack(">I", len(message)) + message:
            raw.send_bytes(bytes([byte]))
            time.sleep(0.001)
        return raw.receive().status


@case("fifty requests in one segment are each answered", SUCCESS)
def _():
    with client() as raw:
        messages = [raw.message(ECHO, ECHO_BODY) for _ in range(50)]
        raw.send_bytes(b"".join(struct.pack(">I", len(message)) + message for message in messages))
        answers = {raw.receive().message_id for _ in messages}
        return SUCCESS if len(answers) == 50 else ANY_ERROR


@case("a request with the response flag", CLOSED, INVALID_PARAMETER)
def _():
    with client() as raw:
        return raw.call(ECHO, ECHO_BODY, flags=1).status


@case("200 connections that send random bytes", CLOSED)
def _():
    chance = random.Random(445)
    for _ in range(200):
        with Raw(seconds=5) as raw:
            try:
                raw.send_frame(chance.randbytes(chance.randint(1, 2000)))
                answer = raw.receive_frame()
                return f"an answer of {len(answer)} bytes"
            except Closed:
                continue
    return CLOSED


@case("200 right NEGOTIATEs with random bytes changed", SUCCESS)
def _():
    chance = random.Random(446)
    for _ in range(200):
        message = bytearray(good_negotiate())
        for _ in range(chance.randint(1, 8)):
            message[chance.randrange(len(message))] = chance.randrange(256)
        with Raw(seconds=5) as raw:
            try:
                raw.send_frame(bytes(message))
                raw.receive_frame()
            except Closed:
                continue
    return SUCCESS  # answered or closed each time; silence would have raised


@case("2,000 requests of a logged-in client with random bytes changed", SUCCESS)
def _():
    chance = random.Random(447)
    raw = client()
    right_ones = samples(raw)
    for number in range(2000):
        try:
            command, body = chance.choice(right_ones)
            changed = bytearray(body)
            for _ in range(chance.randint(1, 4)):
                changed[chance.randrange(len(changed))] = chance.randrange(256)
            raw.send(command, bytes(changed))
            if number % 20 == 19 and not alive(raw):
                raise Closed()
        except (Closed, TimeoutError):
            raw.socket.close()
            raw = client()
            right_ones = samples(raw)
    raw.socket.close()
    return SUCCESS


@case("a compressed message that was never negotiated", CLOSED)
def _():
    with client() as raw:
        raw.send_frame(b"\xfcSMB" + struct.pack("<IHHI", 64, 2, 0, 0) + bytes(80))
        return raw.receive().status


@case("an ECHO works before login", SUCCESS, CLOSED, ANY_ERROR)
def _():
    with Raw() as raw:
        raw.negotiate()
        return SUCCESS if alive(raw) else ANY_ERROR
