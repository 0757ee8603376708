"""A relay to the server that counts what passes: each request, its bytes and how it was answered, read from the frames themselves."""

import collections
import contextlib
import dataclasses
import socket
import struct
import threading

APIS = ("Negotiate", "SessionSetup", "Logoff", "TreeConnect", "TreeDisconnect", "Create", "Close", "Flush", "Read", "Write", "Lock", "Ioctl",
        "Cancel", "Echo", "QueryDirectory", "ChangeNotify", "QueryInfo", "SetInfo", "OplockBreak")
HEADER = struct.Struct("<4sHHIHHIIQQQ")
FRAME_HEADER_BYTES = 4
IS_RESPONSE, IS_ASYNC, IS_RELATED = 1, 2, 4
PENDING = 0x103
UNASKED = (1 << 64) - 1
CHUNK_BYTES = 256 << 10


@dataclasses.dataclass(frozen=True)
class Asked:
    """A request that waits for its answer."""

    api: str
    received: int
    share: str
    written: int


@dataclasses.dataclass
class Tally:
    """What was asked: responses by API and NT status, bytes by API."""

    responses: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    received: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    sent: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    read: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    written: collections.Counter = dataclasses.field(default_factory=collections.Counter)

    def add(self, other):
        for field in dataclasses.fields(self):
            getattr(self, field.name).update(getattr(other, field.name))


class Connection:
    """One TCP connection through the relay. `local` is the client's address, as the server sees it."""

    def __init__(self, upstream, trees):
        host, port = upstream.getsockname()
        self.local = f"{host}:{port}"
        self.by_share = collections.defaultdict(Tally)  # the empty name stands for no share
        self.asked = {}
        self.trees = trees  # of all connections: the share of a tree connect, by session and number
        self.session = 0  # that was signed in to, or bound, last
        self._lock = threading.Lock()

    def tally(self, apis=APIS):
        """All that was asked, of these APIs."""
        total = Tally()
        for tally in self.by_share.values():
            for field in dataclasses.fields(tally):
                of_apis = {key: count for key, count in getattr(tally, field.name).items() if (key[0] if isinstance(key, tuple) else key) in apis}
                getattr(total, field.name).update(of_apis)
        return total

    def request(self, frame):
        with self._lock:
            tree = 0
            for header, message in parts(frame):
                # A related request is to the tree of the one before it.
                tree = tree if header.flags & IS_RELATED else header.tree
                self._request(header, message, tree)

    def _request(self, header, message, tree):
        api = APIS[header.command]
        share = self.trees.get((header.session, tree), "")
        if api == "TreeConnect":
            offset, length = struct.unpack_from("<HH", message, 68)
            share = message[offset:offset + length].decode("utf-16-le").rsplit("\\", 1)[1]
        written = struct.unpack_from("<I", message, 68)[0] if api == "Write" else 0
        asked = Asked(api, len(message), share, written)
        if api == "Cancel":  # is never answered
            self._count(asked, 0, b"", "")
        else:
            self.asked[header.message] = asked

    def response(self, frame):
        with self._lock:
            for header, message in parts(frame):
                if header.message == UNASKED or header.status == PENDING and header.flags & IS_ASYNC:
                    continue
                asked = self.asked.pop(header.message)
                if asked.api == "TreeConnect" and header.status == 0:
                    self.trees[header.session, header.tree] = asked.share
                if asked.api == "SessionSetup" and header.status == 0:
                    self.session = header.session
                self._count(asked, header.status, message, asked.share if asked.api != "TreeConnect" or header.status == 0 else "")
                if asked.api == "TreeDisconnect" and header.status == 0:
                    self.trees.pop((header.session, header.tree), None)

    def _count(self, asked, status, message, share):
        tally, api = self.by_share[share], asked.api
        tally.responses[api, status] += 1
        tally.received[api] += asked.received
        tally.sent[api] += len(message)
        if api == "Read" and status in (0, 0x80000005):
            tally.read[api] += struct.unpack_from("<I", message, 68)[0]
        if api == "Write" and status == 0:
            tally.written[api] += asked.written

    @property
    def waits(self):
        return len(self.asked)


@dataclasses.dataclass(frozen=True)
class Header:
    status: int
    command: int
    flags: int
    message: int
    tree: int
    session: int


def parts(frame):
    """The messages of a frame that is not sealed, each with its header."""
    while frame:
        protocol, _, _, status, command, _, flags, following, message, tree, session = HEADER.unpack_from(frame)
        if protocol != b"\xfeSMB":
            raise ValueError(f"a frame begins with {protocol!r}")
        # Half of what an asynchronous message has there is its own number.
        yield Header(status, command, flags, message, 0 if flags & IS_ASYNC else tree >> 32, session), frame[:following or len(frame)]
        frame = frame[following:] if following else b""


class Relay:
    """Listens on a port of its own until it is left."""

    def __init__(self, server):
        self.server = server
        self.connections = []
        self._trees = {}
        self.faults = []
        self.holds = False  # nothing goes to the server any more, and nothing to its clients

    def __enter__(self):
        self._listener = socket.create_server((self.server.host, 0), backlog=128)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    @property
    def waits(self):
        return sum(connection.waits for connection in self.connections)

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self.holds:
                    client.close()
                    continue
                upstream = socket.create_connection((self.server.host, self.server.port))
                for end in (client, upstream):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection = Connection(upstream, self._trees)
                self.connections.append(connection)
                for source, sink, count in ((client, upstream, connection.request), (upstream, client, connection.response)):
                    threading.Thread(target=self._pump, args=(source, sink, count, source is client), daemon=True).start()

    def _pump(self, source, sink, count, is_to_server):
        held, passed = bytearray(), bytearray()
        with contextlib.suppress(OSError):
            while data := source.recv(CHUNK_BYTES):
                if is_to_server and self.holds:
                    return
                held += data
                whole = 0
                while len(held) - whole >= FRAME_HEADER_BYTES:
                    end = whole + FRAME_HEADER_BYTES + int.from_bytes(held[whole + 1:whole + 4], "big")
                    if end > len(held):
                        break
                    try:
                        # It is counted before it goes on, so that no answer comes before its request.
                        count(bytes(held[whole + FRAME_HEADER_BYTES:end]))
                    except Exception as fault:
                        self.faults.append(repr(fault))
                    whole = end
                passed += held[:whole]
                del held[:whole]
                if is_to_server or not self.holds:
                    sink.sendall(passed)
                    passed.clear()
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)
