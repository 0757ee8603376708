"""The packages, as an administrator meets them: the Debian package installed, served from, upgraded, removed and purged in a Debian with systemd,
and the container image run by an ordinary user. They are made of the built server, so that they need no build of their own."""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import tarfile
import tempfile
import time

from conformance import multilane, packages
from conformance.booted import Machine
from conformance.debian import Debian
from conformance.held import held
from conformance.report import Failure, Skip, expect, until

NAME = "package"
BEFORE, NOW = "0.0.9", "0.1.0"
# systemd's own measure of what a service could still do, from 0 to 10; the unit is to stay below this, in tenths.
EXPOSURE_MAX = 25
MAKE_SECONDS, STATE_SECONDS, CLIENT_SECONDS = 900, 30, 60
WATCHDOG_SECONDS = 4
DATA, LOGS, SHARED = "/var/lib/multilane", "/var/log/multilane", "/srv/media"
UNITS = ("multilane.service", "multilane.socket")
# What the package brings, and its mode.
FILES = {
    "/usr/bin/multilane": 0o755,
    "/usr/lib/systemd/system/multilane.service": 0o644,
    "/usr/lib/systemd/system/multilane.socket": 0o644,
    "/usr/lib/sysusers.d/multilane.conf": 0o644,
    "/usr/lib/tmpfiles.d/multilane.conf": 0o644,
    "/etc/default/multilane": 0o644,
    "/etc/multilane/multilane.toml": 0o644,
    "/etc/logrotate.d/multilane": 0o644,
    "/etc/ufw/applications.d/multilane": 0o644,
    "/usr/lib/firewalld/services/multilane.xml": 0o644,
    "/usr/share/man/man1/multilane.1.gz": 0o644,
    "/usr/share/man/man1/multilane-serve.1.gz": 0o644,
    "/usr/share/man/man1/multilane-share-create.1.gz": 0o644,
    "/usr/share/bash-completion/completions/multilane": 0o644,
    "/usr/share/zsh/vendor-completions/_multilane": 0o644,
    "/usr/share/fish/vendor_completions.d/multilane.fish": 0o644,
}
IMAGE_PORT, ANOTHER_PORT = 4450, 4451


def run(kind, report, options):
    if kind.kind != "multilane":
        raise Skip("other servers have packages of their own")
    packages.need("smbclient", "strip", "rpm")
    with tempfile.TemporaryDirectory(prefix="conformance-packages-") as folder:
        folder = pathlib.Path(folder)
        before, now, image, rpm = made(folder)
        with Debian() as debian:
            of_debian = Installed(report, debian)
            of_debian.port_is_taken(now)
            of_debian.install(before)
            of_debian.unit()
            of_debian.serves()
            of_debian.reload()
            of_debian.settings()
            of_debian.folders()
            of_debian.moved()
            of_debian.audit_log()
            of_debian.socket()
            of_debian.crash()
            of_debian.hang()
            of_debian.another_port()
            of_debian.upgrade(now)
            of_debian.disabled(now)
            of_debian.remove(now)
            of_debian.purge(now)
        switched_on(report, now)
        of_rpm(report, rpm)
        of_image(report, image, folder / "image")


def made(folder):
    """The packages: for Debian one of a version before, too."""
    if not shutil.which("cargo"):
        raise Skip("needs Cargo")
    program = folder / "multilane"
    packages.build(["strip", "-o", str(program), str(multilane.binary())], packages.ROOT)

    def package(version, *kinds):
        words = ["cargo", "xtask", "package", *kinds, "--program", str(program), "--version", version]
        done = subprocess.run(words, cwd=packages.ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=MAKE_SECONDS)
        if done.returncode != 0:
            raise Failure(f"{' '.join(words)}: {done.stderr[-2000:]}")
        return [shutil.move(path, folder) for path in done.stdout.split()]

    return [*package(BEFORE, "deb"), *package(NOW, "deb", "oci", "rpm")]


class Installed:
    """The package in a system, from one check to the next."""

    def __init__(self, report, debian):
        self.check = lambda name: report.check(NAME, name)
        self.debian = debian

    # What a check asks.

    def dpkg(self, package):
        """Installs the package, and gives what is said."""
        shutil.copy(package, self.debian.folder / "root/multilane.deb")
        done = self.debian.tried("dpkg", "-i", "/root/multilane.deb")
        expect(done.returncode == 0, f"dpkg -i: {done.stdout}{done.stderr}")
        return done.stderr

    def property(self, name, unit="multilane.service"):
        return self.debian.run("systemctl", "show", "--property", name, "--value", unit).strip()

    def is_active(self, unit):
        return self.property("ActiveState", unit) == "active"

    def process(self):
        return int(self.property("MainPID"))

    def until_active(self):
        until(lambda: self.is_active("multilane.service"), "the service does not come up", STATE_SECONDS)

    def multilane(self, *words):
        return self.debian.run("multilane", *words)

    def client(self, share, commands, may_fail=False):
        """Runs smbclient's commands on the port that clients take; gives what it prints."""
        keys = json.loads(self.multilane("account", "keys", "local", "--json"))
        words = ["smbclient", f"//127.0.0.1/{share}", "--user", f"local%{keys['key1']}", "--command", commands]
        done = subprocess.run(self.debian.within_network(*words), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=CLIENT_SECONDS)
        expect(may_fail or done.returncode == 0, f"{commands}: {done.stdout}{done.stderr}")
        return done.stdout

    def put(self, share, name, text):
        with tempfile.NamedTemporaryFile("w") as local:
            local.write(text)
            local.flush()
            self.client(share, f"put {local.name} {name}")

    def got(self, share, name):
        with tempfile.TemporaryDirectory() as local:
            self.client(share, f"get {name} {local}/got")
            return (pathlib.Path(local) / "got").read_text()

    def is_there(self, path):
        return os.path.lexists(f"{self.debian.folder}{path}")

    def journal(self):
        return self.debian.run("journalctl", "--unit", "multilane.service", "--no-pager")

    # The checks, in their order.

    def port_is_taken(self, package):
        with self.check("where another server has port 445, the package is installed and says what to do"):
            words = self.debian.within_network("python3", "-c", "import socket, time; s = socket.create_server(('', 445)); time.sleep(600)")
            with subprocess.Popen(words, stdin=subprocess.DEVNULL) as other:
                try:
                    until(lambda: ":01BD " in self.ports(), "the other server does not listen", STATE_SECONDS)
                    said = self.dpkg(package)
                    expect("systemctl edit multilane.socket" in said, f"said: {said!r}")
                    expect(not self.is_active("multilane.service"), "the service runs all the same")
                finally:
                    other.kill()
            self.debian.run("dpkg", "--purge", "multilane")
            expect(not self.is_there(DATA), f"{DATA} is left, though nobody has used it")
            self.debian.run("systemctl", "reset-failed")

    def ports(self):
        return self.debian.run("cat", "/proc/net/tcp", "/proc/net/tcp6")

    def install(self, package):
        with self.check("dpkg -i installs the files, each with its mode"):
            self.dpkg(package)
            for path, mode in FILES.items():
                found = os.lstat(f"{self.debian.folder}{path}")
                expect((found.st_mode & 0o7777, found.st_uid) == (mode, 0), f"{path}: mode {found.st_mode:o}, user {found.st_uid}")
        with self.check("the package has a user, and folders that only this user enters"):
            user = self.debian.run("getent", "passwd", "multilane").strip().split(":")
            expect(user[5:] == [DATA, "/usr/sbin/nologin"], f"the user is {user}")
            for path, mode in ((DATA, 0o700), (LOGS, 0o750)):
                found = os.lstat(f"{self.debian.folder}{path}")
                expect((found.st_mode & 0o7777, found.st_uid) == (mode, int(user[2])), f"{path}: {found}")
        with self.check("the service is up and will be at the next boot"):
            self.until_active()
            for unit in UNITS:
                expect(self.property("UnitFileState", unit) == "enabled", f"{unit} is not enabled")
            status = json.loads(self.multilane("status", "--json"))
            expect(status["state"] == "ready" and len(status["listen"]) == 1, f"status: {status}")
            expect(status["listen"][0].endswith(":445"), f"status: {status}")
        with self.check("dpkg finds all files as they were packaged"):
            expect(self.debian.run("dpkg", "--verify", "multilane") == "", "dpkg --verify has something to say")

    def unit(self):
        with self.check("systemd finds nothing wrong with the units"):
            done = self.debian.tried("systemd-analyze", "verify", "--man=no", *(f"/usr/lib/systemd/system/{unit}" for unit in UNITS))
            about = [line for line in done.stderr.splitlines() if "multilane" in line]
            expect(done.returncode == 0 and not about, f"{done.stderr}")
        with self.check(f"the service's exposure is {EXPOSURE_MAX / 10} or less"):
            done = self.debian.tried("systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE_MAX}", "--no-pager",
                                     "/usr/lib/systemd/system/multilane.service")
            expect(done.returncode == 0, f"{done.stdout[-600:]}{done.stderr}")
        with self.check("the server runs as its user, without a right of root's and behind a filter of system calls"):
            lines = self.debian.run("cat", f"/proc/{self.process()}/status").splitlines()
            facts = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
            expect("0" not in facts["Uid"].split(), f"Uid: {facts['Uid']}")
            for rights in ("CapEff", "CapPrm", "CapBnd", "CapAmb"):
                expect(int(facts[rights], 16) == 0, f"{rights}: {facts[rights]}")
            expect((facts["NoNewPrivs"], facts["Seccomp"]) == ("1", "2"), f"{facts}")
        with self.check("no system call that the server makes is refused to it"):
            expect("Operation not permitted" not in self.journal(), self.journal())

    def serves(self):
        with self.check("smbclient puts and gets a file of the first share, on port 445"):
            self.put("share", "kept", "kept for years\n")
            expect(self.got("share", "kept") == "kept for years\n", "another text comes back")

    def reload(self):
        with self.check("a reload is awaited, and leaves the server where it is"):
            process = self.process()
            self.debian.run("systemctl", "reload", "multilane")
            expect((self.process(), self.is_active("multilane.service")) == (process, True), "it is another process now")
            expect(self.property("StatusText") == "Serves what the catalog says.", self.property("StatusText"))

    def settings(self):
        with self.check("the settings file counts after a reload, and a wrong one is told before"):
            place = "/etc/multilane/multilane.toml"
            self.debian.run("sh", "-c", f"echo 'channels-max = 9' >> {place}")
            self.debian.run("systemctl", "reload", "multilane.service")
            said = {one["name"]: one for one in json.loads(self.multilane("server", "settings", "--json"))}
            expect(said["channels-max"]["value"] == "9" and place in said["channels-max"]["from"], f"{said['channels-max']}")
            expect(said["audit-log"]["value"] == f"{LOGS}/audit.log", f"{said['audit-log']}")
            self.debian.run("sh", "-c", "echo 'channels-max = 99' > /tmp/wrong.toml")
            wrong = self.debian.tried("multilane", "serve", "--config", "/tmp/wrong.toml", "--check-config")
            expect(wrong.returncode == 2 and "/tmp/wrong.toml line 1: channels-max" in wrong.stderr, f"{wrong.stderr}")

    def folders(self):
        with self.check("root shares a folder below /srv, and all that comes of it is the server's"):
            self.debian.run("install", "-d", "-o", "multilane", "-g", "multilane", "-m", "700", SHARED)
            self.multilane("share", "create", "media", "--path", SHARED)
            self.put("media", "film", "of a summer\n")
            expect(self.got("media", "film") == "of a summer\n", "another text comes back")
            foreign = self.debian.run("find", DATA, SHARED, "!", "-user", "multilane").split()
            expect(not foreign, f"{foreign} belong to somebody else")
        with self.check("the server cannot write to the system"):
            # As the server's processes see it: in its namespace of mounts.
            process = str(self.process())
            options = self.debian.run("cat", f"/proc/{process}/mountinfo").splitlines()
            writable = {line.split()[4] for line in options if line.split()[5].split(",")[0] == "rw"}
            expect("/" not in writable and not any(place.startswith(("/etc", "/usr", "/home", "/root")) for place in writable), f"{writable}")
            expect({DATA, LOGS, "/srv"} <= writable, f"{writable}")

    def moved(self):
        with self.check("the data folder moves as the guide says"):
            guide = (packages.ROOT / "docs/ADMINISTRATION.md").read_text().split("\n## Move the data folder\n")[1]
            said = self.debian.run("sh", "-euc", f"DATA={DATA}\n" + guide.split("```sh\n")[1].split("```")[0])
            expect("nothing is wrong with" in said and self.is_there(f"{DATA}.new/catalog.db"), said)
            expect(self.got("share", "kept") == "kept for years\n", "another text comes back")
            back = f"systemctl stop {' '.join(UNITS)}; umount {DATA}; rmdir {DATA}; mv {DATA}.new {DATA}; systemctl start multilane"
            self.debian.run("sh", "-euc", back)
            self.until_active()

    def audit_log(self):
        with self.check("logrotate moves the audit log away, and the server goes on in a new one"):
            self.multilane("share", "update", "media", "--audit", "write")
            log = self.debian.folder / LOGS.lstrip("/") / "audit.log"
            for name in ("first", "second"):
                self.put("media", name, name)
                until(lambda name=name: log.exists() and f"{name}" in log.read_text(), f"the audit log has no line of {name}", STATE_SECONDS)
                expect(log.stat().st_mode & 0o7777 == 0o600, f"mode {log.stat().st_mode:o}")
                self.debian.run("logrotate", "--force", "/etc/logrotate.d/multilane")
                expect(not log.exists(), "it was not moved")
                time.sleep(1.1)  # names have the second
            rotated = [path.name for path in log.parent.iterdir()]
            expect(len(rotated) == 2, f"{rotated}")
            self.put("media", "third", "third")
            until(log.exists, "there is no new audit log", STATE_SECONDS)

    def socket(self):
        with self.check("who connects to a server that was stopped starts it"):
            self.debian.run("systemctl", "stop", "multilane.service")
            expect(self.process() == 0, "it still runs")
            expect(self.got("share", "kept") == "kept for years\n", "another text comes back")
            self.until_active()

    def crash(self):
        with self.check("a server that was killed is started again, with all that it had"):
            process = self.process()
            self.debian.run("sh", "-c", f"kill -KILL {process}")
            until(lambda: self.process() not in (0, process), "it is not started again", STATE_SECONDS)
            self.until_active()
            expect(self.got("media", "film") == "of a summer\n", "another text comes back")

    def hang(self):
        with self.check("a server of which a shard hangs is ended by systemd's watchdog, and started again"):
            place = "/run/systemd/system/multilane.service.d"
            self.debian.run("mkdir", "-p", place)
            self.debian.run("sh", "-c", f"cat > {place}/watchdog.conf", text=f"[Service]\nWatchdogSec={WATCHDOG_SECONDS}\n")
            self.debian.run("systemctl", "daemon-reload")
            self.debian.run("systemctl", "restart", "multilane.service")
            process, restarts = self.process(), int(self.property("NRestarts"))
            script = f"for task in /proc/{process}/task/*; do read name < $task/comm; [ $name != multilane-0 ] || echo ${{task##*/}}; done"
            shard = self.debian.run("sh", "-c", script).strip()
            with held(shard, self.debian.within_processes()):
                until(lambda: int(self.property("NRestarts")) > restarts, "it is not started again", STATE_SECONDS + WATCHDOG_SECONDS)
            self.until_active()
            expect("Watchdog timeout" in self.journal(), "it ended for another reason")
            expect(self.got("media", "film") == "of a summer\n", "another text comes back")
            self.debian.run("rm", "-r", place)
            self.debian.run("systemctl", "daemon-reload")
            self.debian.run("systemctl", "restart", "multilane.service")

    def another_port(self):
        with self.check("another port is the socket unit's to name"):
            place = "/etc/systemd/system/multilane.socket.d"
            self.debian.run("mkdir", place)
            self.debian.run("sh", "-c", f"cat > {place}/override.conf", text=f"[Socket]\nListenStream=\nListenStream=127.0.0.1:{ANOTHER_PORT}\n")
            for words in (("daemon-reload",), ("restart", *reversed(UNITS))):
                self.debian.run("systemctl", *words)
            listens = json.loads(self.multilane("status", "--json"))["listen"]
            expect(listens == [f"127.0.0.1:{ANOTHER_PORT}"], f"listens on {listens}")
            self.debian.run("rm", "-r", place)
            for words in (("daemon-reload",), ("restart", *reversed(UNITS))):
                self.debian.run("systemctl", *words)

    def upgrade(self, package):
        with self.check("an upgrade restarts the server and keeps accounts, shares, files and settings"):
            self.debian.run("sh", "-c", "echo 'MULTILANE_LOG=debug' >> /etc/default/multilane")
            process, keys = self.process(), self.multilane("account", "keys", "local")
            listens = self.property("ActiveEnterTimestampMonotonic", "multilane.socket")
            self.dpkg(package)
            self.until_active()
            expect(self.debian.run("dpkg-query", "--show", "--showformat=${Version}", "multilane") == f"{NOW}-1", "the version is another")
            expect(self.process() != process, "it is the same process")
            # Nobody is refused who connects meanwhile.
            expect(self.property("ActiveEnterTimestampMonotonic", "multilane.socket") == listens, "the socket was closed")
            expect(self.multilane("account", "keys", "local") == keys, "the keys are others")
            expect("MULTILANE_LOG=debug" in self.debian.run("cat", "/etc/default/multilane"), "the settings are others")
            expect("channels-max = 9" in self.debian.run("cat", "/etc/multilane/multilane.toml"), "the settings are others")
            for share, name, text in (("share", "kept", "kept for years\n"), ("media", "film", "of a summer\n")):
                expect(self.got(share, name) == text, f"{name} is another")

    def disabled(self, package):
        with self.check("an upgrade enables nothing that was disabled"):
            self.debian.run("systemctl", "disable", "--now", *UNITS)
            self.dpkg(package)
            for unit in UNITS:
                expect(self.property("UnitFileState", unit) == "disabled" and not self.is_active(unit), f"{unit} is enabled or runs")
            self.debian.run("systemctl", "enable", "--now", *UNITS)
            self.until_active()

    def remove(self, package):
        with self.check("removed, the package leaves accounts, shares and files"):
            keys = self.multilane("account", "keys", "local")
            self.debian.run("dpkg", "--remove", "multilane")
            expect(not any(self.is_there(path) for path in FILES if not path.startswith("/etc")), "files of the package are left")
            expect(not any(self.is_active(unit) for unit in UNITS), "it still runs")
            expect(self.is_there(f"{DATA}/catalog.db") and self.is_there(f"{SHARED}/film"), "data is gone")
            self.dpkg(package)
            self.until_active()
            expect(self.multilane("account", "keys", "local") == keys, "the keys are others")
            expect(self.got("share", "kept") == "kept for years\n", "another text comes back")

    def purge(self, package):
        with self.check("purged, it keeps a data folder with files of shares, and says which"):
            done = self.debian.tried("dpkg", "--purge", "multilane")
            expect(done.returncode == 0 and f"{DATA} is kept" in done.stderr and f"below {DATA}/share." in done.stderr, f"{done.stderr}")
            expect(self.is_there(f"{DATA}/share/kept") and self.is_there(f"{SHARED}/film"), "files of shares are gone")
            expect(not self.is_there(LOGS) and not self.is_there("/etc/default/multilane"), "logs or settings are left")
        with self.check("purged, it takes a data folder without them"):
            self.dpkg(package)
            self.until_active()
            self.client("share", "del kept")
            self.debian.run("dpkg", "--purge", "multilane")
            expect(not self.is_there(DATA), f"{DATA} is left")
            expect(self.is_there(f"{SHARED}/film"), "files of a share elsewhere are gone")
            links = [path for folder in ("etc/systemd", "var/lib/systemd") for path in (self.debian.folder / folder).rglob("*multilane*")]
            expect(not links, f"{links} are left")


def switched_on(report, package):
    """The package on a machine with a kernel of its own: what a boot, a reboot and a cut of the power make of it."""
    with Machine({"root/multilane.deb": package}) as machine:
        def client(commands):
            key = json.loads(machine.run("multilane account keys local --json"))["key1"]
            words = ["smbclient", "//127.0.0.1/share", "--port", str(machine.port), "--user", f"local%{key}", "--command", commands]
            done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=CLIENT_SECONDS)
            expect(done.returncode == 0, f"{commands}: {done.stdout}{done.stderr}")

        def serves_what_was_put():
            expect(machine.run("systemctl is-active multilane.service") == "active", "the service is not up")
            expect(json.loads(machine.run("multilane status --json"))["state"] == "ready", "the server is not ready")
            with tempfile.TemporaryDirectory() as local:
                client(f"get kept {local}/got")
                expect((pathlib.Path(local) / "got").read_bytes() == pathlib.Path(__file__).read_bytes(), "another text comes back")

        with report.check(NAME, "booted: dpkg -i starts the server, and smbclient uses it over the network"):
            machine.run("dpkg -i /root/multilane.deb 2>&1")
            client(f"put {__file__} kept")
            serves_what_was_put()
        with report.check(NAME, "booted: the journal has the server's lines, each with its level and its fields"):
            lines = [json.loads(line) for line in machine.run("journalctl --unit multilane.service --output json | cat").splitlines()]
            events = {line["MULTILANE_EVENT"]: line for line in lines if "MULTILANE_EVENT" in line}
            expect("serving" in events, f"only {sorted(events)}")
            expect(all(line["PRIORITY"] in "01234567" and line["MESSAGE"] for line in events.values()), f"{events}")
        with report.check(NAME, "booted: after a reboot the server is up, with all that it had"):
            machine.reboot()
            serves_what_was_put()
        with report.check(NAME, "booted: after a cut of the power, too"):
            machine.switch_off()
            machine.switch_on()
            serves_what_was_put()
            expect("nothing is wrong with" in machine.run("multilane catalog check"), "something is wrong with the catalog")


def of_rpm(report, package):
    with report.check(NAME, "the rpm has the same files, and scripts that make the user"):
        told = subprocess.run(["rpm", "--query", "--package", "--list", "--scripts", str(package)], capture_output=True, text=True)
        expect(told.returncode == 0, told.stderr)
        lines = told.stdout.splitlines()
        others = {"/etc/ufw/applications.d/multilane", "/usr/share/zsh/vendor-completions/_multilane"}
        wanted = {path.removesuffix(".gz") for path in FILES if path not in others}
        present = {line.removesuffix(".gz") for line in lines}
        expect(wanted <= present, f"without {wanted - present}")
        expect("systemd-sysusers multilane.conf" in told.stdout, "no script makes the user")


def of_image(report, image, folder):
    with report.check(NAME, "the image's server runs as its user, is used by smbclient, and its health check sees it"):
        with container(image, folder) as inside:
            health = inside.config["Healthcheck"]["Test"]
            expect(inside.run(*health[1:]).returncode == 5, "a server is seen that does not run yet")
            inside.start()
            until(lambda: inside.run(*health[1:]).returncode == 0, "its health check sees no server that is ready", STATE_SECONDS)
            listens = json.loads(inside.run(health[1], "status", "--json").stdout)["listen"]
            expect([address.rsplit(":", 1)[1] for address in listens] == [str(IMAGE_PORT)], f"listens on {listens}")
            expect(f"{IMAGE_PORT}/tcp" in inside.config["ExposedPorts"], f"{inside.config}")
            key = json.loads(inside.run(health[1], "account", "keys", "local", "--json").stdout)["key1"]
            inside.client("--user", f"local%{key}", "--command", f"put {__file__} kept")
            expect((inside.root / "var/lib/multilane/share/kept").read_bytes() == pathlib.Path(__file__).read_bytes(), "another text is there")


class Container:
    """A root file system that is run in namespaces, as its configuration has it."""

    def __init__(self, config, root):
        self.config, self.root = config["config"], root
        # What holds the namespaces, until the container ends.
        keep = 'mount -t proc proc "$1/proc"; ip link set lo up; echo ready; exec sleep infinity'
        spaces = ("--net", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child", "--propagation", "private")
        (root / "proc").mkdir(exist_ok=True)
        self.holder = subprocess.Popen(["unshare", *spaces, "sh", "-ec", keep, "sh", str(root)], stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, text=True)
        expect(self.holder.stdout.readline() == "ready\n", "there are no namespaces")

    def entered(self, *words):
        children = pathlib.Path(f"/proc/{self.holder.pid}/task/{self.holder.pid}/children").read_text().split()
        return ["nsenter", "--target", children[0], "--net", "--mount", "--pid", "--ipc", "--uts", "--", *words]

    def command(self, *words):
        return self.entered("chroot", f"--userspec={self.config['User']}", "--groups=", str(self.root), *words)

    def environment(self):
        # PATH is for the programs that lead there, too.
        return {**dict(word.split("=", 1) for word in self.config["Env"]), "PATH": os.environ["PATH"]}

    def run(self, *words):
        return subprocess.run(self.command(*words), env=self.environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=CLIENT_SECONDS)

    def start(self):
        words = self.command(*self.config["Entrypoint"], *self.config["Cmd"])
        subprocess.Popen(words, env=self.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def client(self, *words):
        words = self.entered("smbclient", "//127.0.0.1/share", "--port", str(IMAGE_PORT), *words)
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=CLIENT_SECONDS)
        expect(done.returncode == 0, f"{words}: {done.stdout}{done.stderr}")


@contextlib.contextmanager
def container(image, folder):
    inside = Container(*unpacked(image, folder))
    try:
        yield inside
    finally:
        # All that runs there ends with its first process.
        inside.holder.kill()
        inside.holder.wait()


def unpacked(image, folder):
    """The image's configuration, and its file system as a folder."""
    root = folder / "root"
    root.mkdir(parents=True)
    with tarfile.open(image) as archive:
        def blob(of):
            return archive.extractfile(f"blobs/{of['digest'].replace(':', '/')}")

        index = json.load(archive.extractfile("index.json"))
        manifest = json.load(blob(index["manifests"][0]))
        for layer in manifest["layers"]:
            with tarfile.open(fileobj=blob(layer)) as files:
                files.extractall(root, numeric_owner=True, filter="tar")
        return json.load(blob(manifest["config"])), root
