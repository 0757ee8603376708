"""Looks at the server's memory all the time, and at the attacker's end when it goes too far."""

import threading

from conformance.bench.bounds.case import MIB

EVERY_SECONDS = 0.05
# Beyond this the attack is ended: it is shown, and the machine is others' too.
STOP_BYTES = 2048 * MIB


class Watch(threading.Thread):
    """The most memory (PSS of all the server's processes) there was since it began."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server = server
        self.before = self.peak = server.resident_bytes()
        self.too_much = threading.Event()
        self._ended = threading.Event()

    def run(self):
        while not self._ended.wait(EVERY_SECONDS):
            self.peak = max(self.peak, self.server.resident_bytes())
            if self.peak - self.before > STOP_BYTES:
                self.too_much.set()

    def end(self):
        self._ended.set()
        self.join()

    @property
    def grown_mib(self):
        return (self.peak - self.before) / MIB

    def grown_now_mib(self):
        return (self.server.resident_bytes() - self.before) / MIB
