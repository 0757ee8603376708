"""Our own server, as built: the program is $MULTILANE_BINARY or target/release/multilane."""

import json
import os
import pathlib
import subprocess

from conformance import packages
from conformance.server import Server


def binary():
    """The built program; $CARGO_TARGET_DIR is honoured as Cargo does."""
    if "MULTILANE_BINARY" in os.environ:
        return pathlib.Path(os.environ["MULTILANE_BINARY"])
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", packages.ROOT / "target"))
    return target / "release" / "multilane"


class Multilane(Server):
    kind = "multilane"
    has_ram_shares = True
    acl_attribute = "multilane.sd"
    second_user = "somebody-else"
    keeper = "suites"
    metadata_caching = True  # of the account, as it is by default

    def __init__(self, wanted, program=None, share_options=()):
        super().__init__(wanted)
        self.program = program or binary()
        self.share_options = share_options

    def prepare(self):
        self._run("account", "create", "suites")
        if not self.metadata_caching:
            self._run("account", "update", "suites", "--metadata-caching", "off")
        for user in (self.user, self.second_user):
            # An older name of `user create`, which builds that are measured against may not know.
            self._run("user", "add", user, "--password-stdin", text=self.password + "\n")
        if self.wanted.channels > 1:
            self._run("account", "update", "suites", "--multichannel", "on")
        for share in self.wanted.shares:
            self._run("share", "create", share, "--path", str(self.share_path(share)),
                      *(["--seal"] if self.wanted.sealed_shares else []),
                      *(["--continuous"] if self.wanted.continuous else []),
                      *(["--access-based"] if share in self.wanted.access_based else []), *self.share_options)
        for share in self.wanted.ram_shares:
            self._run("share", "create", share, "--ram", "8G", *self.share_options)

    def command(self):
        return [str(self.program), "serve", "--data", self._data(),
                *(word for port in self.ports for word in ("--listen", f"{self.host}:{port}")),
                "--signing", self.wanted.signing,
                "--sealing", self.wanted.sealing, "--dialect-min", "2.0.2",
                "--channels-max", str(self.wanted.channels),
                *(["--anonymous", "reauthentication"] if self.wanted.anonymous else []),
                *(word for address in self.wanted.advertised for word in ("--advertise", address)),
                *(["--advertise-only"] if self.wanted.advertised else [])]

    def keeper_password(self):
        return json.loads(self._run("account", "keys", self.keeper, "--json"))["key1"]

    def open_files(self):
        # Those of session 0 wait for a client that was lost, and need nobody to close them.
        return sum(open_file["session"] != "0" for open_file in json.loads(self._run("open-files", "--json")))

    def sessions(self):
        return len(self.session_views())

    def session_views(self):
        """What `multilane sessions --json` tells of each session."""
        return json.loads(self._run("sessions", "--json"))

    def logged(self, event, what):
        """What its log has of these events."""
        lines = [line for line in self.log.read_text(errors="replace").splitlines() if line.startswith("{")]
        return [one for one in map(json.loads, lines) if (one.get("event"), one.get("what")) == (event, what)]

    def _data(self):
        return str(self.folder / "data")

    def _run(self, *words, text=""):
        argv = [str(self.program), *words, "--data", self._data()]
        result = subprocess.run(argv, input=text, capture_output=True, text=True, timeout=60)
        if result.returncode != 0:
            raise RuntimeError(f"multilane {' '.join(words)}: exit {result.returncode}\n{result.stderr}{result.stdout}")
        return result.stdout
