"""Samba as a server under test: the reference the suites are proven against, and the peer of the benchmark."""

import os
import pwd
import shutil
import subprocess

from conformance import packages
from conformance.server import Server, processes_with

# What makes a share behave as on Windows, where Samba's defaults differ; its own test suite asks for the same.
WINDOWS_LIKE = """
  vfs objects = acl_xattr streams_xattr
  ea support = yes
  store dos attributes = yes
  map archive = no
  map readonly = no
  posix locking = no
  kernel oplocks = no
  kernel share modes = no
  inherit acls = yes
"""

# Nothing but security descriptors says who may do what.
BY_DESCRIPTORS = """
  acl_xattr:ignore system acls = yes
  admin users = root
"""


class Samba(Server):
    kind = "samba"
    second_user = "bin"
    keeper = "root"
    acl_attribute = "security.NTACL"

    def __init__(self, wanted):
        super().__init__(wanted)
        # Samba users are users of this machine; as root take one without privileges, so that access is checked.
        self.user = "daemon" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name

    def prepare(self):
        packages.need("smbd", "smbpasswd")
        if self.wanted.windows_like:
            packages.need("/usr/lib/x86_64-linux-gnu/samba/vfs/acl_xattr.so")
        for name in ("private", "lock", "state", "cache", "run", "rpc"):
            (self.folder / name).mkdir()
        if os.geteuid() == 0:
            for share in self.wanted.shares:
                shutil.chown(self.share_path(share), self.user)
                if self.wanted.by_descriptors:
                    self.share_path(share).chmod(0o777)
        self._config().write_text(self._text())
        # At its first start smbd gives each built-in group an id; only a user of the machine may own files.
        for user in (self.user, self.second_user, self.keeper) if self.wanted.by_descriptors else (self.user,):
            subprocess.run(["smbpasswd", "-c", str(self._config()), "-s", "-a", user], check=True, text=True,
                           input=f"{self.password}\n{self.password}\n", stdout=subprocess.DEVNULL)

    def command(self):
        return [packages.find("smbd"), "--foreground", "--no-process-group", "-s", str(self._config())]

    def strays(self):
        # smbd starts samba-dcerpcd as a daemon; it and what it starts name the configuration, and outlive smbd.
        own = {os.getpid(), self.process and self.process.pid}
        return [pid for pid in processes_with(str(self._config())) if pid not in own]

    def _config(self):
        return self.folder / "smb.conf"

    def _text(self):
        wanted, folder = self.wanted, self.folder
        # smbtorture cuts connections by asking the server to; only a test server may listen to that.
        mandatory = {"enabled": "auto", "required": "mandatory"}[wanted.signing]
        encrypt = {"enabled": "auto", "required": "required"}[wanted.sealing]
        options = "  server smb encrypt = required\n" if wanted.sealed_shares else ""
        options += WINDOWS_LIKE if wanted.windows_like else ""
        options += BY_DESCRIPTORS if wanted.by_descriptors else ""
        shares = "".join(f"[{share}]\n  path = {self.share_path(share)}\n  read only = no\n{options}"
                         + ("  hide unreadable = yes\n" if share in wanted.access_based else "")
                         for share in wanted.shares)
        cut = "  smbd:FSCTL_SMBTORTURE = yes\n" if wanted.windows_like else ""
        return f"""[global]
  server role = standalone server
  smb ports = {' '.join(map(str, self.ports))}
  interfaces = "{self.host};capability=RSS,speed=10000000000"
  bind interfaces only = yes
  disable netbios = yes
  load printers = no
  disable spoolss = yes
  server multi channel support = yes
  server min protocol = SMB2_02
  server signing = {mandatory}
  server smb encrypt = {encrypt}
  map to guest = never
  log file = {folder}/samba.log
  max log size = 0
  private dir = {folder}/private
  lock directory = {folder}/lock
  state directory = {folder}/state
  cache directory = {folder}/cache
  pid directory = {folder}/run
  ncalrpc dir = {folder}/rpc
{cut}{shares}"""
