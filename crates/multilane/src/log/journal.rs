//! Where entries of the journal go.

use std::env;
use std::io::{self, Write};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

/// Where journald listens.
pub(crate) const SOCKET: &str = "/run/systemd/journal/socket";

/// The way to the journal: what is written at once is one entry. The journal may be restarted meanwhile.
pub(crate) struct Journal {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Journal {
    /// The journal that listens at `path`.
    pub(crate) fn at(path: &Path) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        // Nothing is sent: this is only to see whether somebody is there.
        UnixDatagram::unbound()?.connect(path)?;
        Ok(Journal { socket, path: path.to_owned() })
    }
}

impl Write for Journal {
    fn write(&mut self, entry: &[u8]) -> io::Result<usize> {
        self.socket.send_to(entry, &self.path)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// True where standard error is the journal, as systemd says it is (systemd.exec(5), `JOURNAL_STREAM`).
pub(super) fn is_standard_error() -> bool {
    let Ok(stream) = env::var("JOURNAL_STREAM") else { return false };
    let found = rustix::fs::fstat(io::stderr());
    found.is_ok_and(|found| stream == format!("{}:{}", found.st_dev, found.st_ino))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_write_is_an_entry_and_a_journal_that_comes_back_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        assert!(Journal::at(&path).is_err(), "nobody is there");
        let listening = UnixDatagram::bind(&path).unwrap();
        let mut journal = Journal::at(&path).unwrap();
        journal.write_all(b"MESSAGE=one\n").unwrap();
        journal.write_all(b"MESSAGE=two\n").unwrap();
        let mut entry = [0; 64];
        for wanted in [b"MESSAGE=one\n", b"MESSAGE=two\n"] {
            let count = listening.recv(&mut entry).unwrap();
            assert_eq!(&entry[..count], wanted);
        }
        drop(listening);
        std::fs::remove_file(&path).unwrap();
        journal.write_all(b"MESSAGE=lost\n").unwrap_err();
        let listening = UnixDatagram::bind(&path).unwrap();
        journal.write_all(b"MESSAGE=three\n").unwrap();
        assert_eq!(listening.recv(&mut entry).unwrap(), b"MESSAGE=three\n".len());
    }
}
