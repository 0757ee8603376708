"""The process that attacks: `python -m conformance.bench.bounds.attacker CASE`. It prints what it did, what it missed of what its case is named
after, then `held`, and lets go of everything when its input ends."""

import os
import resource
import select
import selectors
import struct
import sys
import time

from conformance.bench.bounds.case import all_cases
from conformance.hostile.client import ECHO, ECHO_BODY, SUCCESS, WRITE, Closed, Raw, client, write_body

# Not the one that others come from.
ONE_ADDRESS = "127.10.0.1"
MIB = 1 << 20
SETTLING_SECONDS = 3


class Attacker:
    """What every attack needs: strangers' connections, signed-in ones, and somewhere to say how far it came."""

    def __init__(self):
        self.kept = []
        # What goes on while others measure, a little at a time.
        self.meanwhile = None
        self._address = 0
        self._network = 0

    def say(self, text):
        print(f"says {text}", flush=True)

    def expect(self, happened, text):
        """The case is no proof of anything where this has not happened."""
        if not happened:
            print(f"missed {text}", flush=True)

    def hold(self):
        """All is as bad as it gets; go on until the measuring is over."""
        print("held", flush=True)
        while self.meanwhile and not select.select([sys.stdin], [], [], 0)[0]:
            try:
                self.meanwhile()
            except (OSError, Closed):
                continue
        sys.stdin.read()

    def keep(self, connection):
        self.kept.append(connection)
        return connection

    def address(self):
        """Another loopback address each time, as if strangers came from everywhere."""
        self._address += 1
        return f"127.{20 + self._address // 60000}.{self._address // 250 % 240}.{self._address % 250 + 1}"

    def network(self):
        """An address that shares no /24 with another one."""
        self._network += 1
        return f"127.{20 + self._network // 250 % 230}.{self._network % 250}.1"

    def stranger(self, everywhere=True, seconds=20, source=None):
        """A connection of somebody who has no account."""
        return Raw(seconds=seconds, source=source or (self.address() if everywhere else ONE_ADDRESS))

    def let_go_of_ended(self):
        """Forgets connections that the server has ended."""
        self.kept = [connection for connection in self.kept if not has_ended(connection)]

    def left(self):
        """How many connections the server leaves when it has come to all that was sent."""
        time.sleep(SETTLING_SECONDS)
        self.let_go_of_ended()
        return len(self.kept)

    def user(self, credits=0):
        """A signed-in connection with a tree, and as many credits as it can get."""
        connection = client()
        connection.socket.settimeout(60)
        self.keep(connection)
        if credits:
            self.credits(connection, credits)
        return connection

    def credits(self, connection, wanted):
        """Asks for credits until there are so many or no more come; how many there are about."""
        held = 0
        for _ in range(64):
            granted = connection.call(ECHO, ECHO_BODY, credits=8192).credits
            held += granted - 1
            if held >= wanted or granted <= 1:
                break
        return held

    def written(self, connection, name, size):
        """The id of a file with so many bytes."""
        file = connection.open(name)
        block = os.urandom(MIB)
        for offset in range(0, size, MIB):
            answer = connection.call(WRITE, write_body(file, block[:size - offset], offset=offset), charge=16, credits=64)
            assert answer.status == SUCCESS, f"WRITE: {answer.status:#x}"
        return file


class Pushing:
    """Sends to many sockets at once what each takes, and reads nothing."""

    def __init__(self):
        self._selector = selectors.DefaultSelector()
        self.sent = 0
        self.ended = 0

    def add(self, connection, data):
        connection.socket.setblocking(False)
        self._selector.register(connection.socket, selectors.EVENT_WRITE, [memoryview(data)])

    def run(self, seconds, idle_seconds=3.0):
        """Until all is sent, or nobody takes any more, or the time is over."""
        until = time.monotonic() + seconds
        while self._selector.get_map() and time.monotonic() < until:
            ready = self._selector.select(idle_seconds)
            if not ready:
                return
            for key, _ in ready:
                self._push(key)

    def _push(self, key):
        try:
            sent = key.fileobj.send(key.data[0][:256 << 10])
        except BlockingIOError:
            return
        except OSError:
            self.ended += 1
            self._selector.unregister(key.fileobj)
            return
        self.sent += sent
        key.data[0] = key.data[0][sent:]
        if not key.data[0]:
            self._selector.unregister(key.fileobj)


def has_ended(connection):
    """True where the server has ended a connection of which no answers are expected any more."""
    try:
        connection.socket.setblocking(False)
        while connection.socket.recv(64 << 10):
            pass
    except BlockingIOError:
        return False
    except OSError:
        pass
    connection.socket.close()
    return True


def framed(message, length=None):
    return struct.pack(">I", len(message) if length is None else length) + message


def main():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    from conformance.bench.bounds import cases  # noqa: F401, they register themselves
    attacker = Attacker()
    try:
        all_cases()[sys.argv[1]].attack(attacker)
    except (OSError, Closed, AssertionError) as error:
        attacker.expect(False, f"its end: {type(error).__name__} {error}".strip())
    attacker.hold()


if __name__ == "__main__":
    main()
