//! The calls of one conversation: which are under way, and which an answer may still come for.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use toolcrib_wire::{Body, Id};

use super::Hears;
use super::asks::Candidates;
use super::deadline::Clock;
use super::error::CallError;
use super::oddity::Odd;

/// How many calls that were given up are remembered, to tell late answers from second ones.
const REMEMBERED: usize = 1024;

pub(super) type Outcome = Result<Body, CallError>;

/// Calls by their ids, which count up from one.
#[derive(Debug, Default)]
pub(super) struct Calls {
    last: i64,
    under_way: BTreeMap<i64, Waiting>,
    given_up: VecDeque<GivenUp>,
}

/// One call under way.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) answer: oneshot::Sender<Outcome>,
    pub(super) clock: Arc<Clock>,
    pub(super) remarks: Option<Arc<dyn Hears>>,
    pub(super) is_alone: bool,
    pub(super) tag: Option<u64>,
    pub(super) acknowledged: Option<mpsc::Sender<()>>,
}

impl Waiting {
    /// As one of those that a question may belong to.
    pub(super) fn candidate(&self) -> (Option<u64>, Arc<Clock>) {
        (self.tag, Arc::clone(&self.clock))
    }
}

/// A call that nobody waits for any more.
#[derive(Debug)]
struct GivenUp {
    number: i64,
    /// Whether the server was told: `initialize` is never called off.
    is_told: bool,
}

impl Calls {
    pub(super) fn begin(&mut self) -> i64 {
        self.last += 1;
        self.last
    }

    pub(super) fn insert(&mut self, id: i64, waiting: Waiting) {
        self.under_way.insert(id, waiting);
    }

    pub(super) fn len(&self) -> usize {
        self.under_way.len()
    }

    /// The call that a message about `id` means; whether the id was written as text instead of a number.
    pub(super) fn meant(&self, id: &Id) -> Option<(i64, bool)> {
        let (number, as_text) = number(id)?;
        self.under_way.contains_key(&number).then_some((number, as_text))
    }

    /// The call under way that a progress token or a stream stands for.
    pub(super) fn get(&self, id: &Id) -> Option<&Waiting> {
        self.under_way.get(&self.meant(id)?.0)
    }

    /// Whether a request with this id was ever begun.
    pub(super) fn has_begun(&self, id: &Id) -> bool {
        number(id).is_some_and(|(number, _)| (1..=self.last).contains(&number))
    }

    /// Whom a remark is for that came on no call's stream: the first of those that have the session for themselves.
    pub(super) fn alone(&self) -> Option<&Waiting> {
        self.under_way.values().find(|it| it.is_alone && it.remarks.is_some())
    }

    /// Ends a call. The outcome is dropped where the caller has just gone.
    pub(super) fn settle(&mut self, number: i64, outcome: Outcome) -> bool {
        let Some(waiting) = self.under_way.remove(&number) else {
            return false;
        };
        // Remarks first: their reader sees the end before the caller goes on.
        drop(waiting.remarks);
        let _ = waiting.answer.send(outcome);
        true
    }

    /// Ends a call whose caller knows its outcome; true if it was under way.
    pub(super) fn found(&mut self, number: i64) -> bool {
        self.under_way.remove(&number).is_some()
    }

    /// Forgets a call that its caller no longer waits for; true if it was under way.
    pub(super) fn give_up(&mut self, number: i64, is_told: bool) -> bool {
        let was_under_way = self.under_way.remove(&number).is_some();
        if was_under_way {
            if self.given_up.len() == REMEMBERED {
                self.given_up.pop_front();
            }
            self.given_up.push_back(GivenUp { number, is_told });
        }
        was_under_way
    }

    /// What is odd about an answer to a call that is not under way; nothing where the server could not know.
    pub(super) fn stray(&mut self, id: &Id) -> Option<Odd> {
        let Some((number, _)) = number(id) else {
            return Some(Odd::UnknownId);
        };
        if let Some(place) = self.given_up.iter().position(|it| it.number == number) {
            let late = self.given_up.remove(place).is_some_and(|it| it.is_told);
            return late.then_some(Odd::Late);
        }
        Some(if (1..=self.last).contains(&number) { Odd::Duplicate } else { Odd::UnknownId })
    }

    /// All calls under way.
    pub(super) fn numbers(&mut self) -> Vec<i64> {
        self.under_way.keys().copied().collect()
    }

    /// The only call that an answer can be for, if there is only one.
    pub(super) fn only(&self) -> Option<i64> {
        let mut under_way = self.under_way.keys().copied();
        let first = under_way.next().filter(|_| self.given_up.is_empty())?;
        under_way.next().is_none().then_some(first)
    }

    pub(super) fn candidates(&self) -> Candidates {
        self.under_way.values().map(Waiting::candidate).collect()
    }
}

fn number(id: &Id) -> Option<(i64, bool)> {
    match id {
        Id::Number(number) => Some((*number, false)),
        Id::Text(text) => Some((text.parse().ok()?, true)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conn::peer::deadline::Patience;

    fn waiting() -> Waiting {
        Waiting {
            answer: oneshot::channel().0,
            clock: Clock::start(Patience::default()),
            remarks: None,
            is_alone: false,
            tag: None,
            acknowledged: None,
        }
    }

    #[tokio::test]
    async fn stray_answers_are_told_apart() {
        let mut calls = Calls::default();
        for _ in 0..3 {
            let id = calls.begin();
            calls.insert(id, waiting());
        }
        assert!(calls.settle(1, Err(CallError::EndedByServer)));
        assert!(calls.give_up(2, true));
        assert_eq!(calls.meant(&Id::from(3)), Some((3, false)));
        assert_eq!(calls.meant(&Id::from("3")), Some((3, true)));
        assert!(calls.has_begun(&Id::from(1)) && calls.has_begun(&Id::from("3")));
        assert!(!calls.has_begun(&Id::from(4)) && !calls.has_begun(&Id::from("x")));
        for (id, odd) in [
            (Id::from(1), Odd::Duplicate),
            (Id::from(2), Odd::Late),
            (Id::from(2), Odd::Duplicate),
            (Id::from(4), Odd::UnknownId),
            (Id::from(0), Odd::UnknownId),
            (Id::from("x"), Odd::UnknownId),
        ] {
            assert_eq!(calls.stray(&id), Some(odd), "{id}");
        }
        assert!(calls.give_up(3, false));
        assert_eq!(calls.stray(&Id::from(3)), None, "nobody told the server");
    }

    #[tokio::test]
    async fn what_is_remembered_is_bounded() {
        let mut calls = Calls::default();
        for _ in 0..REMEMBERED * 2 {
            let id = calls.begin();
            calls.insert(id, waiting());
            calls.give_up(id, true);
        }
        assert_eq!((calls.len(), calls.given_up.len()), (0, REMEMBERED));
    }
}
