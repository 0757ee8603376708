//! A table in Markdown.

/// Where a column's text stands.
#[derive(Clone, Copy)]
pub(super) enum Align {
    Left,
    Right,
}

/// The table of these rows, each of which has a text for each column; empty where there are no rows.
pub(super) fn table(columns: &[(&str, Align)], rows: impl Iterator<Item = Vec<String>>) -> String {
    let rows: String = rows.map(|row| line(row.iter().map(String::as_str))).collect();
    if rows.is_empty() {
        return rows;
    }
    let rule = columns.iter().map(|(_, align)| match align {
        Align::Left => "---",
        Align::Right => "---:",
    });
    line(columns.iter().map(|(name, _)| *name)) + &line(rule) + &rows
}

/// A bar in a text would end its cell.
fn line<'a>(cells: impl Iterator<Item = &'a str>) -> String {
    let cells: Vec<String> = cells.map(|cell| cell.replace('|', "\\|")).collect();
    format!("| {} |\n", cells.join(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_a_bar_stays_in_its_cell() {
        let columns = [("name", Align::Left), ("count", Align::Right)];
        let text = table(&columns, [vec!["a|b".to_owned(), "1".to_owned()]].into_iter());
        assert_eq!(text, "| name | count |\n| --- | ---: |\n| a\\|b | 1 |\n");
    }

    #[test]
    fn a_table_without_rows_is_nothing() {
        assert_eq!(table(&[("name", Align::Left)], std::iter::empty()), "");
    }
}
