"""The kernel's client and the crate `fsx`, which knows what a file must hold after each of its random changes: mapped, direct, sealed, over
several channels, and with another client that wants the file. Then two clients in one tree, which is compared with the share's folder.

The guest runs in User Mode Linux where it does, else, or with MULTILANE_GUEST=qemu, in QEMU; its part is in kernel-guest/fsx.sh and kernel-guest/churn.c.
`python3 -m conformance.kernel_fsx --minutes 60` is the long form.
"""

import argparse
import contextlib
import hashlib
import os
import random
import re
import shlex

from conformance import alone, guest, multilane, packages, uml
from conformance.report import expect
from conformance.server import Wanted, serving

NAME = "kernel_fsx"
MINUTES = 2
CHANNELS = 4
# The kinds of mounts and the tree; each gets its part of the time.
PARTS = 6
# Of what a guest takes beside that: to boot, mount and unmount, and to end what it has begun.
MORE_SECONDS = 240
# What the server keeps in a share's folder for itself, which clients do not see.
SERVERS_OWN = ".multilane"
FSX = ("fsx", "0.3.2", "fsx")


def run(kind, report, options, minutes=MINUTES):
    files = guest.with_libraries(packages.crate_program(*FSX))
    files["bin/churn"] = str(guest.compiled("churn"))
    seed = random.randrange(1, 1 << 30)
    with contextlib.ExitStack() as stack:
        # Samba listens on loopback alone, which only QEMU's network leads to.
        card = guest_card(stack, report) if kind.kind == "multilane" else None
        address = card.host if card else guest.GATEWAY
        wanted = Wanted(windows_like=True, on_tmpfs=True, channels=CHANNELS, advertised=(f"{address},rss",))
        server = stack.enter_context(serving(listening(kind, card), wanted))
        has_channels = kind.kind == "multilane"
        variables = {"server": address, "port": server.port, "share": server.share, "user": server.user, "password": server.password,
                     "seconds": max(5, int(minutes * 60 / PARTS)), "seed": seed, "multichannel": CHANNELS if has_channels else ""}
        script = "".join(f"{name}={shlex.quote(str(value))}\n" for name, value in variables.items())
        script += (guest.FILES / "fsx.sh").read_text()
        report.note(f"{NAME}: seed {seed}, in {'User Mode Linux' if card else 'QEMU'}")
        command = uml.command(script, server.folder, card, files) if card else guest.command(script, server.folder, files)
        failures = report.count("fail")
        said = report.absorb(NAME, command, minutes * 60 + MORE_SECONDS, cwd=packages.CACHE, lines_kept=4000, ending=guest.ENDING)
        if report.count("fail") > failures:
            printed = "\n".join(line for line in said.splitlines() if not line.startswith(("file ", "folder ")))
            report.note(f"What the guest printed:\n{printed}\nThe server's log:\n{server.log_tail()}")
        else:
            report.note("".join(f"{NAME}: {line}\n" for line in said.splitlines() if "operations" in line).rstrip())
        with report.check(NAME, "the share's folder holds what the clients saw"):
            expect_same(server.share_path(), said)
        report.server_is_well(NAME, server)


def guest_card(stack, report):
    """The card of a guest in User Mode Linux, or nothing where only QEMU runs."""
    if os.environ.get("MULTILANE_GUEST") == "qemu":
        return None
    try:
        uml.built()
        card = stack.enter_context(uml.Card())
        expect(uml.boots(card), "it does not boot")
        return card
    except Exception as reason:  # whatever it is, QEMU does the same, slower
        report.note(f"{NAME}: no User Mode Linux: {reason}")
        return None


def listening(kind, card):
    """This kind of server, on the card's address too."""
    class Listening(kind):
        def command(self):
            words = super().command()
            return [*words, "--listen", f"{card.host}:{self.port}"] if card else words

        def unmount(self):
            # Where this program is ended by a signal nobody else takes the card away.
            if card:
                card.remove()
    return Listening


def expect_same(folder, said):
    """Names, sizes and contents, as the last client saw them and as they are."""
    seen = {place.removeprefix("./"): digest for digest, place in re.findall(r"^file ([0-9a-f]{64})  (.+)$", said, re.MULTILINE)}
    folders = {place.removeprefix("./") for place in re.findall(r"^folder (.+)$", said, re.MULTILINE)} - {"."}
    # Those of fio and of fsx, without what two clients change at random.
    expect(len(seen) >= 3, f"the guest listed {len(seen)} files")
    there = [path for path in folder.rglob("*") if path.relative_to(folder).parts[0] != SERVERS_OWN]
    held = {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in there if path.is_file()}
    expect(seen.keys() == held.keys(), f"only one has {sorted(seen.keys() ^ held.keys())[:8]}")
    different = [name for name in seen if seen[name] != held[name]]
    expect(not different, f"other contents: {different[:8]}")
    expect(folders == {str(path.relative_to(folder)) for path in there if path.is_dir()}, f"other folders than {sorted(folders)}")


def main():
    parser = argparse.ArgumentParser(prog="conformance.kernel_fsx", description=__doc__.split("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=MINUTES, help=f"how long it works in all ({MINUTES})")
    arguments = parser.parse_args()
    alone.main(NAME, lambda report: run(multilane.Multilane, report, arguments, arguments.minutes))


if __name__ == "__main__":
    main()
