"""Microsoft's own tests of azfile, as the module is published, against our server.

They name Azure's hosts, which lead to it here (as_azure). Tests that a server of SMB shares without Azure's other services cannot pass are in
known-failures.txt, each with its reason.
"""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import threading
import time

from conformance import packages, rest_table
from conformance.as_azure import as_azure
from conformance.report import Skip, expect

NAME = "rest_go_tests"
MODULE, VERSION = "github.com/Azure/azure-sdk-for-go/sdk/storage/azfile", "1.7.2"
# Their names are those of rest_shares, which are in REST_* variables.
ACCOUNTS = {"AZURE_STORAGE_ACCOUNT": "STANDARD", "PREMIUM_FILE_STORAGE_ACCOUNT": "V1", "SOFT_DELETE_AZURE_STORAGE_ACCOUNT": "KEPT"}
CHECK_SECONDS = 1500
REASON_CHARACTERS = 500


def run(kind, report, options):
    if kind.kind != "multilane":
        raise Skip("other servers have no REST interface")
    tests = built()
    with as_azure() as (server, environment):
        for name, program in tests.items():
            one_package(report, name, program, with_accounts(environment))
        rest_table.sums(report, NAME, "Go")
        report.server_is_well(NAME, server)


def with_accounts(environment):
    """The environment, with the accounts by the names that these tests know."""
    ours = {theirs: environment[f"REST_{role}"] for theirs, role in ACCOUNTS.items()}
    named = {f"{theirs}_NAME": name for theirs, name in ours.items()} | {f"{theirs}_KEY": environment[f"REST_KEY_{name}"] for theirs, name in ours.items()}
    return environment | named | {"AZURE_RECORD_MODE": "live", "PROXY_MANUAL_START": "true", "AZURE_SERVICE_DIRECTORY": "TESTS",
                                  "AZURE_STORAGE_ENCRYPTION_SCOPE": "tests"}


def built():
    """The programs of the tests by the names of their packages. A test's program wants to run in its package's folder."""
    module = packages.go_module(MODULE, VERSION)
    # What is internal asks nobody anything.
    found = sorted({path.parent for path in module.rglob("*_test.go") if "internal" not in path.parts})
    programs = {str(folder.relative_to(module)): folder / "tests" for folder in found}
    for name, program in programs.items():
        packages.build(["go", "test", "-c", "-o", str(program), f"./{name}"], module)
    return programs


def one_package(report, package, program, env):
    """Runs a package's tests; each is a check."""
    process = subprocess.Popen(["go", "tool", "test2json", str(program), "-test.v=test2json"], cwd=pathlib.Path(program).parent, env=env,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                               start_new_session=True)
    late = threading.Timer(CHECK_SECONDS, os.killpg, (process.pid, signal.SIGKILL))
    late.start()
    began, said, last = time.monotonic(), {}, ""
    try:
        for line in process.stdout:
            with contextlib.suppress(ValueError):
                event = json.loads(line)
                # What is below a test is a part of it; the one above all runs the others.
                test = "/".join(event.get("Test", "").split("/")[:2])
                said.setdefault(test, []).append(event.get("Output", ""))
                last = event.get("Test", last)
                is_whole = event.get("Test") == test and test not in ("", "Test")
                if is_whole and event["Action"] in ("pass", "fail", "skip"):
                    name = f"{package}: {test.removeprefix('Test/')}"
                    report.add(NAME, name, event["Action"], event.get("Elapsed", 0.0), reason("".join(said.pop(test))))
        process.wait()
    finally:
        late.cancel()
    with report.check(NAME, f"{package}: the tests end"):
        is_whole = process.returncode in (0, 1) and time.monotonic() - began < CHECK_SECONDS
        expect(is_whole, f"exit {process.returncode} in {last}: {''.join(said.get(last, []))[-3000:]}")


def reason(output):
    """What a test's output says of why it failed."""
    texts = re.findall(r"Error:\s+(.*?)\n\s*(?:Test:|Messages:)", output, re.DOTALL) or [output]
    return " | ".join(line.strip() for line in texts[0].splitlines() if line.strip())[:REASON_CHARACTERS]
