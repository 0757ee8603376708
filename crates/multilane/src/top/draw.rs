//! How the view looks in a terminal.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line as TextLine;
use ratatui::widgets::{Block, Clear, Paragraph, Row, Table, TableState, Tabs};

use crate::table::printable;
use crate::top::columns::{Column, latency};
use crate::top::detail;
use crate::top::lists::{List, Lists};
use crate::top::view::{Over, View};

/// Width of the columns beside the name.
const NUMBER: u16 = 10;
const HELP: &str = "\
Tab, 1 to 6     another list
arrows, PgUp..  choose a line
Enter           look into it: by API, by response, where its time went
s, S            sort by the next column, the one before
r               the other way round
p               pause
c               close the chosen session
q               quit

Latencies are of requests that read, write or ask for metadata. THROTTLED is the
part of the time in the server that requests waited for a limit. Files are those
that are open, and their figures estimates from samples of READs and WRITEs.";

/// Draws all of it.
pub(super) fn draw(frame: &mut Frame<'_>, view: &View) {
    let rows =
        Layout::vertical([Constraint::Length(2), Constraint::Length(1), Constraint::Min(3), Constraint::Length(1)]);
    let [top, tabs, list, bottom] = rows.areas(frame.area());
    frame.render_widget(Paragraph::new(summary(view)), top);
    let names = List::ALL.map(|list| format!("{} {}", list as usize + 1, list.heading()));
    let chosen = Style::new().add_modifier(Modifier::REVERSED);
    frame.render_widget(Tabs::new(names).select(view.list as usize).highlight_style(chosen), tabs);
    match &view.over {
        Over::Detail(name, scrolled) => draw_detail(frame, list, view, name, *scrolled),
        _ => draw_list(frame, list, view),
    }
    let keys = "Tab list  Enter look into  s sort  r reverse  p pause  c close session  ? help  q quit";
    let told = view.failure.as_deref().or(view.message.as_deref());
    frame.render_widget(Paragraph::new(told.map_or(keys.to_owned(), printable)), bottom);
    match &view.over {
        Over::Help => pop_up(frame, "Keys", HELP),
        Over::Question(_, name) => {
            let question =
                format!("End session {} with all its channels?\n\ny ends it, any other key does not.", printable(name));
            pop_up(frame, "Close", &question);
        }
        Over::Nothing | Over::Detail(..) => {}
    }
}

fn summary(view: &View) -> Vec<TextLine<'static>> {
    let Some(Lists { server, events, passed, .. }) = &view.lists else {
        return vec![TextLine::from("multilane top: waits for the first numbers")];
    };
    let figures = &server.figures;
    let time = |time: Option<_>| time.map_or_else(|| "-".to_owned(), latency);
    let paused = if view.is_paused { "  PAUSED" } else { "" };
    vec![
        TextLine::from(format!(
            "{:.0} IOPS  in {:.1} MiB/s  out {:.1} MiB/s  p50 {}  p99 {}  errors {}{paused}",
            figures.iops,
            figures.written_mib_s,
            figures.read_mib_s,
            time(figures.p50),
            time(figures.p99),
            figures.errors,
        )),
        TextLine::from(format!(
            "in {:.1} s: {} sign-ins, {} refused, {} breaks, {} channels bound, {} lost",
            passed.as_secs_f64(),
            events.sign_ins,
            events.sign_ins_refused,
            events.breaks,
            events.channels_bound,
            events.channels_lost,
        )),
    ]
}

fn draw_list(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let lines = view.lines();
    let heading = Row::new(Column::ALL.map(|column| {
        let mark = match (column == view.column, view.is_reversed) {
            (false, _) => "",
            (true, false) => " v",
            (true, true) => " ^",
        };
        cell(column, column.heading(view.list.heading()).to_owned() + mark)
    }));
    let rows = lines.iter().map(|line| Row::new(Column::ALL.map(|column| cell(column, printable(&column.cell(line))))));
    let widths = Column::ALL.map(|column| match column {
        Column::Name => Constraint::Min(NUMBER),
        Column::Throttled => Constraint::Length(NUMBER + 1),
        _ => Constraint::Length(NUMBER),
    });
    let table = Table::new(rows, widths)
        .header(heading.style(Style::new().add_modifier(Modifier::BOLD)))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut state = TableState::new().with_selected(view.position(&lines));
    frame.render_stateful_widget(table, area, &mut state);
}

/// Names begin on the left, numbers end on the right.
fn cell(column: Column, text: String) -> TextLine<'static> {
    let alignment = if column == Column::Name { Alignment::Left } else { Alignment::Right };
    TextLine::from(text).alignment(alignment)
}

fn draw_detail(frame: &mut Frame<'_>, area: Rect, view: &View, name: &str, scrolled: u16) {
    let (line, lists) = (view.line(name), view.lists.as_ref());
    let text = line.zip(lists).map(|(line, lists)| match view.list {
        List::Files => "Of a file no more is known than its line, which is estimated from samples.\n".to_owned(),
        _ => detail::text(line, lists.passed),
    });
    let text = text.unwrap_or_else(|| "It is not there any more.\n".to_owned());
    let title = format!(" {} {} (Esc goes back) ", view.list.heading(), printable(name));
    frame.render_widget(Paragraph::new(text).scroll((scrolled, 0)).block(Block::bordered().title(title)), area);
}

/// A box in the middle.
fn pop_up(frame: &mut Frame<'_>, title: &str, text: &str) {
    let (width, height) = (text.lines().map(|line| line.chars().count()).max().unwrap_or(0), text.lines().count());
    let [area] = Layout::vertical([Constraint::Length(height as u16 + 2)])
        .flex(ratatui::layout::Flex::Center)
        .areas(frame.area());
    let [area] =
        Layout::horizontal([Constraint::Length(width as u16 + 4)]).flex(ratatui::layout::Flex::Center).areas(area);
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(text.to_owned()).block(Block::bordered().title(title.to_owned())), area);
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use insight::Change;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
    use server::admin::{Authentication, CountersRow, Counts, Scope};

    use super::*;

    /// What a terminal of this size shows.
    pub(in crate::top) fn screen(view: &View, (width, height): (u16, u16)) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, view)).unwrap();
        let buffer = terminal.backend().buffer();
        let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned() + "\n";
        (0..height).map(line).collect()
    }

    fn view(names: &[(&str, u64)]) -> View {
        let row = |(name, requests): &(&str, u64)| CountersRow {
            scope: Scope::Share { name: Some((*name).to_owned()), authentication: Authentication::Ntlm },
            counts: Counts::from_parts(vec![(88, *requests)], vec![(0xC000_0022, 3)]).unwrap(),
        };
        let rows = names.iter().map(row).collect();
        let mut view = View::new();
        view.take(Lists::of(&Change { passed: Duration::from_secs(1), events: Default::default(), rows }));
        view
    }

    #[test]
    fn a_list_shows_names_and_figures_and_how_it_is_sorted() {
        let shown = screen(&view(&[("idle", 1), ("busy", 1234)]), (100, 10));
        let lines: Vec<&str> = shown.lines().collect();
        assert!(lines[3].starts_with("SHARE") && lines[3].contains("IOPS v"), "{shown}");
        assert!(lines[4].starts_with("busy") && lines[4].contains("1234"), "{shown}");
        assert!(lines[5].starts_with("idle"), "{shown}");
        assert!(lines[9].contains("q quit"), "{shown}");
    }

    #[test]
    fn a_line_in_detail_tells_responses_and_errors() {
        let mut view = view(&[("busy", 5)]);
        view.key(KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE));
        let shown = screen(&view, (100, 40));
        for text in ["SHARE busy", "RESPONSE", "Success", "STATUS_ACCESS_DENIED", "the server's own work"] {
            assert!(shown.contains(text), "{text}: {shown}");
        }
    }

    #[test]
    fn names_from_clients_move_no_cursor_and_small_terminals_are_drawn() {
        let hostile = view(&[("a\u{1b}[2J\u{202e}", 1)]);
        let shown = screen(&hostile, (100, 10));
        assert!(!shown.contains('\u{1b}') && shown.contains("\\u{1b}[2J\\u{202e}"), "{shown}");
        let mut views = [View::new(), hostile, view(&[])];
        for code in [KeyCode::Char('?'), KeyCode::Enter, KeyCode::Esc] {
            for view in &mut views {
                view.key(KeyEvent::new(code, KeyModifiers::NONE));
                for size in [(1, 1), (5, 3), (20, 4), (200, 60)] {
                    screen(view, size);
                }
            }
        }
    }
}
