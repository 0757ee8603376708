"""A Debian that boots: a disk of its own, the kernel of the distribution and systemd, in QEMU. What a package does on a machine that is switched on.

Needs root, for what the disk holds, and no KVM. Commands go to a shell on its second serial port.
"""

import contextlib
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time

from conformance import debian, guest, packages
from conformance.report import Failure

DISK_MIB, MEMORY_MIB = 2048, 1024
BOOT_SECONDS, RUN_SECONDS = 600, 300
# The first process before the disk is there: finds it, and gives way to systemd.
FIRST = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
for module in virtio_pci virtio_net virtio_blk crc32c_generic ext4; do
    modprobe $module
done
ip link set lo up
ip link set eth0 up
ip addr add 10.0.2.15/24 dev eth0
ip route add default via 10.0.2.2
mkdir /disk
mount -t ext4 /dev/vda /disk
umount /proc /sys
mount --move /dev /disk/dev
exec switch_root /disk /lib/systemd/systemd
"""
# The shell that is told what to run; it comes with whatever else boots.
SHELL = """[Unit]
Description=A shell for who tests this
DefaultDependencies=no
After=local-fs.target
[Service]
ExecStart=/bin/sh
Environment=PS1=
StandardInput=tty-force
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS1
KillMode=process
[Install]
WantedBy=multi-user.target
"""
# Ends what a command prints, before its exit code. The shell's terminal may show the command itself, which says it otherwise.
END, SAY_END = "--end-of-answer-", "--end-of''-answer-"


class Machine:
    """The machine; it can be switched off and on again, and keeps its disk. Port 445 of it is `port` of this machine's loopback."""

    def __init__(self, files):
        """`files` are put on the disk: places there, and files here."""
        packages.need("qemu-system-x86_64", "mkfs.ext4", "mmdebstrap", "cpio", "modprobe", "xz", *guest.PROGRAMS)
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="conformance-booted-"))
        self.process = self.shell = None
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        try:
            self.make_disk(files)
        except BaseException:
            shutil.rmtree(self.scratch, ignore_errors=True)
            raise

    def make_disk(self, files):
        root = self.scratch / "root"
        root.mkdir()
        subprocess.run(["tar", "-xf", str(debian.base()), "-C", str(root)], check=True)
        for place, source in files.items():
            shutil.copy(source, root / place)
        (root / "etc/systemd/system/shell.service").write_text(SHELL)
        wanted = root / "etc/systemd/system/multi-user.target.wants"
        wanted.mkdir(exist_ok=True)
        (wanted / "shell.service").symlink_to("/etc/systemd/system/shell.service")
        # A minimal system has no udev, for whose word on the console a boot would wait.
        (root / "etc/systemd/system/serial-getty@ttyS0.service").symlink_to("/dev/null")
        disk = str(self.scratch / "disk")
        subprocess.run(["mkfs.ext4", "-q", "-d", str(root), disk, f"{DISK_MIB}M"], check=True)
        shutil.rmtree(root)
        overlay = self.scratch / "overlay"
        overlay.mkdir()
        (overlay / "first").write_text(FIRST)
        (overlay / "first").chmod(0o755)
        (self.scratch / "initrd").write_bytes((guest.built() / "base.cpio").read_bytes() + guest.archive(overlay))

    def __enter__(self):
        try:
            self.switch_on()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.switch_off()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def switch_on(self):
        place = self.scratch / "shell"
        with contextlib.suppress(OSError):
            place.unlink()
        words = ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-m", str(MEMORY_MIB), "-smp", "2", "-display", "none",
                 "-monitor", "none", "-kernel", str(guest.built() / "vmlinuz"), "-initrd", str(self.scratch / "initrd"),
                 "-append", "console=ttyS0 rdinit=/first panic=0", "-serial", f"file:{self.scratch / 'console'}",
                 "-serial", f"unix:{place},server=on,wait=off", "-drive", f"file={self.scratch / 'disk'},format=raw,if=virtio",
                 "-netdev", f"user,id=net,hostfwd=tcp:127.0.0.1:{self.port}-10.0.2.15:445", "-device", "virtio-net-pci,netdev=net"]
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + BOOT_SECONDS
        while not place.exists():
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise Failure("QEMU does not start")
            time.sleep(0.1)
        self.shell = socket.socket(socket.AF_UNIX)
        self.shell.connect(str(place))
        self.until_up()

    def until_up(self):
        """Waits until the shell answers and systemd has started all that boots."""
        # Until the shell is there, what is said to it is lost.
        deadline = time.monotonic() + BOOT_SECONDS
        while not self.answers():
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise Failure(f"the machine does not come up: {self.console()}")
        self.tried("systemctl is-system-running --wait")

    def answers(self):
        with contextlib.suppress(TimeoutError):
            return self.tried("stty -F /dev/ttyS1 -echo -onlcr", seconds=5)[0] == 0
        return False

    def console(self):
        return (self.scratch / "console").read_text(errors="replace")[-3000:]

    def tried(self, command, seconds=RUN_SECONDS):
        """Runs a line of shell there as root; its exit code, and what it prints."""
        number = str(time.monotonic_ns())
        self.shell.settimeout(seconds)
        self.shell.sendall(f"({command}) < /dev/null; code=$?; echo; echo {SAY_END}{number} $code\n".encode())
        said = b""
        ending = f"{END}{number} ".encode()
        while ending not in said or not said.split(ending)[-1].endswith(b"\n"):
            more = self.shell.recv(65536)
            if not more:
                raise Failure(f"the machine went away: {self.console()}")
            said += more
        printed, code = said.decode(errors="replace").replace("\r\n", "\n").rsplit(ending.decode(), 1)
        return int(code), printed.rsplit("\n", 1)[0]

    def run(self, command):
        code, printed = self.tried(command)
        if code != 0:
            raise Failure(f"{command}: exit {code}\n{printed}")
        return printed.strip()

    def reboot(self):
        """As an administrator does it; waits until it is up again."""
        before = self.run("cat /proc/sys/kernel/random/boot_id")
        self.shell.sendall(b"systemctl reboot\n")
        deadline = time.monotonic() + BOOT_SECONDS
        while True:
            with contextlib.suppress(TimeoutError, ValueError):
                code, printed = self.tried("cat /proc/sys/kernel/random/boot_id", seconds=5)
                if code == 0 and printed.strip() and before not in printed:
                    break
            if time.monotonic() > deadline:
                raise Failure(f"it does not come up again: {self.console()}")
        self.until_up()

    def switch_off(self):
        """As if its plug were drawn."""
        if self.shell:
            self.shell.close()
        if self.process:
            self.process.kill()
            self.process.wait()
