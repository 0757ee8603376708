"""A relay to a server that adds to what it tells Macs it can do. Each of smbtorture's tests for Macs ends where that is not what Samba tells, whatever the test
is about; behind the relay they go on."""

import contextlib
import socket
import struct
import threading

from conformance.server import HOST

# kAAPL_SERVER_QUERY answered with all three parts, before the capabilities of the server.
ANSWER = struct.pack("<IIQ", 1, 0, 7)
# Directory attributes, copies of whole files, UNIX modes, and modes in access control entries.
OF_SAMBA = struct.pack("<Q", 0x0F)
CHUNK_BYTES = 64 << 10
PREFIX_BYTES = 4


class Relay:
    """Listens on a free port of the server's address for as long as this process lives."""

    def __init__(self, server):
        self._server = server
        self._listener = socket.create_server((HOST, 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self._listener.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection((self._server.host, self._server.port))
                for source, target, change in ((client, server, bytes), (server, client, add)):
                    threading.Thread(target=pump, args=(source, target, change), daemon=True).start()


def pump(source, target, change):
    """Passes whole frames on until either end closes."""
    held = b""
    with contextlib.suppress(OSError):
        while received := source.recv(CHUNK_BYTES):
            held += received
            while len(held) >= (length := PREFIX_BYTES + int.from_bytes(held[1:PREFIX_BYTES], "big")):
                target.sendall(change(held[:length]))
                held = held[length:]
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def add(frame):
    """The frame with those capabilities, where it tells of any."""
    context = frame.find(b"AAPL")
    at = frame.find(ANSWER, context) if context > 0 else -1
    if at < 0:
        return frame
    at += len(ANSWER)
    return frame[:at] + OF_SAMBA + frame[at + len(OF_SAMBA):]
