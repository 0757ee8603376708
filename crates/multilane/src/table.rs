//! Aligned columns for people.

/// A heading and rows of as many cells.
pub(crate) struct Table<const COLUMNS: usize> {
    rows: Vec<[String; COLUMNS]>,
}

impl<const COLUMNS: usize> Table<COLUMNS> {
    pub(crate) fn new(heading: [&str; COLUMNS]) -> Self {
        Table { rows: vec![heading.map(str::to_owned)] }
    }

    /// Adds a row. What would move the cursor or colour the terminal is shown escaped: clients choose some of these texts.
    pub(crate) fn row(&mut self, cells: [String; COLUMNS]) {
        self.rows.push(cells.map(|cell| if cell.is_empty() { "-".to_owned() } else { printable(&cell) }));
    }

    /// The whole table, each row a line, each column as wide as its widest cell.
    pub(crate) fn text(&self) -> String {
        let width = |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: [usize; COLUMNS] = std::array::from_fn(width);
        let mut text = String::new();
        for row in &self.rows {
            let cells: Vec<String> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
            text.push_str(cells.join("  ").trim_end());
            text.push('\n');
        }
        text
    }
}

/// `text` with control and bidirectional formatting characters escaped.
pub(crate) fn printable(text: &str) -> String {
    let formats = |c: char| matches!(c, '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let shown = |c: char| if c.is_control() || formats(c) { c.escape_unicode().to_string() } else { c.to_string() };
    text.chars().map(shown).collect()
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
        assert_eq!(table.text(), "NAME    N\na       1\ngrößer  -\n");
    }

    #[test]
    fn terminal_escapes_from_clients_are_shown() {
        assert_eq!(printable("a\u{1b}[31m\u{9b}\u{202e}b"), "a\\u{1b}[31m\\u{9b}\\u{202e}b");
    }

    #[test]
    fn spans_are_short() {
        let spans = [(0, "0s"), (59, "59s"), (60, "1m"), (3599, "59m"), (3900, "1h05m"), (90_000, "1d01h")];
        for (seconds, text) in spans {
            assert_eq!(span(seconds), text);
        }
    }
}
