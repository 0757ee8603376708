//! Changes under way and who comes behind them, compared with lists; and what many of both cost.

use std::collections::HashSet;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};

use proptest::prelude::*;
use store::{Identity, effort};
use wire::security::Sid;

use super::FileEntry;
use super::under_way::{Change, ChangeAtOnce, FREED_AT_ONCE, LOOKS_IN_A_STEP, LOOKS_MAX};
use crate::state::open_id::OpenId;

type Until = Pin<Box<dyn Future<Output = ()>>>;

const LOCKS: OpenId = OpenId(1);
const WRITES: OpenId = OpenId(2);

fn file() -> Arc<FileEntry> {
    Arc::new(FileEntry::new(Identity { volume: 1, file: 1 }))
}

fn changes(file: &Arc<FileEntry>, count: u64) -> Vec<Change> {
    (0..count).map(|at| file.begin_change(WRITES, at..at + 1)).collect()
}

fn followers(file: &Arc<FileEntry>, range: &Range<u64>, count: usize) -> Vec<Until> {
    let mut all: Vec<Until> = (0..count).map(|_| until_made(file, range.clone()).unwrap()).collect();
    assert!(all.iter_mut().all(|follower| !is_over(follower)));
    all
}

fn until_made(file: &Arc<FileEntry>, range: Range<u64>) -> Option<Until> {
    Some(Box::pin(file.come_behind(LOCKS, range)?.until_made()))
}

fn is_over(future: &mut Until) -> bool {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

/// How many are over, of which each has the next go on.
fn drive(followers: &mut Vec<Until>) -> usize {
    let before = followers.len();
    loop {
        let left = followers.len();
        followers.retain_mut(|follower| !is_over(follower));
        if followers.len() == left {
            return before - left;
        }
    }
}

#[test]
fn the_end_of_a_change_costs_no_more_where_many_wait_for_many() {
    let file = file();
    let changes = changes(&file, 2_000);
    let mut waiting = followers(&file, &(0..2_000), 2_000);
    for change in changes {
        let ((), steps) = effort::of(|| drop(change));
        assert!(steps <= FREED_AT_ONCE, "{steps} who wait were looked at");
    }
    let (over, steps) = effort::of(|| drive(&mut waiting));
    assert_eq!(over, 2_000);
    // Each is set free by the last change, and looks at some of those before it.
    assert!(steps <= 2_000 * (2 + LOOKS_MAX / LOOKS_IN_A_STEP), "{steps}");
    assert_eq!(file.under_way.waiting(), 0);
}

#[test]
fn who_waits_looks_at_so_many_changes_and_no_more() {
    let file = file();
    let mut changes = changes(&file, 10_000);
    let ((), steps) = effort::of(|| {
        let mut waiting = followers(&file, &(0..10_000), 1);
        while changes.pop().is_some() {
            assert_eq!(drive(&mut waiting), usize::from(changes.is_empty()));
        }
    });
    assert!(steps <= 2 * LOOKS_MAX, "{steps}");
}

#[test]
fn what_somebody_holds_who_waits_does_not_grow_with_the_changes() {
    let held = |count| {
        let file = file();
        let _changes = changes(&file, count);
        let mut waiting = Vec::new();
        let measured = allocation_counter::measure(|| waiting = followers(&file, &(0..count), 100));
        measured.bytes_current
    };
    assert_eq!(held(10), held(5_000));
}

#[test]
fn those_who_are_set_free_go_on_a_few_at_a_time() {
    let file = file();
    let change = file.begin_change(WRITES, 0..1);
    let mut waiting = followers(&file, &(0..1), 100);
    drop(change);
    let left = 100 - FREED_AT_ONCE;
    assert_eq!(file.under_way.waiting(), left);
    for more in 1..=20 {
        assert!(is_over(&mut waiting.remove(0)));
        assert_eq!(file.under_way.waiting(), left - more, "each has the next go on");
    }
    // Who was set free and is gone has the next go on as well.
    waiting.drain(..FREED_AT_ONCE);
    assert_eq!(file.under_way.waiting(), left - 20 - FREED_AT_ONCE);
    assert_eq!(drive(&mut waiting), 100 - 20 - FREED_AT_ONCE);
}

#[test]
fn who_waits_no_longer_leaves_nothing_behind() {
    let file = file();
    let _change = file.begin_change(WRITES, 0..1);
    drop(followers(&file, &(0..1), 100));
    assert_eq!(file.under_way.waiting(), 0);
}

#[test]
fn nobody_waits_for_what_was_begun_later() {
    let file = file();
    let mut change = file.begin_change(WRITES, 0..1);
    let mut waiting = followers(&file, &(0..1), 1);
    for _ in 0..3 {
        let _later = std::mem::replace(&mut change, file.begin_change(WRITES, 0..1));
    }
    assert_eq!(drive(&mut waiting), 1);
}

/// Changes and waits as lists: each who waits has all that it waits for.
#[derive(Default)]
struct Model {
    last: usize,
    begun: Vec<Begun>,
    /// Somebody has come behind those that are made at once.
    is_awaited: bool,
}

struct Begun {
    number: usize,
    /// `None` where it is made at once.
    open: Option<OpenId>,
    range: Range<u64>,
}

impl Model {
    fn begin(&mut self, open: Option<OpenId>, range: Range<u64>) -> usize {
        self.last += 1;
        self.begun.push(Begun { number: self.last, open, range });
        self.last
    }

    fn end(&mut self, number: usize) {
        self.begun.retain(|begun| begun.number != number);
        self.is_awaited &= self.begun.iter().any(|begun| begun.open.is_none());
    }

    fn those(&mut self, is_meant: impl Fn(&Begun) -> bool) -> HashSet<usize> {
        self.is_awaited |= self.begun.iter().any(|begun| begun.open.is_none());
        let is_meant = |begun: &&Begun| begun.open.is_none() || is_meant(begun);
        self.begun.iter().filter(is_meant).map(|begun| begun.number).collect()
    }

    fn overlapping(&mut self, open: OpenId, range: &Range<u64>) -> HashSet<usize> {
        self.those(|begun| begun.open != Some(open) && begun.range.start < range.end && range.start < begun.range.end)
    }

    fn is_under_way(&self, number: usize) -> bool {
        self.begun.iter().any(|begun| begun.number == number)
    }
}

/// Somebody who waits, with what for.
struct Waits {
    until: Until,
    left: HashSet<usize>,
    /// It looks at all that was begun before it.
    looks_at_all: bool,
    /// What had begun when it came.
    before: Vec<usize>,
}

#[derive(Clone, Debug)]
enum Step {
    Begin(OpenId, Range<u64>),
    End(prop::sample::Index),
    BeginAtOnce,
    EndAtOnce(prop::sample::Index),
    ComeBehind(OpenId, Range<u64>),
    GiveUp(prop::sample::Index),
    Close(OpenId),
}

fn range() -> impl Strategy<Value = Range<u64>> {
    prop_oneof![
        6 => (0u64..30, 0u64..5).prop_map(|(at, length)| at..at + length),
        1 => Just(0..u64::MAX),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let any_index = any::<prop::sample::Index>;
    let open = || (1u64..5).prop_map(OpenId);
    prop_oneof![
        8 => (open(), range()).prop_map(|(open, range)| Step::Begin(open, range)),
        7 => any_index().prop_map(Step::End),
        2 => Just(Step::BeginAtOnce),
        2 => any_index().prop_map(Step::EndAtOnce),
        5 => (open(), range()).prop_map(|(open, range)| Step::ComeBehind(open, range)),
        1 => any_index().prop_map(Step::GiveUp),
        1 => open().prop_map(Step::Close),
    ]
}

/// Both, side by side.
#[derive(Default)]
struct Both<'a> {
    model: Model,
    changes: Vec<(usize, Change)>,
    at_once: Vec<(usize, ChangeAtOnce<'a>)>,
    waiting: Vec<Waits>,
    closing: Vec<(OpenId, HashSet<usize>, Arc<AtomicBool>)>,
}

impl<'a> Both<'a> {
    fn apply(&mut self, file: &'a Arc<FileEntry>, step: &Step, looks_max: usize) {
        match step {
            Step::Begin(open, range) if !self.closing.iter().any(|(closed, ..)| closed == open) => {
                let number = self.model.begin(Some(*open), range.clone());
                self.changes.push((number, file.begin_change(*open, range.clone())));
            }
            Step::End(index) if !self.changes.is_empty() => {
                let (number, change) = self.changes.remove(index.index(self.changes.len()));
                self.model.end(number);
                drop(change);
            }
            Step::BeginAtOnce => {
                let change = file.begin_change_at_once();
                assert_eq!(change.is_none(), self.model.is_awaited);
                if let Some(change) = change {
                    self.at_once.push((self.model.begin(None, 0..u64::MAX), change));
                }
            }
            Step::EndAtOnce(index) if !self.at_once.is_empty() => {
                let (number, change) = self.at_once.remove(index.index(self.at_once.len()));
                self.model.end(number);
                drop(change);
            }
            Step::ComeBehind(open, range) => self.come_behind(file, *open, range, looks_max),
            Step::GiveUp(index) if !self.waiting.is_empty() => {
                drop(self.waiting.remove(index.index(self.waiting.len())));
            }
            Step::Close(open) if !self.closing.iter().any(|(closed, ..)| closed == open) => {
                let left = self.model.those(|begun| begun.open == Some(*open));
                let closed = Arc::new(AtomicBool::new(false));
                self.closing.push((*open, left, Arc::clone(&closed)));
                file.after_changes_of(
                    *open,
                    &Sid::SYSTEM,
                    Box::new(move || assert!(!closed.swap(true, Ordering::Relaxed))),
                );
            }
            Step::Begin(..) | Step::End(_) | Step::EndAtOnce(_) | Step::GiveUp(_) | Step::Close(_) => {}
        }
    }

    fn come_behind(&mut self, file: &Arc<FileEntry>, open: OpenId, range: &Range<u64>, looks_max: usize) {
        let left = self.model.overlapping(open, range);
        let before: Vec<_> = self.model.begun.iter().map(|begun| begun.number).collect();
        let looks_at_all = before.len() < looks_max;
        match file.come_behind_looking(open, range.clone(), looks_max) {
            None => assert!(left.is_empty()),
            Some(follower) => {
                assert!(!looks_at_all || !left.is_empty());
                let until = Box::pin(follower.until_made());
                self.waiting.push(Waits { until, left, looks_at_all, before });
            }
        }
    }

    /// Has all go on who can, and compares.
    fn compare(&mut self) {
        let mut over = Vec::new();
        loop {
            let before = over.len();
            for (index, waits) in self.waiting.iter_mut().enumerate() {
                if !over.contains(&index) && is_over(&mut waits.until) {
                    over.push(index);
                }
            }
            if over.len() == before {
                break;
            }
        }
        for (index, waits) in self.waiting.iter().enumerate() {
            let has_left = waits.left.iter().any(|number| self.model.is_under_way(*number));
            let all_have_ended = !waits.before.iter().any(|number| self.model.is_under_way(*number));
            let is_over = over.contains(&index);
            assert!(!(is_over && has_left), "it goes on before what it waits for is made");
            assert!(is_over || !all_have_ended, "it waits for what was begun later");
            assert!(is_over || has_left || !waits.looks_at_all, "it waits for what is not in its way");
        }
        over.sort_unstable();
        over.into_iter().rev().for_each(|index| drop(self.waiting.remove(index)));
        let model = &self.model;
        self.closing.retain(|(_, left, closed)| {
            let has_left = left.iter().any(|number| model.is_under_way(*number));
            assert_eq!(closed.load(Ordering::Relaxed), !has_left);
            has_left
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn who_comes_behind_changes_goes_on_as_with_lists(
        steps in prop::collection::vec(step(), 1..200),
        looks_max in prop_oneof![Just(0usize), 1usize..12, Just(LOOKS_MAX)],
    ) {
        let file = file();
        let mut both = Both::default();
        for step in &steps {
            both.apply(&file, step, looks_max);
            both.compare();
        }
        while let Some((number, change)) = both.changes.pop() {
            both.model.end(number);
            drop(change);
            both.compare();
        }
        while let Some((number, change)) = both.at_once.pop() {
            both.model.end(number);
            drop(change);
            both.compare();
        }
        prop_assert!(both.waiting.is_empty() && both.closing.is_empty());
        prop_assert_eq!(file.under_way.waiting(), 0);
        prop_assert!(file.under_way.is_idle());
    }
}
