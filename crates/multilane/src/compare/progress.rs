//! A bar with the time left, for those who watch.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use load::compare::Watch;

const SHOWN: &str = "{wide_bar} {pos}/{len} {eta} left\n{msg}";
const REDRAW: Duration = Duration::from_millis(200);

/// How far the comparison is. Shows nothing where nobody watches.
pub(super) struct Bar(ProgressBar);

impl Bar {
    pub(super) fn new(is_watched: bool) -> Self {
        if !is_watched {
            return Bar(ProgressBar::hidden());
        }
        let bar = ProgressBar::no_length();
        if let Ok(style) = ProgressStyle::with_template(SHOWN) {
            bar.set_style(style);
        }
        bar.enable_steady_tick(REDRAW);
        Bar(bar)
    }

    /// Takes the bar away.
    pub(super) fn end(&self) {
        self.0.finish_and_clear();
    }
}

impl Watch for Bar {
    fn begins(&self, runs: usize) {
        self.0.set_length(runs as u64);
        self.0.set_position(0);
        self.0.reset_eta();
    }

    fn next(&self, what: &str) {
        // What was said last is done.
        if !self.0.message().is_empty() {
            self.0.inc(1);
        }
        self.0.set_message(what.to_owned());
    }

    fn note(&self, sentence: &str) {
        self.0.println(sentence);
    }
}
