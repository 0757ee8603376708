//! Debian's smbd: a private configuration, a share in memory, and multichannel.

use std::fs;
use std::io::Write;
use std::net::{IpAddr, TcpStream};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ::client::{Settings, Target};

use super::process::{Process, folder};
use super::{Server, first_address, free_port};
use crate::engine::{Failure, Mount, Stop};
use crate::network::Sides;

const SHARE: &str = "compare";
/// Where Debian keeps what users are not meant to call.
const FOLDERS: [&str; 4] = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"];
/// Folders that smbd writes to, with the options that name them.
const PLACES: [(&str, &str); 6] = [
    ("private dir", "private"),
    ("lock directory", "lock"),
    ("state directory", "state"),
    ("cache directory", "cache"),
    ("pid directory", "run"),
    ("ncalrpc dir", "rpc"),
];

/// Starts it on a port of its host that is free on ours.
pub(super) fn start(sides: Sides, stop: &Stop) -> Result<Server, Failure> {
    let (smbd, smbpasswd) = (program("smbd")?, program("smbpasswd")?);
    let folder = folder("multilane-compare-samba-")?;
    let (user, password, port) = (user()?, password()?, free_port()?);
    let configuration = folder.path().join("smb.conf");
    prepare(folder.path(), &user, port, &interfaces(sides))
        .and_then(|text| fs::write(&configuration, text))
        .map_err(unable)?;
    set_password(&smbpasswd, &configuration, &user.name, &password)?;

    let mut serve = sides.on_server(&smbd);
    serve.args(["--foreground", "--no-process-group", "-s"]).arg(&configuration).stdout(Stdio::null());
    let mut process = Process::start("Samba", serve, folder)?;
    let host = first_address(sides);
    process.wait(stop, || TcpStream::connect((host, port)).is_ok())?;
    Ok(Server {
        name: "samba".to_owned(),
        about: format!("{}, started for this; files in memory at {}", version(&smbd), process.folder().display()),
        mount: Mount {
            server: Target { host: host.to_string(), port, user: user.name, password },
            settings: Settings::default(),
            share: SHARE.to_owned(),
        },
        folder: String::new(),
        process: Some(process),
        operator: None,
    })
}

/// Its addresses, each with several queues: smbd does not see those of simulated links.
fn interfaces(sides: Sides) -> String {
    let told = |address: &IpAddr| format!("\"{address};capability=RSS,speed=10000000000\"");
    sides.server_addresses().iter().map(told).collect::<Vec<_>>().join(" ")
}

/// A user of this machine, as Samba's users have to be.
struct User {
    name: String,
    /// Its ids, where files have to be given to it.
    owner: Option<(u32, u32)>,
}

/// For root somebody without privileges, so that access is checked.
fn user() -> Result<User, Failure> {
    let id = rustix::process::geteuid();
    let wanted: u32 = id.as_raw();
    let users = fs::read_to_string("/etc/passwd").map_err(unable)?;
    let found = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, user, group) = (fields.next()?, fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
        let is_it = if id.is_root() { name == "daemon" } else { user == wanted };
        is_it.then(|| User { name: name.to_owned(), owner: id.is_root().then_some((user, group)) })
    });
    found.ok_or_else(|| Failure {
        what: "this machine has no user that Samba could serve".to_owned(),
        remedy: "run as a user who is in /etc/passwd".to_owned(),
    })
}

/// 128 random bits.
fn password() -> Result<String, Failure> {
    use std::io::Read;
    let mut bytes = [0; 16];
    fs::File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut bytes)).map_err(unable)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Makes the folders; gives the configuration.
fn prepare(folder: &Path, user: &User, port: u16, interfaces: &str) -> std::io::Result<String> {
    // The user who is served walks through it.
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
    let share = folder.join("share");
    fs::create_dir(&share)?;
    if let Some((user, group)) = user.owner {
        chown(&share, Some(user), Some(group))?;
    }
    let mut places = String::new();
    for (option, name) in PLACES {
        let path = folder.join(name);
        fs::create_dir(&path)?;
        places += &format!("  {option} = {}\n", path.display());
    }
    Ok(format!(
        "[global]
  server role = standalone server
  smb ports = {port}
  interfaces = {interfaces}
  bind interfaces only = yes
  disable netbios = yes
  load printers = no
  disable spoolss = yes
  server multi channel support = yes
  server signing = auto
  server smb encrypt = auto
  map to guest = never
  log file = {log}
  max log size = 1000
{places}[{SHARE}]
  path = {share}
  read only = no
",
        log = folder.join("samba.log").display(),
        share = share.display(),
    ))
}

fn set_password(smbpasswd: &Path, configuration: &Path, user: &str, password: &str) -> Result<(), Failure> {
    let mut command = Command::new(smbpasswd);
    command.arg("-c").arg(configuration).args(["-s", "-a", user]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(unable)?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(format!("{password}\n{password}\n").as_bytes()).map_err(unable)?;
    }
    let output = child.wait_with_output().map_err(unable)?;
    match output.status.success() {
        true => Ok(()),
        false => Err(unable(String::from_utf8_lossy(&output.stderr).trim())),
    }
}

fn program(name: &str) -> Result<PathBuf, Failure> {
    let found = FOLDERS.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.is_file());
    found.ok_or_else(|| Failure {
        what: format!("{name} is not installed"),
        remedy: "install Samba (`apt-get install samba`), or leave out --against samba".to_owned(),
    })
}

/// As smbd says it.
fn version(smbd: &Path) -> String {
    let said = Command::new(smbd).arg("--version").stdin(Stdio::null()).output();
    let said = said.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    said.strip_prefix("Version ").map_or_else(|| "Samba".to_owned(), |version| format!("Samba {version}"))
}

fn unable(cause: impl std::fmt::Display) -> Failure {
    Failure { what: format!("Samba could not be set up: {cause}"), remedy: "leave out --against samba".to_owned() }
}
