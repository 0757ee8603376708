//! A bar for those who watch.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::table::printable_lines;

const SHOWN: &str = "{wide_bar} {bytes}/{total_bytes} {binary_bytes_per_sec} {eta} {msg}";
const REDRAW: Duration = Duration::from_millis(200);

/// How far a copy is.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    bytes: AtomicU64,
}

impl Progress {
    /// Of a copy of so many bytes, shown where somebody watches.
    pub(crate) fn new(total_bytes: u64, is_watched: bool) -> Self {
        let bar = is_watched.then(|| {
            let bar = ProgressBar::new(total_bytes);
            if let Ok(style) = ProgressStyle::with_template(SHOWN) {
                bar.set_style(style);
            }
            bar.enable_steady_tick(REDRAW);
            bar
        });
        Progress { bar, bytes: AtomicU64::new(0) }
    }

    /// So many bytes more are where they should be.
    pub(crate) fn add(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if let Some(bar) = &self.bar {
            bar.inc(bytes);
        }
    }

    /// So many bytes need not be copied.
    pub(crate) fn pass_over(&self, bytes: u64) {
        if let Some(bar) = &self.bar {
            bar.inc(bytes);
        }
    }

    /// Says something without breaking the bar.
    pub(crate) fn say(&self, text: &str) {
        let text = printable_lines(text);
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("{text}")),
            None => eprintln!("{text}"),
        }
    }

    /// Bytes copied.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Takes the bar away.
    pub(crate) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
