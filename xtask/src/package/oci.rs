//! A container image, made without a daemon: a tar archive in the layout of OCI's image specification, with one layer. The layer has the program, the
//! libraries that it is linked with, and the user that it runs as; no shell, no packages.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};

use crate::package::build::Made;
use crate::package::{Broken, architecture, folder};
use crate::run;

/// Who runs the server, by a number that images and machines hardly give to somebody else.
const USER: u64 = 10_445;
/// Everybody may listen here.
const PORT: u16 = 4450;
const DATA: &str = "/var/lib/multilane";
const PROGRAM: &str = "usr/bin/multilane";
/// How often it is looked whether the server is ready, in nanoseconds, and how long it may take to answer and to start.
const LOOK_EVERY: u64 = 30_000_000_000;
const LOOK_WITHIN: u64 = 10_000_000_000;
const STARTS_WITHIN: u64 = 60_000_000_000;

pub(super) fn package(made: &Made) -> Result<PathBuf, Broken> {
    let path = folder().join(format!("multilane-{}-{}.oci.tar", made.version, std::env::consts::ARCH));
    let file = File::create(&path).map_err(Broken::at(&path))?;
    let layer = layer(made)?;
    image(file, &layer, made).map_err(Broken::at(&path))?;
    Ok(path)
}

/// The whole image: its layer, what describes it, and where a tool begins to read.
fn image(to: impl Write, layer: &[u8], made: &Made) -> io::Result<()> {
    let mut files = Files { archive: Builder::new(to), time: made.time };
    files.folder("blobs", 0o755, 0)?;
    files.folder("blobs/sha256", 0o755, 0)?;
    let layer = files.blob("application/vnd.oci.image.layer.v1.tar", layer)?;
    let config = files.blob("application/vnd.oci.image.config.v1+json", &bytes(&config(&layer, made)))?;
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config,
        "layers": [layer],
    });
    let mut manifest = files.blob("application/vnd.oci.image.manifest.v1+json", &bytes(&manifest))?;
    manifest["annotations"] = json!({
        "org.opencontainers.image.ref.name": made.version,
        "io.containerd.image.name": format!("multilane:{}", made.version),
    });
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [manifest],
    });
    files.file("index.json", 0o644, &bytes(&index))?;
    files.file("oci-layout", 0o644, br#"{"imageLayoutVersion":"1.0.0"}"#)?;
    files.archive.into_inner()?.flush()
}

/// How the image is run. `Healthcheck` is Docker's and Podman's; OCI's specification has none.
fn config(layer: &Value, made: &Made) -> Value {
    json!({
        "created": date(made.time),
        "architecture": architecture(),
        "os": "linux",
        "config": {
            "User": format!("{USER}:{USER}"),
            "ExposedPorts": { format!("{PORT}/tcp"): {} },
            "Env": ["PATH=/usr/bin", format!("MULTILANE_DATA={DATA}")],
            "Entrypoint": [format!("/{PROGRAM}")],
            "Cmd": ["serve"],
            "Volumes": { DATA: {} },
            "WorkingDir": "/",
            "Healthcheck": {
                "Test": ["CMD", format!("/{PROGRAM}"), "status"],
                "Interval": LOOK_EVERY,
                "Timeout": LOOK_WITHIN,
                "StartPeriod": STARTS_WITHIN,
            },
            "Labels": {
                "org.opencontainers.image.title": "multilane",
                "org.opencontainers.image.version": made.version,
                "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
            },
        },
        // The layer is not compressed, so that it is known by one digest.
        "rootfs": { "type": "layers", "diff_ids": [layer["digest"]] },
        "history": [{ "created_by": "cargo xtask package oci" }],
    })
}

/// The files of the one layer.
fn layer(made: &Made) -> Result<Vec<u8>, Broken> {
    let libraries = libraries(&made.program)?;
    let program = fs::read(&made.program).map_err(Broken::at(&made.program))?;
    let read = |path: &PathBuf| fs::read(path).map_err(Broken::at(path)).map(|bytes| (path.clone(), bytes));
    let libraries = libraries.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let write = || {
        let mut files = Files { archive: Builder::new(Vec::new()), time: made.time };
        let users =
            format!("root:x:0:0:root:/:/sbin/nologin\nmultilane:x:{USER}:{USER}:Multilane:{DATA}:/sbin/nologin\n");
        files.folder("etc", 0o755, 0)?;
        files.file("etc/group", 0o644, format!("root:x:0:\nmultilane:x:{USER}:\n").as_bytes())?;
        files.file("etc/nsswitch.conf", 0o644, b"hosts: files dns\n")?;
        files.file("etc/passwd", 0o644, users.as_bytes())?;
        files.folder("tmp", 0o1777, 0)?;
        for folder in ["usr", "usr/bin", "var", "var/lib"] {
            files.folder(folder, 0o755, 0)?;
        }
        files.file(PROGRAM, 0o755, &program)?;
        // A new volume gets the owner and the mode of what it is mounted on.
        files.folder(DATA.trim_start_matches('/'), 0o700, USER)?;
        let mut made = Vec::new();
        for (path, bytes) in &libraries {
            let name = path.strip_prefix("/").unwrap_or(path);
            let above =
                name.parent().into_iter().flat_map(Path::ancestors).filter(|folder| folder.components().count() > 0);
            for folder in above.collect::<Vec<_>>().into_iter().rev() {
                if folder != Path::new("usr") && !made.contains(&folder) {
                    files.folder(&folder.to_string_lossy(), 0o755, 0)?;
                    made.push(folder);
                }
            }
            files.file(&name.to_string_lossy(), 0o755, bytes)?;
        }
        files.archive.into_inner()
    };
    write().map_err(Broken::at(&made.program))
}

/// The libraries that the program is linked with, where they are looked for, in the order of their names.
fn libraries(program: &Path) -> Result<Vec<PathBuf>, Broken> {
    let mut ldd = Command::new("ldd");
    ldd.arg(program);
    let Some(told) = run::output(ldd) else {
        return Err(Broken::Step("ldd did not say what the program is linked with".to_owned()));
    };
    Ok(named(&told))
}

/// The paths in what ldd(1) prints.
fn named(told: &str) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = told
        .lines()
        .filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')))
        .map(PathBuf::from)
        .collect();
    paths.sort();
    paths
}

/// Files in an archive, all of one time.
struct Files<W: Write> {
    archive: Builder<W>,
    time: u64,
}

impl<W: Write> Files<W> {
    fn file(&mut self, name: &str, mode: u32, bytes: &[u8]) -> io::Result<()> {
        let mut header = self.header(EntryType::Regular, mode, 0);
        header.set_size(bytes.len() as u64);
        self.archive.append_data(&mut header, name, bytes)
    }

    fn folder(&mut self, name: &str, mode: u32, owner: u64) -> io::Result<()> {
        let mut header = self.header(EntryType::Directory, mode, owner);
        self.archive.append_data(&mut header, format!("{name}/"), io::empty())
    }

    /// Something that is named by its digest, and what others call it by.
    fn blob(&mut self, kind: &str, bytes: &[u8]) -> io::Result<Value> {
        let digest: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        self.file(&format!("blobs/sha256/{digest}"), 0o644, bytes)?;
        Ok(json!({ "mediaType": kind, "digest": format!("sha256:{digest}"), "size": bytes.len() }))
    }

    fn header(&self, kind: EntryType, mode: u32, owner: u64) -> Header {
        let mut header = Header::new_ustar();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_uid(owner);
        header.set_gid(owner);
        header.set_mtime(self.time);
        header.set_size(0);
        header
    }
}

fn bytes(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

/// A time in seconds since 1970 as RFC 3339 has it.
fn date(time: u64) -> String {
    let seconds = i64::try_from(time).unwrap_or(i64::MAX);
    Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX).to_string()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::Read;

    use tar::Archive;

    use super::*;

    fn made(folder: &Path) -> Made {
        let program = folder.join("multilane");
        fs::copy("/bin/true", &program).unwrap();
        Made { program, is_given: true, version: "1.2.3".to_owned(), time: 1_700_000_000 }
    }

    /// The files of an archive, which are all of one time.
    fn files(archive: &[u8]) -> BTreeMap<String, (Header, Vec<u8>)> {
        let mut files = BTreeMap::new();
        for entry in Archive::new(archive).entries().unwrap() {
            let mut entry = entry.unwrap();
            let (name, header) = (entry.path().unwrap().to_string_lossy().into_owned(), entry.header().clone());
            assert_eq!(header.mtime().unwrap(), 1_700_000_000, "{name}");
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            assert!(files.insert(name.clone(), (header, bytes)).is_none(), "{name} is there once");
        }
        files
    }

    #[test]
    fn all_of_an_image_is_found_from_its_index_by_digests_that_hold() {
        let place = tempfile::tempdir().unwrap();
        let made = made(place.path());
        let mut archive = Vec::new();
        image(&mut archive, &layer(&made).unwrap(), &made).unwrap();
        let files = files(&archive);
        let blob = |of: &Value| {
            let digest = of["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
            let (_, bytes) = &files[&format!("blobs/sha256/{digest}")];
            let actual: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!((actual.as_str(), bytes.len() as u64), (digest, of["size"].as_u64().unwrap()));
            bytes.clone()
        };
        let index: Value = serde_json::from_slice(&files["index.json"].1).unwrap();
        let manifest: Value = serde_json::from_slice(&blob(&index["manifests"][0])).unwrap();
        let config: Value = serde_json::from_slice(&blob(&manifest["config"])).unwrap();
        assert_eq!(config["created"], "2023-11-14T22:13:20Z");
        assert_eq!(config["rootfs"]["diff_ids"][0], manifest["layers"][0]["digest"]);
        let layer = self::files(&blob(&manifest["layers"][0]));
        assert_eq!(layer[PROGRAM].0.mode().unwrap(), 0o755);
        let (data, _) = &layer["var/lib/multilane/"];
        assert_eq!((data.mode().unwrap(), data.uid().unwrap(), data.gid().unwrap()), (0o700, USER, USER));
        assert!(layer.keys().any(|name| name.ends_with("libc.so.6")), "{:?}", layer.keys());
    }

    #[test]
    fn the_same_program_makes_the_same_image() {
        let place = tempfile::tempdir().unwrap();
        let made = made(place.path());
        assert!(layer(&made).unwrap() == layer(&made).unwrap());
    }

    #[test]
    fn libraries_are_told_by_their_paths() {
        let told = "\tlinux-vdso.so.1 (0x00007fff)\n\tlibm.so.6 => /lib/x/libm.so.6 (0x1)\n\t/lib64/ld-linux-x86-64.so.2 (0x2)\n";
        assert_eq!(named(told), [PathBuf::from("/lib/x/libm.so.6"), "/lib64/ld-linux-x86-64.so.2".into()]);
    }
}
