//! `multilane why`: where the time of the last minute went. The serving process looks and judges; this prints it.

mod machine;
mod observer;

use std::fmt::Write;
use std::path::Path;

use control::{DataFolder, Error, Request, ask};
use insight::why::{Answer, Cause};

use crate::arguments::Why;
use crate::live::runs_nowhere;
use crate::output::Output;
use crate::table::printable;

pub(crate) use machine::shards_now;
pub(crate) use observer::Observer;

/// How the connection between the server's and the client's end is doing. `None` where the system does not tell.
pub(crate) fn path(local: &str, peer: &str) -> Option<insight::why::Path> {
    machine::path(local, peer).map(|(path, _)| path)
}

pub(crate) fn run(path: &Path, arguments: &Why, output: Output) -> Result<(), Error> {
    let folder = DataFolder::open(path)?;
    let request = Request::Why { about: arguments.about.clone() };
    let answer: Answer = ask(&folder, &request)?.ok_or_else(|| runs_nowhere(&folder))?;
    output.print(&answer, text)
}

fn text(answer: &Answer) -> String {
    let mut text = String::new();
    // It writes to memory.
    let mut line = |said: &str| _ = writeln!(text, "{}", printable(said));
    if answer.is_short {
        line(&format!(
            "The server has run for less than a minute: this is about the last {:.0} seconds.",
            answer.seconds
        ));
    }
    match (&answer.about, answer.causes.as_slice()) {
        (None, _) => line("Nothing was done on any share."),
        (Some(about), []) => {
            line(&format!(
                "Nothing makes {about} slow: {} requests in {:.0} seconds.",
                answer.requests, answer.seconds
            ));
        }
        (Some(about), causes) => {
            line(&format!("Where the time of {about} went, in the last {:.0} seconds:", answer.seconds));
            causes.iter().for_each(|cause| lines_of(cause, &mut line));
        }
    }
    text
}

fn lines_of(cause: &Cause, line: &mut impl FnMut(&str)) {
    line("");
    for (number, sentence) in cause.sentences.iter().enumerate() {
        let part = if number == 0 { format!("{:3.0} %", cause.share * 100.0) } else { "     ".to_owned() };
        line(&format!("{part}  {sentence}"));
    }
    line(&format!("       -> {}", cause.command));
}

#[cfg(test)]
mod tests {
    use insight::why::Kind;

    use super::*;

    fn answer(causes: Vec<Cause>) -> Answer {
        Answer { about: Some("the share media".to_owned()), seconds: 60.0, is_short: false, requests: 7, causes }
    }

    #[test]
    fn causes_are_sentences_with_what_mends_them() {
        let cause = Cause {
            kind: Kind::IopsLimit,
            share: 0.93,
            sentences: vec!["The share media is at its limit.".to_owned(), "Requests wait.".to_owned()],
            evidence: Default::default(),
            command: "multilane share update media --iops-max N".to_owned(),
        };
        let text = text(&answer(vec![cause]));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[2], " 93 %  The share media is at its limit.");
        assert_eq!(lines[3], "       Requests wait.");
        assert_eq!(lines[4], "       -> multilane share update media --iops-max N");
    }

    #[test]
    fn a_server_that_is_fast_has_no_cause() {
        assert_eq!(text(&answer(Vec::new())), "Nothing makes the share media slow: 7 requests in 60 seconds.\n");
        let nobody = Answer { about: None, is_short: true, seconds: 12.0, ..answer(Vec::new()) };
        let text = text(&nobody);
        assert!(text.contains("less than a minute") && text.ends_with("Nothing was done on any share.\n"), "{text}");
    }
}
