"""One server under test, whichever program it is: start, stop, where to find it, and how it is doing."""

import contextlib
import dataclasses
import itertools
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time

HOST = "127.0.0.1"
USUAL_PORT = 445
START_SECONDS = 20
STOP_SECONDS = 30
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What a suite asks of the server it is given."""

    shares: tuple = ("conf",)
    ram_shares: tuple = ()       # shares that live in the server's memory, where the server can do that
    access_based: tuple = ()     # those of the shares that list only what the reader may read
    signing: str = "enabled"     # or "required"
    sealing: str = "enabled"     # or "required"
    sealed_shares: bool = False  # clients that do not seal get no share
    continuous: bool = False     # shares are continuously available, where the server can do that
    windows_like: bool = False   # where it costs a Samba share speed: streams, ACLs and DOS attributes as Windows keeps them
    by_descriptors: bool = False # descriptors alone say who may do what, and there is a keeper whom none binds
    channels: int = 1            # connections that one session may use
    anonymous: bool = False      # a session may be signed in again as nobody
    advertised: tuple = ()       # the only addresses that clients are told of, where the server can be told
    usual_port: bool = False     # listens on port 445 too, where it can be had
    on_tmpfs: bool = False       # the shares' files live in memory


class Server:
    """A server process with a private configuration on a free loopback port.

    A subclass writes that configuration and names the command; this class owns the process.
    """

    kind = "none"
    has_ram_shares = False
    # Somebody else, with the same password, where the server has one; and who is bound by no descriptor.
    second_user = ""
    keeper = ""
    acl_attribute = ""  # the extended attribute, as a client would name it, in which security descriptors are kept

    def __init__(self, wanted):
        self.wanted = wanted
        self.host = HOST
        self.port = free_port()
        self.ports = [self.port, *([USUAL_PORT] if wanted.usual_port and is_free(USUAL_PORT) else [])]
        self.user = "conformance"
        self.password = "Pass-w0rd-of-the-suite"
        base = "/dev/shm" if wanted.on_tmpfs and os.path.isdir("/dev/shm") else None
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=f"conformance-{self.kind}-", dir=base))
        self.folder.chmod(0o755)
        self.log = self.folder / "server.log"
        self.process = None

    # What a kind of server fills in.

    def prepare(self):
        """Writes the configuration, the user and the shares; runs before the first start."""
        raise NotImplementedError

    def command(self):
        """The server's command line; it must stay in the foreground."""
        raise NotImplementedError

    def open_files(self):
        """How many files clients hold open now, or None where this server cannot tell."""
        return None

    def strays(self):
        """Ids of processes that serve for this server and are no descendants of it."""
        return []

    def unmount(self):
        """Gives back what was mounted below the server's folder, whatever state it is in."""

    def keeper_password(self):
        return self.password

    # The process.

    @property
    def share(self):
        return self.wanted.shares[0]

    @property
    def pid(self):
        return self.process.pid

    def share_path(self, share=None):
        """The folder that holds a share's files on this machine."""
        return self.folder / "shares" / (share or self.share)

    def start(self):
        if self.process is None:
            for share in self.wanted.shares:
                self.share_path(share).mkdir(parents=True)
            self.prepare()
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, start_new_session=True)
        deadline = time.monotonic() + START_SECONDS
        while not answers(self.host, self.port):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f"{self.kind} did not start\n{self.log_tail()}")
            time.sleep(0.05)
        return self

    def stop(self):
        """Asks the server to end, and ends it when it does not; its exit code, or None after a forced end."""
        if self.process is None or self.process.poll() is not None:
            kill(self.strays())
            return self.process and self.process.returncode
        family = [self.pid, *descendants(self.pid)]
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return None
        finally:
            kill(family[1:])
            kill(self.strays())

    def remove(self):
        self.stop()
        self.unmount()
        shutil.rmtree(self.folder, ignore_errors=True)

    def answers(self):
        return answers(self.host, self.port)

    def running(self):
        """Whether the process that `start` made is still the one that serves."""
        return self.process is not None and self.process.poll() is None

    def log_tail(self, lines=40):
        if not self.log.exists():
            return ""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def cpu_seconds(self):
        """User and system time of the server process and all it ever forked, in seconds."""
        return sum(self.cpu_times())

    def cpu_times(self):
        """The same apart: user and system time."""
        times = [process_cpu(pid) for pid in [self.pid, *descendants(self.pid)]]
        return tuple(sum(apart) for apart in zip(*times))

    def resident_bytes(self):
        """Memory of the server process and its descendants, shared pages counted by their share (PSS); of one process alone what is resident,
        which is no less, and is told without keeping the process from mapping memory meanwhile."""
        processes = [self.pid, *descendants(self.pid)]
        return process_resident(self.pid) if len(processes) == 1 else sum(process_pss(pid) for pid in processes)

    def environment(self):
        """Where the server is, for a client program."""
        return dict(os.environ, SMB_HOST=self.host, SMB_PORT=str(self.port), SMB_SHARE=self.share,
                    SMB_USER=self.user, SMB_PASSWORD=self.password)


# Servers that are to go away with us.
_serving: list = []


@contextlib.contextmanager
def serving(kind, wanted=Wanted()):
    """A started server of this kind, removed with its files afterwards."""
    server = kind(wanted)
    _serving.append(server)
    try:
        yield server.start()
    finally:
        server.remove()
        _serving.remove(server)


def end_with_everything(signal_number, _):
    """A signal handler: kills what this program started, threads or not, and leaves no files behind."""
    kill(descendants(os.getpid()))
    for server in _serving:
        kill(server.strays())
        server.unmount()
        shutil.rmtree(server.folder, ignore_errors=True)
    os._exit(128 + signal_number)


def kill(pids):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def processes_with(argument):
    """Ids of processes whose command line has `argument` in it."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if argument.encode() in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return found


def is_free(port):
    """Whether this process may listen on it."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def below_those_of_connections():
    """The ports that no connection gets for its own end."""
    lowest = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    return range(10_240, min(lowest, 32_768))


# Another one each time, and other ones in each program.
PORTS = itertools.cycle(random.sample(below_those_of_connections(), len(below_those_of_connections())))


def free_port():
    """One that stays free while its server is started again, however many connections there are."""
    for port in itertools.islice(PORTS, 1000):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((HOST, port))
            return port
    raise RuntimeError("no port is free")


# An SMB2 NEGOTIATE that offers dialect 2.0.2 only (MS-SMB2 2.2.3), framed for TCP.
NEGOTIATE_202 = bytes.fromhex("00000066" "fe534d42" + "4000" + "0000" * 29 + "2400" "0100" "0100" "0000" "00000000"
                              + "ab" * 16 + "0000000000000000" "0202")


def answers(host, port, seconds=5):
    """Whether a server at this address answers a NEGOTIATE."""
    try:
        with socket.create_connection((host, port), timeout=seconds) as connection:
            connection.sendall(NEGOTIATE_202)
            head = connection.recv(8)
            return len(head) == 8 and head[4:] == b"\xfeSMB"
    except OSError:
        return False


def descendants(pid):
    """Process ids of all children, and theirs."""
    found = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except FileNotFoundError:
        return found
    for thread in threads:
        with contextlib.suppress(OSError):
            for child in pathlib.Path(f"/proc/{pid}/task/{thread}/children").read_text().split():
                found += [int(child), *descendants(int(child))]
    return found


def process_cpu(pid):
    """User and system time, with what reaped children used (proc(5), fields 14 to 17), in seconds."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0, 0.0
    user, system, of_children, system_of_children = (int(ticks) / CLOCK_TICKS for ticks in fields[11:15])
    return user + of_children, system + system_of_children


def process_resident(pid):
    try:
        text = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("VmRSS:"))


def process_pss(pid):
    try:
        text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:"))
