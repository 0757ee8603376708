"""A QEMU guest with Debian's kernel, for the kernel's own SMB client: built once into the cache, booted per run.

The guest runs under software emulation, so it needs no rights and no KVM. Inside it, 10.0.2.2 is this machine's loopback.
"""

import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import threading

from conformance import packages
from conformance.report import Skip

GATEWAY = "10.0.2.2"
FILES = packages.HERE / "kernel-guest"
PROGRAMS = ("busybox", "mount.cifs", "fio")
MODULES = ("virtio_pci", "virtio_net", "virtio_blk", "crc32c_generic", "ext4", "cifs", "cmac", "gcm", "ccm", "ctr", "ghash_generic", "aesni_intel", "aes_generic",
           "sha256_generic", "sha512_generic", "hmac", "ecb", "md5", "nls_utf8")
# What a guest prints last whose script came to its end.
ENDING = "guest finished with 0"
MEMORY_MIB = 2048
# The packages that name a kernel: Debian's own, and the newest that it has, whose client makes symbolic links.
CURRENT, NEWEST = "linux-image-amd64", "linux-image-6.12-amd64"
# What this machine's own files are seen by, and what for.
HOST_TAG, HOST_MODULES = "host", ("9p", "9pnet_virtio")
_building = threading.Lock()


def command(script, folder, files=(), kernel=CURRENT, with_host=False, processors=2):
    """The command line that boots the guest, runs this shell script in it and powers off. `files` are put there, by their paths. With the host
    its script may mount this machine's own files to read them, by HOST_TAG.

    Where one processor changes the kernel's code that another runs, as it does where it switches parts of itself on, QEMU's emulation may show the other
    half of the change, and the kernel panics ("Oops: int3"): who works for minutes takes one.
    """
    packages.need("qemu-system-x86_64", "cpio", "modprobe", "xz", *PROGRAMS)
    base = built(kernel)
    initrd = folder / "initrd"
    with open(initrd, "wb") as image:
        image.write((base / "base.cpio").read_bytes())
        with tempfile.TemporaryDirectory() as overlay:
            (pathlib.Path(overlay) / "script").write_text(script)
            for place, source in dict(files).items():
                (pathlib.Path(overlay) / place).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, pathlib.Path(overlay) / place)
            image.write(archive(pathlib.Path(overlay)))
    host = ["-virtfs", f"local,path=/,mount_tag={HOST_TAG},security_model=none,readonly=on,multidevs=remap"] if with_host else []
    return ["qemu-system-x86_64", *host, "-accel", "tcg,thread=multi", "-cpu", "max", "-m", str(MEMORY_MIB), "-smp", str(processors),
            "-display", "none", "-monitor", "none", "-serial", "stdio", "-no-reboot",
            "-kernel", str(base / "vmlinuz"), "-initrd", str(initrd), "-append", "console=ttyS0 quiet panic=-1",
            "-netdev", f"user,id=net,net=10.0.2.0/24,host={GATEWAY}", "-device", "virtio-net-pci,netdev=net"]


def worker():
    """The program that works in a guest as a run tells it to, built for it."""
    return compiled("worker")


def compiled(name):
    """A program of kernel-guest/, built for the guest."""
    packages.need("gcc")
    program = packages.cache("bin") / f"guest-{name}"
    packages.build(["gcc", "-static", "-O2", "-Wall", "-Werror", "-o", str(program), f"{name}.c"], FILES)
    return program


def with_libraries(program):
    """What to put into a guest so that this program of the machine's runs there: places and files."""
    linked = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
    libraries = re.findall(r"(/\S+\.so\S*)", linked)
    return {f"bin/{os.path.basename(program)}": program, **{library.lstrip("/"): library for library in libraries}}


def built(kernel=CURRENT):
    """The folder with vmlinuz and base.cpio, made anew when the kernel package or the guest's files change."""
    package = kernel_package(kernel)
    recipe = hashlib.sha256(pathlib.Path(__file__).read_bytes() + (FILES / "init").read_bytes()).hexdigest()[:12]
    folder = packages.cache("guest") / f"{package}-{recipe}"
    # Suites run side by side.
    with _building:
        if not (folder / "base.cpio").exists():
            build(package, folder)
    return folder


def build(package, folder):
    shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        scratch.chmod(0o755)
        kernel = unpacked(package, scratch)
        root = guest_root(kernel, scratch / "root")
        folder.mkdir(parents=True)
        shutil.copy(next((kernel / "boot").glob("vmlinuz-*")), folder / "vmlinuz")
        (folder / "base.part").write_bytes(archive(root))
        (folder / "base.part").rename(folder / "base.cpio")


def kernel_package(names):
    """The Debian package that holds the kernel which `names` names."""
    told = subprocess.run(["apt-cache", "depends", names], capture_output=True, text=True).stdout
    found = re.search(r"Depends: (linux-image-\S+)", told)
    if not found:
        raise Skip(f"apt knows no package {names}")
    return found[1]


def unpacked(package, scratch):
    subprocess.run(["apt-get", "download", "-qq", package], cwd=scratch, check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    kernel = scratch / "kernel"
    subprocess.run(["dpkg", "-x", str(next(scratch.glob("*.deb"))), str(kernel)], check=True)
    return kernel


def guest_root(kernel, root):
    """The guest's files: the programs with their libraries, the modules with theirs, and init."""
    for name in ("bin", "proc", "sys", "dev", "tmp", "run", "etc", "lib/modules"):
        (root / name).mkdir(parents=True)
    for program in PROGRAMS:
        add_program(root, packages.find(program))
    add_modules(root, kernel, (*MODULES, *HOST_MODULES))
    shutil.copy(FILES / "init", root / "init")
    (root / "init").chmod(0o755)
    return root


def add_program(root, path):
    for place, source in with_libraries(path).items():
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, root / place)


def add_modules(root, kernel, modules=MODULES):
    version = next((kernel / "lib/modules").iterdir()).name
    modprobe, depmod = packages.find("modprobe"), packages.find("depmod")
    subprocess.run([depmod, "-b", str(kernel), version], check=True)
    for module in modules:
        told = subprocess.run([modprobe, "-d", str(kernel), "-S", version, "--show-depends", module],
                              capture_output=True, text=True).stdout
        for path in re.findall(r"^insmod (\S+)", told, re.MULTILINE):
            place = root / os.path.relpath(path, kernel)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, place)
    for path in root.rglob("*.ko.xz"):
        subprocess.run(["xz", "-d", str(path)], check=True)
    for name in ("modules.order", "modules.builtin", "modules.builtin.modinfo"):
        shutil.copy(kernel / "lib/modules" / version / name, root / "lib/modules" / version / name)
    subprocess.run([depmod, "-b", str(root), version], check=True)


def archive(root):
    """The folder as an uncompressed newc archive, as the kernel's initramfs wants it."""
    names = sorted(os.path.relpath(path, root) for path in root.rglob("*"))
    return subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], cwd=root, input="\n".join([".", *names]).encode(),
                          check=True, stdout=subprocess.PIPE).stdout


def output(*argv):
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout
