"""The checks of the suite announced. Runs in network and mount namespaces that it has to itself."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from conformance.multilane import binary
from conformance.packages import find
from conformance.report import Lines

PORT = 4459
SECONDS = 45  # Avahi is looked for every 30, and the shares every 5
BUS = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>system</type>
  <listen>unix:path={socket}</listen>
  <auth>EXTERNAL</auth>
  <policy context="default"><allow user="*"/><allow own="*"/><allow send_type="method_call"/><allow send_type="signal"/>
  <allow receive_type="method_call"/><allow receive_type="signal"/><allow receive_type="method_return"/><allow receive_type="error"/>
  <allow send_requested_reply="true"/></policy>
</busconfig>
"""
RESPONDER = "[server]\nuse-ipv6=no\nallow-interfaces=here\n[publish]\npublish-workstation=no\n"
lines = Lines()


def main():
    with tempfile.TemporaryDirectory(prefix="announced-") as folder, contextlib.ExitStack() as ending:
        house = House(pathlib.Path(folder), ending)
        house.network()
        with lines.check("without a bus the server starts at once, and says that it is not announced"):
            server = house.serve()
            until(lambda: "not announced" in house.log.read_text(), "the log says nothing of it")
        house.bus()
        responder = house.responder()
        with lines.check("once Avahi is there the server is announced, and its shares for Time Machine"):
            until(lambda: house.told("_smb._tcp"), "no _smb._tcp")
            expect(house.told("_smb._tcp")[0][8] == str(PORT), house.told("_smb._tcp"))
            texts = house.told("_adisk._tcp")[0][9]
            expect('"dk0=adVN=macs,adVF=0x82"' in texts and '"sys=waMa=0,adVF=0x100"' in texts and "files" not in texts, texts)
            expect("model=PowerMac" in house.told("_device-info._tcp")[0][9], house.told("_device-info._tcp"))
        with lines.check("a share that is for Time Machine no longer is not told of any more"):
            house.multilane("share", "update", "macs", "--time-machine", "off")
            until(lambda: not house.told("_adisk._tcp"), "_adisk._tcp is still there")
            expect(house.told("_smb._tcp"), "the server is gone")
        with lines.check("an Avahi that was started again is told again"):
            ended(responder)
            house.responder()
            until(lambda: house.told("_smb._tcp"), "no _smb._tcp")
        with lines.check("a server that ends is not announced any more"):
            expect(ended(server) == 0, "it failed")
            until(lambda: not house.told("_smb._tcp"), "_smb._tcp is still there")


class House:
    """A server, and what it is announced by."""

    def __init__(self, folder, ending):
        self.folder, self.ending = folder, ending
        self.log, self.socket = folder / "server.log", folder / "bus"
        self.environment = dict(os.environ, DBUS_SYSTEM_BUS_ADDRESS=f"unix:path={self.socket}", MULTILANE_DATA=str(folder / "data"))

    def network(self):
        for words in ("link set lo up", "link add here type veth peer name there", "addr add 10.90.0.1/24 dev here", "link set there up", "link set here up",
                      "route add 224.0.0.0/4 dev here"):
            subprocess.run([find("ip"), *words.split()], check=True)
        # Avahi's place for the number of its process, of which the machine may have another.
        os.makedirs("/run/avahi-daemon", exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run/avahi-daemon"], check=True)

    def start(self, *argv):
        with open(self.log, "ab") as log:
            process = subprocess.Popen([str(word) for word in argv], env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.ending.callback(ended, process)
        return process

    def bus(self):
        configuration = self.folder / "bus.conf"
        configuration.write_text(BUS.format(socket=self.socket))
        self.start(find("dbus-daemon"), "--config-file", configuration, "--nofork", "--nopidfile")
        until(self.socket.exists, "the bus does not start")

    def responder(self):
        configuration = self.folder / "avahi.conf"
        configuration.write_text(RESPONDER)
        return self.start(find("avahi-daemon"), "--file", configuration, "--no-drop-root", "--no-chroot", "--no-rlimits")

    def multilane(self, *words):
        subprocess.run([str(binary()), *words], env=self.environment, check=True, capture_output=True)

    def serve(self):
        for share, how in (("macs", ["--time-machine", "1T"]), ("files", [])):
            (self.folder / share).mkdir()
            if share == "macs":
                self.multilane("account", "create", "suites")
            self.multilane("share", "create", share, "--path", str(self.folder / share), *how)
        server = self.start(binary(), "serve", "--announce", "--listen", f"10.90.0.1:{PORT}")
        until(lambda: "serves" in self.log.read_text(), "the server does not start")
        return server

    def told(self, kind):
        """What is found of a kind of service: the fields of each line of avahi-browse that has been looked up."""
        found = subprocess.run([find("avahi-browse"), "--resolve", "--terminate", "--parsable", kind], env=self.environment, capture_output=True,
                               text=True, timeout=30).stdout
        return [line.split(";", 9) for line in found.splitlines() if line.startswith("=")]


def ended(process):
    """Ends a process; gives its exit code."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
    return process.wait()


def until(is_so, what):
    deadline = time.monotonic() + SECONDS
    while not is_so():
        expect(time.monotonic() < deadline, what)
        time.sleep(0.5)


def expect(condition, seen):
    if not condition:
        raise AssertionError(seen)


if __name__ == "__main__":
    sys.exit(main())
