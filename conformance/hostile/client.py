"""A client that sends what it is told to, right or wrong: it builds messages, it does not check them.

A request is a header (MS-SMB2 2.2.1) and a body; every field can be given another value than the right one.
"""

import dataclasses
import hashlib
import hmac
import os
import socket
import struct
import uuid

import spnego

NEGOTIATE, SESSION_SETUP, LOGOFF, TREE_CONNECT, TREE_DISCONNECT, CREATE, CLOSE, FLUSH, READ, WRITE, LOCK, IOCTL, \
    CANCEL, ECHO, QUERY_DIRECTORY, CHANGE_NOTIFY, QUERY_INFO, SET_INFO, OPLOCK_BREAK = range(19)

SIGNED, RELATED, ASYNC, RESPONSE = 0x8, 0x4, 0x2, 0x1
DIALECT_311 = 0x0311
HMAC_SHA256, AES_128_GCM = 0, 2
SECONDS = 10

SUCCESS = 0
PENDING = 0x00000103
MORE_PROCESSING_REQUIRED = 0xC0000016
CLOSED = "the connection closed"
SILENT = "no answer"


@dataclasses.dataclass
class Answer:
    status: int
    command: int
    message_id: int
    session_id: int
    tree_id: int
    credits: int
    body: bytes
    raw: bytes


class Closed(Exception):
    """The server ended the connection."""


def header(command, message_id, session_id=0, tree_id=0, charge=1, credits=64, flags=0, next_command=0,
           protocol=b"\xfeSMB", structure_size=64, signature=bytes(16)):
    """An SMB2 header, MS-SMB2 2.2.1.2."""
    return protocol + struct.pack("<HHIHHIIQIIQ", structure_size, charge, 0, command, credits, flags, next_command,
                                  message_id, 0xFEFF, tree_id, session_id) + signature


def context(kind, data, length=None):
    """A negotiate context, MS-SMB2 2.2.3.1."""
    return struct.pack("<HHI", kind, len(data) if length is None else length, 0) + data


def preauth(algorithms=(1,), salt=bytes(32)):
    return context(1, struct.pack(f"<HH{len(algorithms)}H", len(algorithms), len(salt), *algorithms) + salt)


def encryption(*ciphers):
    return context(2, struct.pack(f"<H{len(ciphers)}H", len(ciphers), *ciphers))


def signing(*algorithms):
    return context(8, struct.pack(f"<H{len(algorithms)}H", len(algorithms), *algorithms))


def negotiate_body(dialects=(DIALECT_311,), contexts=(), dialect_count=None, context_count=None, context_offset=None,
                   structure_size=36):
    """A NEGOTIATE request, MS-SMB2 2.2.3."""
    names = struct.pack(f"<{len(dialects)}H", *dialects)
    padding = bytes(-(64 + 36 + len(names)) % 8)
    offset = 64 + 36 + len(names) + len(padding) if contexts else 0
    listed = b"".join(item + bytes(-len(item) % 8) for item in contexts[:-1]) + (contexts[-1] if contexts else b"")
    return struct.pack("<HHHHI", structure_size, len(dialects) if dialect_count is None else dialect_count, 1, 0, 0x7F) \
        + uuid.uuid4().bytes \
        + struct.pack("<IHH", offset if context_offset is None else context_offset,
                      len(contexts) if context_count is None else context_count, 0) + names + padding + listed


def setup_body(token, offset=None, length=None, flags=0, previous=0):
    """A SESSION_SETUP request, MS-SMB2 2.2.5."""
    return struct.pack("<HBBIIHHQ", 25, flags, 1, 0, 0, 64 + 24 if offset is None else offset,
                       len(token) if length is None else length, previous) + token


def tree_body(path, offset=None, length=None):
    """A TREE_CONNECT request, MS-SMB2 2.2.9."""
    name = path.encode("utf-16-le")
    return struct.pack("<HHHH", 9, 0, 64 + 8 if offset is None else offset,
                       len(name) if length is None else length) + name


def create_body(name="", contexts=b"", access=0x0012019F, disposition=3, options=0, name_offset=None, name_length=None,
                contexts_offset=None, contexts_length=None, oplock=0, structure_size=57):
    """A CREATE request, MS-SMB2 2.2.13; the name may be given as bytes."""
    raw = name.encode("utf-16-le") if isinstance(name, str) else name
    padded = (raw or b"\0\0") + bytes(-len(raw or b"\0\0") % 8)
    offset = 64 + 56 + len(padded) if contexts else 0
    return struct.pack("<HBBIQQIIIIIHHII", structure_size, 0, oplock, 2, 0, 0, access, 0, 7, disposition, options,
                       64 + 56 if name_offset is None else name_offset,
                       len(raw) if name_length is None else name_length,
                       offset if contexts_offset is None else contexts_offset,
                       len(contexts) if contexts_length is None else contexts_length) + padded + contexts


def create_context(name, data, next_offset=0, name_offset=16, name_length=None, data_offset=None, data_length=None):
    """A create context, MS-SMB2 2.2.13.2, for a name of four bytes."""
    return struct.pack("<IHHHHI", next_offset, name_offset, len(name) if name_length is None else name_length, 0,
                       (24 if data else 0) if data_offset is None else data_offset,
                       len(data) if data_length is None else data_length) + name + bytes(4) + data


def read_body(file_id, length, offset=0, minimum=0, channel=0, channel_offset=0, channel_length=0):
    """A READ request, MS-SMB2 2.2.19."""
    return struct.pack("<HBBIQ", 49, 0x50, 0, length, offset) + file_id \
        + struct.pack("<IIIHH", minimum, channel, 0, channel_offset, channel_length) + b"\0"


def write_body(file_id, data, offset=0, length=None, data_offset=None, channel=0, channel_offset=0, channel_length=0):
    """A WRITE request, MS-SMB2 2.2.21."""
    return struct.pack("<HHIQ", 49, 64 + 48 if data_offset is None else data_offset,
                       len(data) if length is None else length, offset) + file_id \
        + struct.pack("<IIHHI", channel, 0, channel_offset, channel_length, 0) + data


def close_body(file_id):
    return struct.pack("<HHI", 24, 0, 0) + file_id


def lock_body(file_id, locks, count=None):
    """A LOCK request, MS-SMB2 2.2.26; locks are (offset, length, flags)."""
    return struct.pack("<HHI", 48, len(locks) if count is None else count, 0) + file_id \
        + b"".join(struct.pack("<QQII", *lock, 0) for lock in locks)


def query_directory_body(file_id, pattern="*", length=65536, information_class=37, flags=1, offset=None,
                         pattern_length=None):
    """A QUERY_DIRECTORY request, MS-SMB2 2.2.33."""
    name = pattern.encode("utf-16-le")
    return struct.pack("<HBBI", 33, information_class, flags, 0) + file_id \
        + struct.pack("<HHI", 64 + 32 if offset is None else offset,
                      len(name) if pattern_length is None else pattern_length, length) + name


def query_info_body(file_id, kind=1, information_class=5, length=65536, input_offset=0, input_length=0, data=b""):
    """A QUERY_INFO request, MS-SMB2 2.2.37."""
    return struct.pack("<HBBIHHIII", 41, kind, information_class, length, input_offset, 0, input_length, 7, 0) \
        + file_id + (data or b"\0")


def set_info_body(file_id, information_class, data, kind=1, offset=None, length=None):
    """A SET_INFO request, MS-SMB2 2.2.39."""
    return struct.pack("<HBBIHHI", 33, kind, information_class, len(data) if length is None else length,
                       64 + 32 if offset is None else offset, 0, 0) + file_id + data


def ioctl_body(code, data=b"", file_id=b"\xff" * 16, input_offset=None, input_length=None, output=65536, flags=1):
    """An IOCTL request, MS-SMB2 2.2.31."""
    return struct.pack("<HHI", 57, 0, code) + file_id \
        + struct.pack("<IIIIIIII", 64 + 56 if input_offset is None else input_offset,
                      len(data) if input_length is None else input_length, 0, 0, 0, output, flags, 0) + data


ECHO_BODY = struct.pack("<HH", 4, 0)


class Raw:
    """A connection: frames out, frames in, and the next message id."""

    def __init__(self, seconds=SECONDS, source=None):
        self.socket = socket.create_connection((os.environ["SMB_HOST"], int(os.environ["SMB_PORT"])), timeout=seconds,
                                               source_address=source and (source, 0))
        self.next_id = 0
        self.session_id = 0
        self.tree_id = 0
        self.signing_key = None
        self.preauth_hash = bytes(64)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    # Frames.

    def send_bytes(self, data):
        try:
            self.socket.sendall(data)
        except (ConnectionError, BrokenPipeError) as error:
            raise Closed() from error

    def send_frame(self, message, length=None):
        self.send_bytes(struct.pack(">I", len(message) if length is None else length) + message)

    def receive_frame(self):
        head = self._receive(4)
        return self._receive(struct.unpack(">I", head)[0] & 0xFFFFFF)

    def _receive(self, length):
        data = b""
        try:
            while len(data) < length:
                part = self.socket.recv(length - len(data))
                if not part:
                    raise Closed()
                data += part
        except ConnectionError as error:
            raise Closed() from error
        return data

    # Messages.

    def message(self, command, body, sign=True, **fields):
        """A whole message with the next id, signed once there is a key."""
        charge = fields.get("charge", 1)
        fields.setdefault("message_id", self.next_id)
        fields.setdefault("session_id", self.session_id)
        fields.setdefault("tree_id", self.tree_id)
        if fields["message_id"] == self.next_id:
            self.next_id += max(charge, 1)
        if sign and self.signing_key:
            fields["flags"] = fields.get("flags", 0) | SIGNED
            return self.signed(header(command, **fields) + body)
        return header(command, **fields) + body

    def signed(self, message):
        """The message with its signature filled in: HMAC-SHA256 over it with the field as zeros."""
        blank = message[:48] + bytes(16) + message[64:]
        return message[:48] + hmac.new(self.signing_key, blank, hashlib.sha256).digest()[:16] + message[64:]

    def send(self, command, body, **fields):
        self.send_frame(self.message(command, body, **fields))

    def receive(self):
        """The next answer that is not an interim one."""
        while True:
            raw = self.receive_frame()
            answer = parsed(raw)
            if answer.status != PENDING:
                return answer

    def call(self, command, body, **fields):
        """Sends a request and returns its own answer, past those of requests sent before."""
        fields.setdefault("message_id", self.next_id)
        self.send(command, body, **fields)
        while True:
            answer = self.receive()
            if answer.message_id == fields["message_id"]:
                return answer

    # Becoming a client like any other.

    def negotiate(self, contexts=None, **fields):
        """NEGOTIATE of 3.1.1 with HMAC-SHA256, which Python's library can compute, and AES-128-GCM."""
        if contexts is None:
            contexts = [preauth(salt=os.urandom(32)), encryption(AES_128_GCM), signing(HMAC_SHA256)]
        request = self.message(NEGOTIATE, negotiate_body(contexts=contexts, **fields), sign=False)
        self.send_frame(request)
        answer = self.receive()
        self._extend_hash(request, answer.raw)
        return answer

    def login(self, password=None, username=None, session_id=0, flags=0, session_key=True):
        """Both SESSION_SETUPs; the last answer. The keys are there when it is a success."""
        self.session_id = session_id
        login = spnego.client(username or os.environ["SMB_USER"], password or os.environ["SMB_PASSWORD"],
                              hostname=os.environ["SMB_HOST"], service="cifs", protocol="ntlm")
        token, answer = login.step(), None
        while token:
            request = self.message(SESSION_SETUP, setup_body(wrapped(token, answer and login), flags=flags), sign=False)
            self.send_frame(request)
            answer = self.receive()
            self._extend_hash(request, answer.raw if answer.status == MORE_PROCESSING_REQUIRED else b"")
            if answer.status != MORE_PROCESSING_REQUIRED:
                break
            self.session_id = answer.session_id
            token = login.step(unwrapped(answer.body))
        if answer.status == SUCCESS:
            self.session_key = login.session_key[:16]
            self.signing_key = self._derived(b"SMBSigningKey\0")
        return answer

    def tree_connect(self, share=None):
        answer = self.call(TREE_CONNECT, tree_body(rf"\\{os.environ['SMB_HOST']}\{share or os.environ['SMB_SHARE']}"))
        self.tree_id = answer.tree_id
        return answer

    def open(self, name, **how):
        """A file's id; the name is created when absent."""
        answer = self.call(CREATE, create_body(name, **how))
        if answer.status != SUCCESS:
            raise AssertionError(f"CREATE of {name!r}: {answer.status:#010x}")
        return answer.body[64:80]

    def _extend_hash(self, *messages):
        for message in messages:
            if message:
                self.preauth_hash = hashlib.sha512(self.preauth_hash + message).digest()

    def _derived(self, label):
        """A key of the session: SP800-108 in counter mode with HMAC-SHA256, MS-SMB2 3.1.4.2."""
        data = struct.pack(">I", 1) + label + b"\0" + self.preauth_hash + struct.pack(">I", 128)
        return hmac.new(self.session_key, data, hashlib.sha256).digest()[:16]

    # Sealing.

    def sealed(self, message, original_size=None, session_id=None, flags=1, key=None, spoil=False):
        """The message in a transform header, MS-SMB2 2.2.41, under AES-128-GCM."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        nonce = os.urandom(12)
        rest = nonce + bytes(4) + struct.pack("<IHHQ", len(message) if original_size is None else original_size, 0,
                                              flags, self.session_id if session_id is None else session_id)
        sealed = AESGCM(key or self._derived(b"SMBC2SCipherKey\0")).encrypt(nonce, message, rest)
        tag = bytes(16) if spoil else sealed[-16:]
        return b"\xfdSMB" + tag + rest + sealed[:-16]

    def unsealed(self, frame):
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        key = self._derived(b"SMBS2CCipherKey\0")
        return AESGCM(key).decrypt(frame[20:32], frame[52:] + frame[4:20], frame[20:52])


def parsed(raw):
    """An answer's header and body."""
    _, _, status, command, credits, _, _, message_id, _, tree_id, session_id = struct.unpack_from("<HHIHHIIQIIQ", raw, 4)
    return Answer(status, command, message_id, session_id, tree_id, credits, raw[64:], raw)


def client():
    """A connection that is logged in and has a tree."""
    raw = Raw()
    raw.negotiate()
    for step in (raw.login, raw.tree_connect):
        answer = step()
        if answer.status != SUCCESS:
            raise AssertionError(f"{step.__name__}: {answer.status:#010x}")
    return raw


# SPNEGO around an NTLM token (MS-SPNG), with just enough DER.

def der(tag, data):
    length = len(data)
    head = bytes([length]) if length < 128 else \
        bytes([0x80 | (length.bit_length() + 7) // 8]) + length.to_bytes((length.bit_length() + 7) // 8, "big")
    return bytes([tag]) + head + data


NTLM_OID = der(0x06, bytes.fromhex("2b06010401823702020a"))
SPNEGO_OID = der(0x06, bytes.fromhex("2b0601050502"))


MECHANISMS = der(0x30, NTLM_OID)


def wrapped(token, login=None):
    """negTokenInit around the first token; negTokenResp around the last, with the login's MIC of the mechanism list."""
    if login is None:
        inner = der(0xA0, MECHANISMS) + der(0xA2, der(0x04, token))
        return der(0x60, SPNEGO_OID + der(0xA0, der(0x30, inner)))
    mic = der(0xA3, der(0x04, login.sign(MECHANISMS))) if login.complete else b""
    return der(0xA1, der(0x30, der(0xA2, der(0x04, token)) + mic))


def unwrapped(body):
    """The NTLM message in a SESSION_SETUP answer: the octet string that holds it, without what follows."""
    start = body.find(b"NTLMSSP\0")
    if start < 0:
        return body
    for head in (2, 3, 4):
        tag, length = body[start - head], body[start - head + 1:start]
        size = int.from_bytes(length[1:], "big") if len(length) > 1 else length[0]
        if tag == 0x04 and (len(length) == 1 or length[0] == 0x7F + len(length)) and start + size <= len(body):
            return body[start:start + size]
    return body[start:]
