"""The kernel's client with four network cards and a channel over each, while cables are pulled out and put back under fio; the guest's
part is in kernel-guest/channels.sh. It skips for servers that cannot be told which addresses to advertise.

The guest asks this program over a second serial line to pull a cable, and what channels the server sees.
"""

import json
import os
import shlex
import socket
import threading

from conformance import guest, packages
from conformance.report import Skip
from conformance.server import Wanted, serving

NAME = "kernel_channels"
SECONDS = 300
CARDS = 4
# Inside the guest each of these is this machine's loopback, through a card of its own.
ADDRESSES = tuple(f"10.0.{number + 2}.2" for number in range(CARDS))
assert ADDRESSES[0] == guest.GATEWAY


def run(kind, report, options):
    if kind.kind != "multilane":
        raise Skip("only multilane can be told to advertise addresses that are not its machine's")
    advertised = tuple(f"{address},speed=10G" for address in ADDRESSES)
    with serving(kind, Wanted(on_tmpfs=True, channels=2 * CARDS, advertised=advertised)) as server:
        variables = {"server": guest.GATEWAY, "port": server.port, "share": server.share, "user": server.user,
                     "password": server.password, "cards": CARDS, "shards": min(CARDS, len(os.sched_getaffinity(0)))}
        script = "".join(f"{name}={shlex.quote(str(value))}\n" for name, value in variables.items())
        script += (guest.FILES / "channels.sh").read_text()
        with Operator(server) as operator:
            command = guest.command(script, server.folder) + operator.words() + more_cards()
            failures = report.count("fail")
            said = report.absorb(NAME, command, SECONDS, cwd=packages.CACHE, ending=guest.ENDING)
        if report.count("fail") > failures:
            report.note(f"What the guest printed:\n{said}\nThe server's log:\n{server.log_tail()}")
        report.server_is_well(NAME, server)


def more_cards():
    """QEMU's words for the cards after the first, which every guest has."""
    words = []
    for number, address in enumerate(ADDRESSES[1:], 1):
        words += ["-netdev", f"user,id={device(number)},net={address.removesuffix('2')}0/24,host={address}",
                  "-device", f"virtio-net-pci,netdev={device(number)}"]
    return words


def device(number):
    """QEMU's name for a card's end of the cable."""
    return "net" if number == 0 else f"net{number}"


class Operator:
    """Answers the guest's requests, a line each: pulls a cable out or puts it back, and says what channels the server sees."""

    def __init__(self, server):
        self._server = server
        self._paths = {name: str(server.folder / name) for name in ("requests", "control")}
        self._listeners = {}
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self):
        for name, path in self._paths.items():
            self._listeners[name] = socket.socket(socket.AF_UNIX)
            self._listeners[name].bind(path)
            self._listeners[name].listen()
        self._thread.start()
        return self

    def __exit__(self, *_):
        for listener in self._listeners.values():
            # Closing alone would leave a thread that waits for a guest which never started.
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        self._thread.join()

    def words(self):
        """QEMU's words that connect it to this operator."""
        return ["-serial", f"unix:{self._paths['requests']}", "-qmp", f"unix:{self._paths['control']}"]

    def _serve(self):
        try:
            requests, _ = self._listeners["requests"].accept()
            control, _ = self._listeners["control"].accept()
        except OSError:
            return
        with requests, control, requests.makefile("rw") as lines, control.makefile("rw") as machine:
            machine.readline()
            execute(machine, "qmp_capabilities")
            for line in lines:
                lines.write(self._answer(line.split(), machine) + "\n")
                lines.flush()

    def _answer(self, request, machine):
        match request:
            case ["link", card, state]:
                return execute(machine, "set_link", name=device(int(card)), up=state == "up")
            case ["channels"]:
                return str(len(self._channels()))
            case ["shards"]:
                return str(len({channel["shard"] for channel in self._channels()}))
            case ["requests"]:
                return str(sum(channel["requests"] for channel in self._channels()))
            case ["fewest-requests"]:
                return str(min(channel["requests"] for channel in self._channels()))
            case _:
                return f"what is {request}?"

    def _channels(self):
        return [channel for session in self._server.session_views() for channel in session["channels"]]


def execute(machine, command, **arguments):
    """Has QEMU do something; `done`, or its error."""
    machine.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
    machine.flush()
    for line in machine:
        answer = json.loads(line)
        if "return" in answer:
            return "done"
        if "error" in answer:
            return answer["error"]["desc"]
    return "QEMU is gone"
