//! What a terminal shows of the lists, and what keys change about that. Knows no terminal.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::top::columns::Column;
use crate::top::lists::{Line, List, Lists};

/// Lines that a page moves.
const PAGE: usize = 10;

/// What a key asks for beyond the view itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Nothing,
    /// End the program.
    Quit,
    /// End the session of this number.
    Close(u64),
}

/// What covers the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Over {
    /// Nothing does.
    Nothing,
    /// The line of this name in detail, scrolled down by some lines.
    Detail(String, u16),
    /// The question whether the session of this number, which has this name, is to end.
    Question(u64, String),
    Help,
}

/// The state of the view.
#[derive(Debug)]
pub(super) struct View {
    pub(super) list: List,
    pub(super) column: Column,
    pub(super) is_reversed: bool,
    pub(super) is_paused: bool,
    pub(super) over: Over,
    /// The name of the line that is chosen: it stays chosen wherever it moves to.
    pub(super) chosen: Option<String>,
    /// The last of what came in, while it is not paused.
    pub(super) lists: Option<Lists>,
    /// What has gone wrong, or was done, until the next key.
    pub(super) message: Option<String>,
    /// Why the last look has got nothing, until one does.
    pub(super) failure: Option<String>,
}

impl View {
    pub(super) fn new() -> Self {
        View {
            list: List::Shares,
            column: Column::Iops,
            is_reversed: false,
            is_paused: false,
            over: Over::Nothing,
            chosen: None,
            lists: None,
            message: None,
            failure: None,
        }
    }

    /// There are new numbers.
    pub(super) fn take(&mut self, lists: Lists) {
        if !self.is_paused {
            self.lists = Some(lists);
        }
    }

    /// The lines in their order.
    pub(super) fn lines(&self) -> Vec<&Line> {
        let mut lines: Vec<&Line> = self.lists.iter().flat_map(|lists| lists.list(self.list)).collect();
        lines.sort_by(|a, b| self.column.order(a, b));
        if self.is_reversed {
            lines.reverse();
        }
        lines
    }

    /// The place of the chosen line; the first where none is chosen or the chosen one is gone.
    pub(super) fn position(&self, lines: &[&Line]) -> Option<usize> {
        let chosen = lines.iter().position(|line| Some(&line.name) == self.chosen.as_ref());
        chosen.or((!lines.is_empty()).then_some(0))
    }

    /// The line of a name, or the server's where it has gone.
    pub(super) fn line(&self, name: &str) -> Option<&Line> {
        self.lists.iter().flat_map(|lists| lists.list(self.list)).find(|line| line.name == name)
    }

    fn chosen_line(&self) -> Option<&Line> {
        let lines = self.lines();
        self.position(&lines).map(|position| lines[position])
    }

    /// A key was pressed.
    pub(super) fn key(&mut self, key: KeyEvent) -> Wish {
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return Wish::Quit;
        }
        match std::mem::replace(&mut self.over, Over::Nothing) {
            Over::Nothing => self.key_on_list(key.code),
            Over::Detail(name, scrolled) => self.key_on_detail(name, scrolled, key.code),
            Over::Question(session, _) => match key.code {
                KeyCode::Char('y' | 'Y') => Wish::Close(session),
                _ => Wish::Nothing,
            },
            Over::Help => Wish::Nothing,
        }
    }

    fn key_on_detail(&mut self, name: String, scrolled: u16, code: KeyCode) -> Wish {
        let scrolled = match code {
            KeyCode::Up => scrolled.saturating_sub(1),
            KeyCode::Down => scrolled.saturating_add(1),
            KeyCode::Char('q') => return Wish::Quit,
            KeyCode::Char('p' | ' ') => {
                self.is_paused = !self.is_paused;
                scrolled
            }
            KeyCode::Esc | KeyCode::Enter | KeyCode::Backspace => return Wish::Nothing,
            _ => scrolled,
        };
        self.over = Over::Detail(name, scrolled);
        Wish::Nothing
    }

    fn key_on_list(&mut self, code: KeyCode) -> Wish {
        self.message = None;
        match code {
            KeyCode::Char('q') => return Wish::Quit,
            KeyCode::Tab | KeyCode::Right => self.turn_to(1),
            KeyCode::BackTab | KeyCode::Left => self.turn_to(List::ALL.len() - 1),
            KeyCode::Char(digit @ '1'..='9') => {
                if let Some(list) = List::ALL.get(digit as usize - '1' as usize) {
                    (self.list, self.chosen) = (*list, None);
                }
            }
            KeyCode::Char('s') => self.sort_by(1),
            KeyCode::Char('S') => self.sort_by(Column::ALL.len() - 1),
            KeyCode::Char('r') => self.is_reversed = !self.is_reversed,
            KeyCode::Char('p' | ' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('?' | 'h') => self.over = Over::Help,
            KeyCode::Up => self.choose(|position, _| position.saturating_sub(1)),
            KeyCode::Down => self.choose(|position, last| (position + 1).min(last)),
            KeyCode::PageUp => self.choose(|position, _| position.saturating_sub(PAGE)),
            KeyCode::PageDown => self.choose(|position, last| (position + PAGE).min(last)),
            KeyCode::Home => self.choose(|_, _| 0),
            KeyCode::End => self.choose(|_, last| last),
            KeyCode::Enter => {
                self.over = self.chosen_line().map_or(Over::Nothing, |line| Over::Detail(line.name.clone(), 0));
            }
            KeyCode::Char('c' | 'k') => match self.chosen_line().map(|line| (line.session, line.name.clone())) {
                Some((Some(session), name)) => self.over = Over::Question(session, name),
                _ => {
                    self.message =
                        Some("Choose a session or a channel first: it is sessions that can be closed.".to_owned())
                }
            },
            _ => {}
        }
        Wish::Nothing
    }

    fn turn_to(&mut self, lists_on: usize) {
        let next = (self.list as usize + lists_on) % List::ALL.len();
        (self.list, self.chosen) = (List::ALL[next], None);
    }

    fn sort_by(&mut self, columns_on: usize) {
        self.column = Column::ALL[(self.column as usize + columns_on) % Column::ALL.len()];
    }

    /// Chooses another line: `to` says which, of the place now and the last one.
    fn choose(&mut self, to: impl Fn(usize, usize) -> usize) {
        let lines = self.lines();
        let Some(position) = self.position(&lines) else { return };
        let chosen = lines[to(position, lines.len() - 1)].name.clone();
        self.chosen = Some(chosen);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use insight::Change;
    use server::admin::{CountersRow, Counts, Scope};

    use super::*;

    fn lists(sessions: &[(u64, u64)]) -> Lists {
        let row = |(id, requests): &(u64, u64)| CountersRow {
            scope: Scope::Session { id: *id, user: "u".to_owned(), account: "a".to_owned() },
            counts: Counts::from_parts(vec![(0, *requests)], Vec::new()).unwrap(),
        };
        let rows = sessions.iter().map(row).collect();
        Lists::of(&Change { passed: Duration::from_secs(1), events: Default::default(), rows })
    }

    fn press(view: &mut View, code: KeyCode) -> Wish {
        view.key(KeyEvent::new(code, KeyModifiers::NONE))
    }

    fn names(view: &View) -> Vec<String> {
        view.lines().iter().map(|line| line.name.clone()).collect()
    }

    #[test]
    fn a_line_stays_chosen_wherever_it_moves() {
        let mut view = View::new();
        press(&mut view, KeyCode::Char('4'));
        view.take(lists(&[(1, 10), (2, 5)]));
        press(&mut view, KeyCode::Down);
        assert_eq!(view.chosen.as_deref(), Some("2 u"));
        view.take(lists(&[(1, 10), (2, 50), (3, 20)]));
        assert_eq!(names(&view), ["2 u", "3 u", "1 u"]);
        assert_eq!(view.position(&view.lines()), Some(0));
        press(&mut view, KeyCode::Char('r'));
        assert_eq!((names(&view)[0].as_str(), view.position(&view.lines())), ("1 u", Some(2)));
        view.take(lists(&[(1, 10)]));
        assert_eq!(view.position(&view.lines()), Some(0));
    }

    #[test]
    fn a_session_is_closed_after_a_question() {
        let mut view = View::new();
        view.take(lists(&[(7, 1)]));
        assert_eq!(press(&mut view, KeyCode::Char('c')), Wish::Nothing);
        assert!(view.message.is_some());
        press(&mut view, KeyCode::Char('4'));
        for (answer, wish) in [('n', Wish::Nothing), ('y', Wish::Close(7))] {
            press(&mut view, KeyCode::Char('c'));
            assert_eq!(view.over, Over::Question(7, "7 u".to_owned()));
            assert_eq!(press(&mut view, KeyCode::Char(answer)), wish);
            assert_eq!(view.over, Over::Nothing);
        }
    }

    #[test]
    fn nothing_moves_while_it_is_paused() {
        let mut view = View::new();
        press(&mut view, KeyCode::Char('4'));
        view.take(lists(&[(1, 1)]));
        press(&mut view, KeyCode::Char('p'));
        view.take(lists(&[(2, 1)]));
        assert_eq!(names(&view), ["1 u"]);
        press(&mut view, KeyCode::Char('p'));
        view.take(lists(&[(2, 1)]));
        assert_eq!(names(&view), ["2 u"]);
    }

    #[test]
    fn lists_and_columns_come_round() {
        let mut view = View::new();
        press(&mut view, KeyCode::Left);
        assert_eq!(view.list, List::Files);
        press(&mut view, KeyCode::Tab);
        assert_eq!(view.list, List::Shares);
        for _ in Column::ALL {
            press(&mut view, KeyCode::Char('s'));
        }
        assert_eq!(view.column, Column::Iops);
        press(&mut view, KeyCode::Char('S'));
        assert_eq!(view.column, Column::Name);
    }

    #[test]
    fn an_empty_list_takes_every_key() {
        let mut view = View::new();
        let keys = "123456789sSrp?hck ".chars().map(KeyCode::Char);
        let more = [KeyCode::Up, KeyCode::Down, KeyCode::PageDown, KeyCode::End, KeyCode::Enter, KeyCode::Esc];
        for code in keys.chain(more) {
            assert_eq!(press(&mut view, code), Wish::Nothing, "{code:?}");
        }
        assert_eq!(press(&mut view, KeyCode::Char('q')), Wish::Quit);
    }
}
