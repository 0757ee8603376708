"""A real project on a share that the kernel's client has mounted: git clones it, npm installs its packages, make builds it, and it is used,
symbolic links and all. The same is done on a disk of the guest's own, and both are compared; so is the share's folder.

The kernel is Debian's newest, whose client makes links as reparse points by itself. The guest uses this machine's programs, which it sees through 9p. All
packages are made here: nothing comes from elsewhere.
"""

import json
import os
import pathlib
import re
import shlex
import subprocess

from conformance import guest, packages
from conformance.report import expect
from conformance.server import Wanted, serving

NAME = "project"
SECONDS = 1500
# Of each thing in the folder the guest prints its path, its kind, where a link leads, and a sum of a file.
LISTED = re.compile(r"^(local|share) (\S+) ([fdl]) ?(.*)$", re.MULTILINE)
LINKS = {
    "current": "src/main.c",
    "docs/latest": "v2",
    "docs/v2/up": "../v1/page",
    "nowhere": "not/there",
    "circle": "circle",
    "absolute": "/etc/hostname",
    "with space": "docs/v1/a b",
}
MAIN = """#include <stdio.h>
#include "greeting.h"
int main(void) { puts(GREETING); return 0; }
"""
MAKEFILE = """all: app app-link
app: src/main.o
\t$(CC) -o $@ $^
src/main.o: current include/greeting.h
\t$(CC) -I include -x c -c -o $@ current
app-link: app
\tln -sf app $@
clean:
\trm -f app app-link src/main.o
"""


def run(kind, report, options):
    packages.need("git", "npm", "node", "make", "cc", "qemu-system-x86_64")
    with serving(kind, Wanted(windows_like=True, on_tmpfs=True)) as server:
        origin = project(server.folder / "project")
        variables = {"server": guest.GATEWAY, "port": server.port, "share": server.share, "user": server.user,
                     "password": server.password, "origin": origin, "tag": guest.HOST_TAG}
        script = "".join(f"{name}={shlex.quote(str(value))}\n" for name, value in variables.items())
        script += (guest.FILES / "project.sh").read_text()
        words = guest.command(script, server.folder, kernel=guest.NEWEST, with_host=True)
        failures = report.count("fail")
        said = report.absorb(NAME, words, SECONDS, cwd=packages.CACHE, lines_kept=4000, ending=guest.ENDING)
        if report.count("fail") > failures:
            report.note("What the guest printed:\n" + "\n".join(said.splitlines()[-80:]))
        with report.check(NAME, "the share has what a disk of the guest's own has"):
            local, share = listed(said, "local"), listed(said, "share")
            expect(len(local) > 20, len(local))
            differing = {path for path in local.keys() | share.keys() if local.get(path) != share.get(path)}
            expect(not differing, {path: (local.get(path), share.get(path)) for path in sorted(differing)[:5]})
        with report.check(NAME, "programs of the server's machine see the same links"):
            place = pathlib.Path(server.share_path()) / "project"
            for path, target in LINKS.items():
                expect(os.readlink(place / path) == target, (path, os.readlink(place / path)))
            expect(os.readlink(place / "node_modules/.bin/greet").endswith("greet/greet.js"), sorted(os.listdir(place / "node_modules/.bin")))
        report.server_is_well(NAME, server)


def listed(said, where):
    """What was listed there, by path."""
    return {path: (kind, rest.strip()) for place, path, kind, rest in LISTED.findall(said.replace("\r", "")) if place == where}


def project(folder):
    """A git repository with a program in C, packages for npm and links of every kind; gives its place."""
    (folder / "packages").mkdir(parents=True)
    work = folder / "work"
    for path, text in {"src/main.c": MAIN, "include/greeting.h": '#define GREETING "hello"\n', "Makefile": MAKEFILE, "docs/v1/page": "one\n",
                       "docs/v1/a b": "odd\n", "docs/v2/page": "two\n", ".gitignore": "node_modules\napp\napp-link\nsrc/main.o\n"}.items():
        (work / path).parent.mkdir(parents=True, exist_ok=True)
        (work / path).write_text(text)
    for path, target in LINKS.items():
        (work / path).parent.mkdir(parents=True, exist_ok=True)
        (work / path).symlink_to(target)
    tarballs = {name: tarball(folder / "packages", work, name, needs) for name, needs in (("words", ()), ("greet", ("words",)))}
    (work / "package.json").write_text(json.dumps({"name": "project", "version": "1.0.0", "private": True,
                                                  "dependencies": {name: f"file:{path}" for name, path in tarballs.items()}}))
    for words in (("init", "-q", "-b", "main"), ("add", "-A"), ("-c", "user.name=one", "-c", "user.email=one@localhost", "commit", "-qm", "one")):
        subprocess.run(["git", "-C", str(work), *words], check=True)
    # Whoever clones it in the guest is another user.
    subprocess.run(["chmod", "-R", "a+rX", str(folder)], check=True)
    return work


def tarball(folder, work, name, needs):
    """A package with a program, packed by npm into the project; gives its path there."""
    source = folder / name
    source.mkdir()
    script = source / f"{name}.js"
    uses = f'console.log(require("{needs[0]}"))' if needs else 'module.exports = "hello from npm"'
    script.write_text(f"#!/usr/bin/env node\n{uses}\n")
    script.chmod(0o755)
    (source / "package.json").write_text(json.dumps({"name": name, "version": "1.0.0", "main": f"{name}.js", "bin": {name: f"{name}.js"}}))
    vendor = work / "vendor"
    vendor.mkdir(exist_ok=True)
    subprocess.run(["npm", "pack", "--silent", "--offline", "--pack-destination", str(vendor)], cwd=source, check=True, stdout=subprocess.DEVNULL)
    return f"vendor/{name}-1.0.0.tgz"
