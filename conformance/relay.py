"""TCP relays to the server: from port 445 of another loopback address, for programs that know no other port, one that leads there whatever host its
clients name, and one that cuts connections at random."""

import contextlib
import random
import socket
import struct
import threading

from conformance.report import Skip

SMB_PORT = 445
CHUNK_BYTES = 64 << 10


@contextlib.contextmanager
def on_port_445(server):
    """The loopback address on whose port 445 the server is reached inside the block."""
    listener = listen()
    threading.Thread(target=accept, args=(listener, server), daemon=True).start()
    try:
        yield listener.getsockname()[0]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


@contextlib.contextmanager
def as_proxy(host, port):
    """The address of an HTTP proxy (RFC 9110 section 9.3.6) that leads to this place inside the block, whatever host its clients name."""
    listener = socket.create_server((host, 0))
    threading.Thread(target=connect, args=(listener, host, port), daemon=True).start()
    try:
        yield f"http://{host}:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def connect(listener, host, port):
    with contextlib.suppress(OSError):
        while True:
            client, _ = listener.accept()
            threading.Thread(target=tunnel, args=(client, host, port), daemon=True).start()


def tunnel(client, host, port):
    with contextlib.suppress(OSError):
        asked = b""
        while not asked.endswith(b"\r\n\r\n"):
            piece = client.recv(CHUNK_BYTES)
            if not piece:
                client.close()
                return
            asked += piece
        upstream = socket.create_connection((host, port))
        client.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
        threading.Thread(target=pump, args=(upstream, client), daemon=True).start()
        pump(client, upstream)


def listen():
    """A listener on an address of 127.0.0.0/8 that is this run's own."""
    for _ in range(100):
        address = f"127.{random.randint(64, 127)}.{random.randint(1, 254)}.{random.randint(1, 254)}"
        try:
            return socket.create_server((address, SMB_PORT))
        except PermissionError:
            raise Skip("needs the right to listen on port 445") from None
        except OSError:
            continue
    raise Skip("no loopback address has port 445 free")


def accept(listener, server):
    with contextlib.suppress(OSError):
        while True:
            client, _ = listener.accept()
            upstream = socket.create_connection((server.host, server.port))
            for source, sink in ((client, upstream), (upstream, client)):
                threading.Thread(target=pump, args=(source, sink), daemon=True).start()


def pump(source, sink):
    with contextlib.suppress(OSError):
        while data := source.recv(CHUNK_BYTES):
            sink.sendall(data)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


class Cutter:
    """A relay on a port of its own. While `chance` is above 0 it cuts each connection with that chance each second, both ways
    and with what is on its way."""

    RESET = struct.pack("ii", 1, 0)  # close() sends a reset

    def __init__(self, server, seed):
        self.server = server
        self.random = random.Random(seed)
        self.chance = 0.0
        self.cuts = 0
        self._pairs = []
        self._lock = threading.Lock()
        self._ended = threading.Event()

    def __enter__(self):
        self._listener = socket.create_server((self.server.host, 0))
        self.port = self._listener.getsockname()[1]
        for work in (self._accept, self._cut):
            threading.Thread(target=work, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._end([*self._pairs])

    def cut_one(self):
        """Cuts the connection that was made last."""
        with self._lock:
            last = self._pairs[-1:]
        self.cuts += len(last)
        self._end(last)

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    pair = (client, socket.create_connection((self.server.host, self.server.port)))
                except OSError:
                    client.close()
                    continue
                with self._lock:
                    self._pairs.append(pair)
                for source, sink in (pair, pair[::-1]):
                    threading.Thread(target=self._pump, args=(source, sink, pair), daemon=True).start()

    def _pump(self, source, sink, pair):
        with contextlib.suppress(OSError):
            while data := source.recv(CHUNK_BYTES):
                sink.sendall(data)
        self._end([pair])

    def _cut(self):
        while not self._ended.wait(1):
            with self._lock:
                unlucky = [pair for pair in self._pairs if self.random.random() < self.chance]
            self.cuts += len(unlucky)
            self._end(unlucky)

    def _end(self, pairs):
        for pair in pairs:
            with self._lock:
                if pair not in self._pairs:
                    continue
                self._pairs.remove(pair)
            for end in pair:
                with contextlib.suppress(OSError):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, self.RESET)
                    end.shutdown(socket.SHUT_RDWR)
                end.close()
