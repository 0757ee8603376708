"""The lines of docs/REST.md for each client, run as they stand there: only the port, the account and its key are this run's. Those for az are the suite
rest_page_az's: installing it takes a minute and three quarters of a gigabyte."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from conformance import packages
from conformance.py_smbprotocol import REQUIREMENTS as SMB_REQUIREMENTS
from conformance.report import Skip, expect
from conformance.rest import REQUIREMENTS, WithRest
from conformance.rest_trees import account_sas, azcopy
from conformance.server import HOST, Wanted, serving

NAME = "rest_page"
PAGE = packages.ROOT / "docs" / "REST.md"
AZ = ("azure-cli==2.91.0", *SMB_REQUIREMENTS)
COMMAND_SECONDS = 120
TEXT = "hello"


def run(kind, report, options):
    run_lines(kind, report, NAME, {client: work for client, work in CLIENTS.items() if client != "az"})


def run_lines(kind, report, suite, clients):
    """Runs the page's lines for these clients, each against files of its own."""
    if kind.kind != "multilane":
        raise Skip("other servers have no REST interface")
    blocks = dict(re.findall(r"^### (\S+)\n\n```\w+\n(.*?)```$", PAGE.read_text(), re.MULTILINE | re.DOTALL))
    with serving(WithRest, Wanted(shares=("share",), on_tmpfs=True)) as server:
        for client, work in clients.items():
            with report.check(suite, f"the page's lines for {client}"), tempfile.TemporaryDirectory() as folder:
                expect(client in blocks, f"the page has lines for {sorted(blocks)}")
                place = Place(server, pathlib.Path(folder))
                work(place, place.of_this_run(blocks[client]))
        report.server_is_well(suite, server)


class Place:
    """A folder in which lines are run, with the files that they name."""

    def __init__(self, server, folder):
        self.server, self.folder = server, folder
        self.rest = server.rest_environment()
        (folder / "hello.txt").write_text(TEXT)
        for name in ("one", "a folder/two"):
            (folder / "folder" / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / "folder" / name).write_text(name)

    def of_this_run(self, block):
        """The lines, with this run's port, account and key."""
        block = block.replace("127.0.0.1:10004", f"{HOST}:{self.server.rest_port}").replace("KEY", self.rest["REST_KEY"])
        return re.sub(r"\blocal\b", self.rest["REST_ACCOUNT"], block)

    def call(self, *argv, cwd=None, **environment):
        env = dict(os.environ, HOME=str(self.folder), **environment)
        result = subprocess.run(argv, cwd=cwd or self.folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True, errors="replace", timeout=COMMAND_SECONDS)
        expect(result.returncode == 0, f"exit {result.returncode}\n{result.stdout[-3000:]}")
        return result.stdout

    def shell(self, lines, name, program, **environment):
        """Runs the lines in a shell that knows the program by this name."""
        programs = self.folder / "bin"
        programs.mkdir()
        (programs / name).symlink_to(program)
        return self.call("sh", "-e", "-c", lines, PATH=f"{programs}:{os.environ['PATH']}", **environment)

    def is_there(self, name="hello.txt", text=TEXT):
        seen = (self.server.share_path() / name).read_text()
        expect(seen == text, f"{name} is {seen!r}")
        (self.server.share_path() / name).unlink()


def python(place, block):
    said = place.call(packages.python_with(*REQUIREMENTS, folder="venv-azure"), "-c", block)
    expect("hello.txt" in said, said)
    place.is_there()


def javascript(place, block):
    program = packages.node_program("rest-js") / "page.mjs"
    program.write_text(block)
    said = place.call("node", str(program))
    expect(said.strip() == TEXT, said)
    place.is_there()


def go(place, block):
    program = place.folder / "page.go"
    program.write_text(block)
    # What was built before is where it is without a home of our own.
    home = {name: subprocess.run(["go", "env", name], capture_output=True, text=True).stdout.strip() for name in ("GOCACHE", "GOPATH", "GOMODCACHE")}
    said = place.call("go", "run", str(program), cwd=packages.HERE / "rest-go", **home)
    expect(said.strip() == f"{TEXT} <nil>", said)
    place.is_there()


def az(place, block):
    program = pathlib.Path(packages.python_with(*AZ, folder="venv-az")).parent / "az"
    said = place.shell(block, "az", program, AZURE_CORE_COLLECT_TELEMETRY="0")
    expect((place.folder / "copies" / "hello.txt").read_text() == TEXT and "sig=" in said, said)
    place.is_there()


def azcopy_lines(place, block):
    sas = account_sas(place.rest["REST_ACCOUNT"], place.rest["REST_KEY"])
    place.shell(block, "azcopy", azcopy(), SAS=sas)
    expect((place.folder / "back" / "a folder" / "two").read_text() == "a folder/two", "it came back as another")
    expect(not (place.server.share_path() / "copied").exists(), "it is still there")


def rclone(place, block):
    place.shell(block, "rclone", packages.go_program("rest-rclone", "rclone"))
    expect((place.server.share_path() / "copied" / "a folder" / "two").read_text() == "a folder/two", "it is another there")
    shutil.rmtree(place.server.share_path() / "copied")


CLIENTS = {"Python": python, "JavaScript": javascript, "Go": go, "az": az, "AzCopy": azcopy_lines, "rclone": rclone}
