"""What an authenticated connection costs that does nothing: the server's memory before and with many of them."""

import subprocess
import time

CONNECTIONS = 1000
SETTLE_SECONDS = 2


def kib_each(clients, server, share):
    """Growth of the server's memory per connection, in KiB."""
    before = server.resident_bytes()
    client = subprocess.Popen([clients.pipelined, "--mode", "idle", "--connections", str(CONNECTIONS)],
                              env=dict(server.environment(), SMB_SHARE=share), stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        if client.stdout.readline().strip() != "ready":
            raise RuntimeError(f"{CONNECTIONS} idle connections to {server.kind}: {client.stderr.read()}")
        time.sleep(SETTLE_SECONDS)
        return (server.resident_bytes() - before) / CONNECTIONS / 1024
    finally:
        client.stdin.close()
        client.wait(60)
