//! The lines to paste on a client once the server runs.

use std::fmt::Write;
use std::net::SocketAddr;

/// The port that clients use unless told otherwise.
const PORT: u16 = 445;

/// What a client needs to know.
pub(crate) struct Hints {
    /// The name or address to reach the server by.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// A share and the account it belongs to, if there is one.
    pub(crate) share: Option<(String, String)>,
    /// The connections that one session of that account may use at once.
    pub(crate) channels: usize,
    /// The arguments that lead an operator's command to this data folder, with a space before them, or nothing.
    pub(crate) data: String,
}

impl Hints {
    /// How to connect, for people.
    pub(crate) fn text(&self) -> String {
        let Some((share, account)) = &self.share else {
            return format!(
                "Nothing is shared yet. To share a folder:\n  multilane share create NAME --path DIR{data}\n",
                data = self.data
            );
        };
        let mut text = format!(
            "Sign in as {account}; the password is a key of that account:\n  multilane account keys {account}{}\n\n",
            self.data
        );
        // Writing to a String cannot fail.
        let _ = self.lines(&mut text, &quoted(share), share, account);
        if self.channels == 1 {
            let _ = write!(
                text,
                "A client uses one connection. For several at once:\n  multilane account update {account} --multichannel on{}\n",
                self.data
            );
        }
        text
    }

    fn lines(&self, text: &mut String, quoted: &str, share: &str, account: &str) -> std::fmt::Result {
        let Hints { host, port, .. } = self;
        let other = *port != PORT;
        let with = |option: &str| if other { format!("{option}{port}") } else { String::new() };
        let unc = if quoted == share { format!("\\\\{host}\\{share}") } else { format!("\"\\\\{host}\\{share}\"") };
        let path = if quoted == share { format!("//{host}/{share}") } else { format!("'//{host}/{share}'") };
        let url = share.replace('%', "%25").replace(' ', "%20");

        writeln!(text, "Windows{}:", if other { " 11 24H2, Server 2025 or later" } else { "" })?;
        writeln!(text, "  net use Z: {unc} * /user:{account}{}", with(" /tcpport:"))?;
        let secret = "(Get-Credential).GetNetworkCredential().Password";
        writeln!(
            text,
            "  New-SmbMapping -LocalPath Z: -RemotePath {unc} -UserName {account} -Password {secret}{}",
            with(" -TcpPort ")
        )?;
        writeln!(text, "Linux:")?;
        let channels = match self.channels {
            1 => String::new(),
            channels => format!(",multichannel,max_channels={channels}"),
        };
        writeln!(
            text,
            "  sudo mount -t cifs {path} /mnt -o vers=3.1.1,username={account}{channels}{}",
            with(",port=")
        )?;
        writeln!(text, "macOS, in Finder's Go > Connect to Server or a terminal:")?;
        let authority = format!("{account}@{host}{}", with(":"));
        writeln!(text, "  smb://{authority}/{url}")?;
        writeln!(text, "  mkdir -p ~/mnt && mount_smbfs '//{authority}/{url}' ~/mnt")?;
        writeln!(text, "smbclient:")?;
        writeln!(text, "  smbclient {path} -U {account}{}", with(" -p "))
    }
}

/// The name or address that other machines reach the server by: the address it listens on, or the host name where it
/// listens on all.
pub(crate) fn host(address: SocketAddr, host_name: &str) -> String {
    match address {
        _ if address.ip().is_unspecified() => host_name.to_owned(),
        SocketAddr::V4(address) => address.ip().to_string(),
        // Windows takes no colon in a UNC path.
        SocketAddr::V6(address) if address.ip().is_loopback() => "localhost".to_owned(),
        SocketAddr::V6(_) => host_name.to_owned(),
    }
}

/// `text` for a shell: as it is where that is safe, else in single quotes.
pub(crate) fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./$@%".contains(c);
    if !text.is_empty() && text.chars().all(|c| plain(c) && c != '$') {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hints(port: u16, share: &str) -> String {
        let share = Some((share.to_owned(), "local".to_owned()));
        Hints { host: "vm".to_owned(), port, share, channels: 1, data: " --data /d".to_owned() }.text()
    }

    #[test]
    fn several_connections_are_asked_for_where_they_may_be_and_else_how_to_have_them_is_said() {
        let share = Some(("share".to_owned(), "local".to_owned()));
        let several = Hints { host: "vm".to_owned(), port: 445, share, channels: 4, data: String::new() }.text();
        assert!(several.contains("-o vers=3.1.1,username=local,multichannel,max_channels=4\n"), "{several}");
        assert!(!several.contains("--multichannel on"), "{several}");
        assert!(hints(445, "share").contains("multilane account update local --multichannel on --data /d\n"));
    }

    #[test]
    fn usual_port_goes_unsaid() {
        let text = hints(445, "share");
        assert!(text.contains("net use Z: \\\\vm\\share * /user:local\n"), "{text}");
        assert!(text.contains("mount -t cifs //vm/share /mnt -o vers=3.1.1,username=local\n"), "{text}");
        assert!(text.contains("multilane account keys local --data /d\n"), "{text}");
        assert!(!text.contains("445"), "{text}");
    }

    #[test]
    fn another_port_is_in_every_line() {
        let text = hints(4450, "share");
        let lines = ["/tcpport:4450", "-TcpPort 4450", ",port=4450", "local@vm:4450/share", "-p 4450"];
        for line in lines {
            assert!(text.contains(line), "{line} in {text}");
        }
    }

    #[test]
    fn spaces_are_quoted() {
        let text = hints(445, "team files");
        for line in ["\"\\\\vm\\team files\"", "'//vm/team files'", "//local@vm/team%20files"] {
            assert!(text.contains(line), "{line} in {text}");
        }
        assert_eq!(quoted("it's"), "'it'\\''s'");
    }

    #[test]
    fn host_is_what_others_can_reach() {
        let cases = [
            ("0.0.0.0:445", "vm"),
            ("[::]:445", "vm"),
            ("192.0.2.1:1", "192.0.2.1"),
            ("[::1]:1", "localhost"),
            ("[2001:db8::1]:1", "vm"),
        ];
        for (address, name) in cases {
            assert_eq!(host(address.parse().unwrap(), "vm"), name);
        }
    }
}
