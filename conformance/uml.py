"""A guest in User Mode Linux: Debian's kernel as a program on this machine, some twenty times as fast as under QEMU's emulation.

It needs root, for a network card (a tap device) that leads here. What it runs is what a QEMU guest runs (guest.py): the same programs and
the same scripts.
"""

import contextlib
import hashlib
import os
import pathlib
import shutil
import subprocess
import tempfile

from conformance import guest, packages
from conformance.report import Skip

KERNEL = "/usr/bin/linux.uml"
MODULES_FOLDER = pathlib.Path("/usr/lib/uml/modules")
# Those that cifs asks the kernel for by name come first: loading them on demand is what this kernel cannot do in time.
MODULES = ("cmac", "gcm", "ccm", "ctr", "ghash_generic", "sha512_generic", "hmac", "ecb", "md4", "arc4", "nls_utf8", "cifs")
MEMORY_MIB = 1024
BOOT_SECONDS = 60
# Debian's kernel counts the processor as one whose floating point state it cannot keep where it is newer than the kernel; this is
# the instruction that says so, with and without.
FLAW, MENDED = (bytes.fromhex(f"48b8808da46000000000c7000{last}000000") for last in "10")
# What the kernel does not keep for its processes, so that libraries must not use it.
TUNABLES = "glibc.cpu.hwcaps=-AVX,-AVX2,-AVX512F,-AVX512VL,-AVX512BW,-AVX512DQ,-AVX_Usable,-AVX2_Usable,-AVX_Fast_Unaligned_Load,-ERMS,-XSAVEC"


class Card:
    """A tap device with one end here, `host`, and the other in the guest, `address`, as a pair of addresses of its own for each process."""

    def __init__(self, number=0):
        self.name = f"ml{os.getpid() % 100000}-{number}"
        # A network of 4 addresses of 198.18.0.0/15, which is kept for tests (RFC 2544).
        block = (os.getpid() * 4 + number) % 16384 * 4
        self.host, self.address = (f"198.18.{block // 256}.{block % 256 + end}" for end in (1, 2))

    def __enter__(self):
        if os.geteuid() != 0 or not os.path.exists("/dev/net/tun"):
            raise Skip("User Mode Linux needs root and tap devices")
        self._ip("tuntap", "add", "dev", self.name, "mode", "tap")
        self._ip("addr", "add", f"{self.host}/30", "dev", self.name)
        # The kernel's driver loses packets that are several in one; and pacing waits for a clock that a guest does not keep.
        self._ip("link", "set", self.name, "up", "gso_max_segs", "1")
        self._ip("route", "change", f"{self.host.rsplit('.', 1)[0]}.{int(self.host.rsplit('.', 1)[1]) - 1}/30", "dev", self.name, "src",
                 self.host, "congctl", "cubic")
        return self

    def __exit__(self, *_):
        self.remove()

    def remove(self):
        with contextlib.suppress(OSError):
            subprocess.run(["ip", "link", "delete", self.name], stderr=subprocess.DEVNULL)

    def _ip(self, *words):
        done = subprocess.run(["ip", *words], capture_output=True, text=True)
        if done.returncode != 0:
            raise Skip(f"ip {' '.join(words)}: {done.stderr.strip()}")


def command(script, folder, card, files=()):
    """The command line that boots the guest, runs this shell script in it and ends. `files` are put there, by their paths."""
    base = built()
    initrd = folder / f"initrd-{card.name}"
    with open(initrd, "wb") as image, tempfile.TemporaryDirectory() as overlay:
        image.write((base / "base.cpio").read_bytes())
        overlay = pathlib.Path(overlay)
        (overlay / "script").write_text(script)
        (overlay / "network").write_text(f"ip addr add {card.address}/30 dev vec0\nip route add default via {card.host}\n")
        for place, source in dict(files).items():
            (overlay / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, overlay / place)
        image.write(guest.archive(overlay))
    return [str(base / "linux"), f"mem={MEMORY_MIB}M", f"initrd={initrd}", f"uml_dir={folder}", f"umid={card.name}",
            f"vec0:transport=tap,ifname={card.name},depth=128,gro=0", "con=null", "con0=null,fd:1", "con1=null", "quiet", "panic=-1", "root=/dev/ram0",
            # What the kernel does not know it gives to its first process.
            f"GLIBC_TUNABLES={TUNABLES}"]


def boots(card):
    """Whether a guest comes up here and reaches the other end of its card."""
    with tempfile.TemporaryDirectory() as folder:
        words = command(f"ping -c 1 -w 10 {card.host} > /dev/null && echo it is up", pathlib.Path(folder), card)
        with contextlib.suppress(subprocess.TimeoutExpired):
            said = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=BOOT_SECONDS)
            return b"it is up" in said.stdout
    return False


def built():
    """The folder with the kernel and base.cpio, made anew when the kernel or the guest's files change."""
    packages.need("linux.uml", "cpio", "modprobe", "xz", *guest.PROGRAMS)
    kernel = pathlib.Path(KERNEL).read_bytes()
    recipe = hashlib.sha256(kernel + pathlib.Path(__file__).read_bytes() + (guest.FILES / "init-uml").read_bytes()).hexdigest()[:12]
    folder = packages.cache("guest") / f"uml-{recipe}"
    if (folder / "base.cpio").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "linux"
    program.write_bytes(kernel.replace(FLAW, MENDED) if kernel.count(FLAW) == 1 else kernel)
    program.chmod(0o755)
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        (scratch / "kernel/lib").mkdir(parents=True)
        shutil.copytree(MODULES_FOLDER, scratch / "kernel/lib/modules")
        root = scratch / "root"
        for name in ("bin", "proc", "sys", "dev", "tmp", "run", "etc", "lib/modules"):
            (root / name).mkdir(parents=True)
        for name in guest.PROGRAMS:
            guest.add_program(root, packages.find(name))
        guest.add_modules(root, scratch / "kernel", MODULES)
        shutil.copy(guest.FILES / "init-uml", root / "init")
        (root / "init").chmod(0o755)
        (root / "init").write_text((root / "init").read_text().replace("@MODULES@", " ".join(MODULES)))
        (folder / "base.part").write_bytes(guest.archive(root))
        (folder / "base.part").rename(folder / "base.cpio")
    return folder
