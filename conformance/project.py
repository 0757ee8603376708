"""Projects on a share that the kernel's client has mounted: git clones them, npm installs their packages, make and npm build them, and they are used,
symbolic links and all. One is made here, with links of every kind. The other is this repository with its history, and in it the folder page-build/, whose
compiler and bundler npm gets by a lock file. The same is done on a disk of this machine, and both are compared; so is the share's folder.

The kernel is Debian's newest, whose client makes links as reparse points by itself. The guest uses this machine's programs, which it sees through 9p, and the
packages that npm has put into a cache here.
"""

import hashlib
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import tempfile

from conformance import guest, packages
from conformance.report import Skip, expect
from conformance.server import Wanted, serving

NAME = "project"
SECONDS, LOCAL_SECONDS = 1500, 300
# The project that is built as many are, and the folder in it with its lock file.
REAL, BUILT = "multilane", "conformance/page-build"
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
        origins, local = server.folder / "origins", server.folder / "local"
        project(origins / "project")
        cache = npm_cache(real_project(origins / f"{REAL}.git"))
        shutil.copytree(cache, local / "home/.npm")
        steps = guest.FILES / "project-steps.sh"
        here = {"mode": "local", "place": local, "origins": origins, "home": local / "home", "notes": local / "home"}
        report.absorb(NAME, ["sh", "-c", f'inside() {{ "$@"; }}\n{assigned(here)}{steps.read_text()}'], LOCAL_SECONDS)
        there = {"server": guest.GATEWAY, "port": server.port, "share": server.share, "user": server.user,
                 "password": server.password, "from": origins, "npm_cache": cache, "tag": guest.HOST_TAG}
        words = guest.command(assigned(there) + (guest.FILES / "project.sh").read_text(), server.folder, files={"steps": steps},
                              kernel=guest.NEWEST, with_host=True, processors=1)
        failures = report.count("fail")
        said = report.absorb(NAME, words, SECONDS, cwd=packages.CACHE, lines_kept=4000, ending=guest.ENDING)
        if report.count("fail") > failures:
            report.note("What the guest printed:\n" + "\n".join(said.splitlines()[-80:]))
        place = pathlib.Path(server.share_path())
        with report.check(NAME, "the share has what a disk of this machine has"):
            expect(len(listed(local)) > 1500, len(listed(local)))
            expect_same(listed(local), listed(place))
        with report.check(NAME, "programs of the server's machine see the same"):
            expect_same(listed(place), on_disk(place))
        with report.check(NAME, "programs of the server's machine see the same links"):
            for path, target in LINKS.items():
                expect(os.readlink(place / "project" / path) == target, (path, os.readlink(place / "project" / path)))
            expect(os.readlink(place / "project/node_modules/.bin/greet") == "../greet/greet.js", os.listdir(place / "project/node_modules/.bin"))
            expect(os.readlink(place / REAL / BUILT / "node_modules/.bin/tsc") == "../typescript/bin/tsc", os.listdir(place / REAL / BUILT))
        report.server_is_well(NAME, server)


def assigned(variables):
    return "".join(f"{name}={shlex.quote(str(value))}\n" for name, value in variables.items())


def listed(place):
    """What was listed there, by path: a sum of each file, where each link leads, and nothing of a folder."""
    things = {}
    for line in (place / "names").read_text().splitlines():
        path, _, target = line.partition(" -> ")
        things[path] = target
    for line in (place / "sums").read_text().splitlines():
        total, path = line.split("  ", 1)
        things[path] = total
    return things


def on_disk(place):
    """The same of what is in the share's folder."""
    things = {}
    for root in ("project", REAL):
        for path in [place / root, *(place / root).rglob("*")]:
            name = str(path.relative_to(place))
            if f"{root}/.git" in (name, *map(str, pathlib.PurePath(name).parents)):
                continue
            if path.is_symlink():
                things[name] = os.readlink(path)
            elif path.is_dir():
                things[f"{name}/"] = ""
            else:
                things[name] = hashlib.md5(path.read_bytes()).hexdigest()
    return things


def expect_same(one, other):
    differing = {path for path in one.keys() | other.keys() if one.get(path) != other.get(path)}
    expect(not differing, (len(differing), {path: (one.get(path), other.get(path)) for path in sorted(differing)[:5]}))


def real_project(folder):
    """This repository with its history, to be cloned; gives its place."""
    told = subprocess.run(["git", "clone", "-q", "--bare", "--no-hardlinks", str(packages.ROOT), str(folder)], capture_output=True, text=True)
    if told.returncode != 0:
        raise Skip(f"needs this project's repository: {told.stderr.strip()}")
    return folder


def npm_cache(origin):
    """A cache of npm's with the packages that the lock file of the real project names."""
    files = {name: subprocess.run(["git", "-C", str(origin), "show", f"HEAD:{BUILT}/{name}"], check=True, capture_output=True).stdout
             for name in ("package.json", "package-lock.json")}
    cache = packages.cache("npm") / hashlib.sha256(b"".join(files.values())).hexdigest()[:12]
    if not cache.exists():
        with tempfile.TemporaryDirectory(dir=packages.cache("npm")) as scratch:
            scratch = pathlib.Path(scratch)
            for name, text in files.items():
                (scratch / name).write_bytes(text)
            packages.build(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--cache", str(scratch / "cache")], scratch)
            (scratch / "cache").rename(cache)
    return cache


def project(folder):
    """Makes a git repository with a program in C, packages for npm and links of every kind, in work/."""
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
