//! Asks programs that may be installed: what they tell is more than the kernel shows in files.

use std::io::ErrorKind;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

/// How long one may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(3);

/// There is no such program on this machine.
#[derive(Debug)]
pub(crate) struct Missing;

/// What a program prints; `None` where it fails, or takes too long.
pub(crate) async fn ask(program: &str, arguments: &[&str]) -> Result<Option<String>, Missing> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    match timeout(ANSWER_MAX, command.output()).await {
        Ok(Ok(output)) if output.status.success() => Ok(Some(String::from_utf8_lossy(&output.stdout).into_owned())),
        Ok(Err(cause)) if cause.kind() == ErrorKind::NotFound => Err(Missing),
        Ok(Ok(_) | Err(_)) | Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_program_answers_fails_or_is_missing() {
        assert_eq!(ask("echo", &["yes"]).await.unwrap().unwrap(), "yes\n");
        assert!(ask("false", &[]).await.unwrap().is_none());
        assert!(ask("multilane-no-such-program", &[]).await.is_err());
    }
}
