//! Aligned columns for people.

use comfy_table::presets::NOTHING;
pub(crate) use insight::shown::printable;

/// A message of several lines as [`printable`] has each: a peer may have chosen words in it.
pub(crate) fn printable_lines(text: &str) -> String {
    text.split('\n').map(printable).collect::<Vec<_>>().join("\n")
}

/// Between two columns.
const GAP: u16 = 2;

/// A heading and rows of as many cells.
pub(crate) struct Table<const COLUMNS: usize>(comfy_table::Table);

impl<const COLUMNS: usize> Table<COLUMNS> {
    pub(crate) fn new(heading: [&str; COLUMNS]) -> Self {
        let mut table = comfy_table::Table::new();
        table.load_style(NOTHING).set_header(heading);
        table.column_iter_mut().for_each(|column| _ = column.set_padding((0, GAP)));
        Table(table)
    }

    /// Adds a row. What would move the cursor or colour the terminal is shown escaped: clients choose some of these texts.
    pub(crate) fn row(&mut self, cells: [String; COLUMNS]) {
        self.0.add_row(cells.map(|cell| if cell.is_empty() { "-".to_owned() } else { printable(&cell) }));
    }

    /// The whole table, each row a line, each column as wide as its widest cell.
    pub(crate) fn text(&self) -> String {
        self.0.trim_fmt() + "\n"
    }
}

/// Seconds as people say them: `45s`, `12m`, `3h05m`, `2d04h`.
pub(crate) fn span(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{minutes}m"),
        3600..86_400 => format!("{hours}h{:02}m", minutes % 60),
        86_400.. => format!("{days}d{:02}h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_and_lines_end_bare() {
        let mut table = Table::new(["NAME", "N"]);
        table.row(["a".to_owned(), "1".to_owned()]);
        table.row(["größer".to_owned(), String::new()]);
        table.row(["写真".to_owned(), "2".to_owned()]);
        assert_eq!(table.text(), "NAME    N\na       1\ngrößer  -\n写真    2\n");
    }

    #[test]
    fn terminal_escapes_from_clients_are_shown() {
        let mut table = Table::new(["NAME"]);
        table.row(["a\u{1b}[31m\u{9b}\u{202e}\u{feff}b".to_owned()]);
        assert_eq!(table.text(), "NAME\na\\u{1b}[31m\\u{9b}\\u{202e}\\u{feff}b\n");
    }

    #[test]
    fn spans_are_short() {
        let spans = [(0, "0s"), (59, "59s"), (60, "1m"), (3599, "59m"), (3900, "1h05m"), (90_000, "1d01h")];
        for (seconds, text) in spans {
            assert_eq!(span(seconds), text);
        }
    }
}
