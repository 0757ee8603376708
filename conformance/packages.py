"""What the suites need from outside: Debian packages, a Python environment, Go and Rust builds.

Everything downloaded or built lands in one cache folder (CONFORMANCE_CACHE, by default ~/.cache/multilane-conformance).
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading

from conformance.report import Skip

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
CACHE = pathlib.Path(os.environ.get("CONFORMANCE_CACHE", pathlib.Path.home() / ".cache" / "multilane-conformance"))

# The Debian package that brings each command or file.
PACKAGE_OF = {
    "smbclient": "smbclient", "smbcacls": "smbclient", "smbd": "samba", "smbpasswd": "samba-common-bin",
    "rpcclient": "smbclient", "net": "samba-common-bin",
    "smbtorture": "samba-testsuite", "fio": "fio", "qemu-system-x86_64": "qemu-system-x86",
    "mount.cifs": "cifs-utils", "cpio": "cpio", "modprobe": "kmod", "busybox": "busybox-static", "xz": "xz-utils",
    "strace": "strace", "ceph-mon": "ceph-mon", "ceph-mgr": "ceph-mgr", "ceph-osd": "ceph-osd", "ceph-mds": "ceph-mds", "ceph-fuse": "ceph-fuse",
    "ceph": "ceph-common", "ceph-authtool": "ceph-common", "monmaptool": "ceph-base",
    "iptables": "iptables", "depmod": "kmod", "gcc": "build-essential",
    "prometheus": "prometheus", "promtool": "prometheus",
    "chromium": "chromium", "chromedriver": "chromium-driver",
    "linux.uml": "user-mode-linux", "mkfs.ext4": "e2fsprogs", "fsfreeze": "util-linux", "mount": "mount",
    "mmdebstrap": "mmdebstrap", "unshare": "util-linux", "nsenter": "util-linux", "ip": "iproute2", "tar": "tar", "strip": "binutils",
    "rpm": "rpm", "openssl": "openssl", "node": "nodejs", "npm": "npm",
    "avahi-daemon": "avahi-daemon", "avahi-browse": "avahi-utils", "dbus-daemon": "dbus-daemon",
    "/usr/lib/x86_64-linux-gnu/samba/vfs/acl_xattr.so": "samba-vfs-modules",
}
_installing = threading.Lock()


def need(*commands):
    """Makes sure that these commands exist, by apt-get where we are root; raises Skip where that is not possible."""
    with _installing:
        missing = [name for name in commands if not find(name)]
        if not missing:
            return
        wanted = sorted({PACKAGE_OF[name] for name in missing})
        if os.geteuid() != 0 or not shutil.which("apt-get"):
            raise Skip(f"needs the Debian packages {' '.join(wanted)}")
        print(f"installing {' '.join(wanted)}", file=sys.stderr, flush=True)
        install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *wanted]
        if not run_quietly(install):
            run_quietly(["apt-get", "update", "-qq"])
            run_quietly(install)
        still = [name for name in commands if not find(name)]
        if still:
            raise Skip(f"apt-get did not bring {' '.join(still)}")


def find(name):
    """The path of a command, /sbin included, or of a file given by its whole path; None when absent."""
    if name.startswith("/"):
        return name if os.path.exists(name) else None
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def run_quietly(argv):
    env = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    return subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL).returncode == 0


def os_release():
    """What the machine's system says it is, by os-release(5)."""
    return dict(line.replace('"', "").split("=", 1) for line in pathlib.Path("/etc/os-release").read_text().splitlines() if "=" in line)


def environment_without(*names):
    return {name: value for name, value in os.environ.items() if name not in names}


def cache(name):
    """A folder of this name in the cache."""
    folder = CACHE / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def in_utf8():
    """The environment for programs that read and print names of any language."""
    return dict(os.environ, LC_ALL="C.UTF-8")


def python_with(*requirements, folder="venv"):
    """The interpreter of a virtual environment that has these PyPI packages, given as `name==version`."""
    folder = cache(folder)
    python = folder / "bin" / "python"
    stamp = folder / "requirements"
    wanted = "\n".join(sorted(requirements))
    with _installing:
        if not (python.exists() and stamp.exists() and stamp.read_text() == wanted):
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, stdout=subprocess.DEVNULL)
            subprocess.run([str(python), "-m", "pip", "install", "-q", *requirements], check=True)
            stamp.write_text(wanted)
    return str(python)


def go_on_with(*requirements, module):
    """Has this module run anew in the interpreter that has what it imports, where this is another one."""
    python = python_with(*requirements)
    if pathlib.Path(sys.prefix) != pathlib.Path(python).parent.parent:
        os.execve(python, [python, "-m", module, *sys.argv[1:]], dict(os.environ, PYTHONPATH=str(ROOT)))


def need_go():
    version = subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True).stdout if find("go") else ""
    if not re.match(r"go1\.(2[1-9]|[3-9]\d)", version):
        raise Skip("needs Go 1.21 or newer, which fetches the version that go.mod names")


def go_program(folder, package):
    """Builds a program of the Go module in this folder of conformance/ and returns its path."""
    need_go()
    program = cache("bin") / f"{folder}-{package}"
    build(["go", "build", "-o", str(program), f"./{package}"], HERE / folder)
    return str(program)


def go_module(module, version):
    """A copy of a Go module as it is published, its own tests included, in which they can be run."""
    need_go()
    place = cache("go-modules") / f"{module.rpartition('/')[2]}-{version}"
    if not place.exists():
        told = subprocess.run(["go", "mod", "download", "-json", f"{module}@v{version}"], capture_output=True, text=True, check=True)
        shutil.copytree(json.loads(told.stdout)["Dir"], place, copy_function=shutil.copyfile)
    return place


def node_program(folder):
    """Installs the packages that the folder of this name in conformance/ names, beside a copy of its programs, and returns that folder."""
    need("node", "npm")
    version = subprocess.run(["node", "--version"], capture_output=True, text=True).stdout
    if int(re.match(r"v(\d+)|", version)[1] or 0) < 20:
        raise Skip("needs Node.js 20 or newer")
    source, place = HERE / folder, cache(folder)
    wanted, stamp = (source / "package-lock.json").read_text(), place / "installed"
    for program in source.iterdir():
        shutil.copy(program, place)
    if not (stamp.exists() and stamp.read_text() == wanted):
        build(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], place)
        stamp.write_text(wanted)
    return place


def rust_program(folder, name):
    """Builds the Cargo workspace in this folder of conformance/ and returns the named release program."""
    if not shutil.which("cargo"):
        raise Skip("needs Cargo")
    target = cache("target") / folder
    build(["cargo", "build", "--release", "--quiet", "--locked", "--target-dir", str(target)], HERE / folder)
    return str(target / "release" / name)


def crate_program(crate, version, name):
    """Builds a program of a published crate, once, and returns its path."""
    if not shutil.which("cargo"):
        raise Skip("needs Cargo")
    root = cache("crates") / f"{crate}-{version}"
    program = root / "bin" / name
    if not program.exists():
        build(["cargo", "install", "--quiet", "--locked", "--root", str(root), "--target-dir", str(cache("target") / crate), "--version",
               version, crate], HERE)
    return str(program)


def build(argv, folder):
    result = subprocess.run(argv, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(argv)}\n{result.stdout[-4000:]}")
