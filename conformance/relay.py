"""A TCP relay to the server from port 445 of another loopback address, for programs that know no other port."""

import contextlib
import random
import socket
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


def listen():
    """A listener on an address of 127.0.0.0/8 that is this run's own."""
    for _ in range(100):
        address = f"127.{random.randint(64, 127)}.{random.randint(1, 254)}.{random.randint(1, 254)}"
        try:
            return socket.create_server((address, SMB_PORT))
        except PermissionError:
            raise Skip("needs the right to listen on port 445")
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
