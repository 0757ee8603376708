"""Azure Files' REST interface, asked by requests that schemathesis makes of docs/rest.openapi.json: those that the description allows, and others. The
checks are in rest_schema_checks.py."""

import json
import os

from conformance import packages
from conformance.report import expect
from conformance.rest import Keeping, WithTls, only_ours
from conformance.server import Wanted, process_resident, serving

NAME = "rest_schema"
REQUIREMENTS = ("schemathesis==4.32.5",)
CHECK_SECONDS = 900
# The generator asks of the first of these; the other one is somebody else's, and stays as it is.
SHARES = ("conf", "other")
KEPT = "kept text"
MIB = 1 << 20
# What the server may grow by: what it keeps of shares, permissions and signatures that it was told of, and what the allocator keeps.
GROWTH_MIB = 96


class WithTokens(WithTls, Keeping):
    """By HTTPS, with service principals, and with deleted shares that are kept."""


def run(kind, report, options):
    only_ours(kind)
    python = packages.python_with(*REQUIREMENTS, folder="venv-schema")
    with serving(WithTokens, Wanted(shares=SHARES, on_tmpfs=True)) as server:
        (server.share_path(SHARES[1]) / "kept").write_text(KEPT)
        (server.share_path() / "dir").mkdir()
        (server.share_path() / "a").write_text(KEPT)
        before, memory = left(server), process_resident(server.pid)
        environment = dict(server.rest_environment(), REST_KEPT=KEPT, SCHEMA_SEED=str(options.schema_seed), SCHEMA_SECONDS=str(options.schema_seconds))
        said = report.absorb(NAME, [python, "-m", "conformance.rest_schema_checks"], CHECK_SECONDS + 2 * options.schema_seconds, env=environment,
                             cwd=packages.ROOT)
        report.note("".join(f"{NAME}: {line}\n" for line in said.splitlines() if " requests in " in line).rstrip())
        with report.check(NAME, "nothing has left its share, and the server has not grown"):
            expect(left(server) == before, f"{sorted(left(server) ^ before)} came or went")
            grown = (process_resident(server.pid) - memory) // MIB
            expect(grown < GROWTH_MIB, f"it has grown by {grown} MiB")
        with report.check(NAME, "nothing in the server has panicked"):
            events = [json.loads(line) for line in server.log.read_text(errors="replace").splitlines() if line.startswith("{")]
            wrong = [event for event in events if event.get("level") == "ERROR" or "panicked" in json.dumps(event)]
            expect(not wrong, wrong[:3])
        report.server_is_well(NAME, server)


def left(server):
    """What is there beside what the generator may make: in the shares' folder, but for the inside of its own share, and in the data folder, but for what
    the server keeps in the folders there."""
    shares = server.share_path().parent
    inside = {path for path in shares.rglob("*") if server.share_path() not in path.parents and ".multilane" not in path.parts}
    return {*os.listdir(server.folder), *(str(path) for path in inside)}
