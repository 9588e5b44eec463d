//! The open questions of one dialog: which calls may have caused each, which call carries it to its client, and when it
//! ends.
//!
//! A question ends when the server's request ends, when it is answered, or when every call that may have caused it was
//! given up. A call that ended with a result does not end a question: a server may ask in the background.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{oneshot, watch};
use toolcrib_upstream::conn::peer::CallOff;
use toolcrib_wire::{Raw, RpcError};

use super::answers::Answers;
use super::dialog::Inner;

/// Questions that may be open in one dialog.
const MAX_OPEN: usize = 32;

/// A question of a server that waits for its answer.
#[derive(Clone, Debug)]
pub struct Question {
    pub id: u64,
    /// The call that caused it; `None` where several may have.
    pub call: Option<u64>,
    /// The open calls that may have caused it.
    pub calls: Vec<u64>,
    /// The one of them whose client is asked, where a call has a client of its own.
    pub carrier: Option<u64>,
    /// The server's id.
    pub server: Arc<str>,
    /// `elicitation/create`, `sampling/createMessage` or `roots/list`.
    pub method: String,
    pub params: Raw,
    /// What its server says if it calls it off.
    pub call_off: CallOff,
}

pub(super) type Answer = Result<Raw, RpcError>;

/// The questions of one dialog.
#[derive(Debug, Default)]
pub(super) struct Questions {
    open: Mutex<Open>,
    /// The number of the newest question; also sent when a question ends or changes its carrier.
    changed: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Open {
    last: u64,
    waiting: BTreeMap<u64, Waiting>,
    /// The calls under way.
    calls: BTreeMap<u64, OpenCall>,
    /// Calls that nobody attends to now.
    away: BTreeSet<u64>,
}

#[derive(Debug)]
struct Waiting {
    question: Question,
    reply: oneshot::Sender<Answer>,
    /// Whether a call that may have caused it ended with a result.
    may_outlive_calls: bool,
}

#[derive(Debug)]
struct OpenCall {
    /// Requests to servers that are part of it.
    requests: usize,
    /// What can be asked in it; what the dialog says where it says nothing itself.
    answers: Option<Answers>,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallEnd {
    /// The server answered it.
    Answered,
    /// The server was told that nobody waits for it any more.
    GivenUp,
}

/// Why a question cannot be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AddError {
    TooMany,
    /// The call that caused it was given up.
    CallEnded,
}

/// While it lives, nobody attends to a call: what can be asked for another one is not asked for this.
#[derive(Debug)]
pub struct Away {
    dialog: Arc<Inner>,
    call: u64,
}

impl Away {
    pub(super) fn new(dialog: &Arc<Inner>, call: u64) -> Self {
        dialog.questions.open().away.insert(call);
        Away { dialog: Arc::clone(dialog), call }
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        self.dialog.questions.open().away.remove(&self.call);
    }
}

impl Questions {
    pub(super) fn waiting(&self) -> Vec<Question> {
        self.open().waiting.values().map(|it| it.question.clone()).collect()
    }

    /// Whether this question still waits for its answer.
    pub(super) fn is_open(&self, id: u64) -> bool {
        self.open().waiting.contains_key(&id)
    }

    /// Delivers an answer to the server's request. False if there is no such question, or its request has ended.
    pub(super) fn answer(&self, id: u64, answer: Answer) -> bool {
        let waiting = self.open().waiting.remove(&id);
        waiting.is_some_and(|it| it.reply.send(answer).is_ok())
    }

    /// The call among `calls` that most likely caused a question, and what can be asked in it. Calls that somebody
    /// attends to and that wait for no other answer come first, then newer ones; among equals one that can be asked.
    pub(super) fn likeliest(
        &self,
        calls: &[u64],
        default: Answers,
        can_ask: impl Fn(Answers) -> bool,
    ) -> Option<(u64, Answers)> {
        self.open().likeliest(calls, default, can_ask)
    }

    /// Nobody is left who could answer.
    pub(super) fn close(&self) {
        drop(std::mem::take(&mut self.open().waiting));
    }

    /// Opens a question under a number of its own.
    pub(super) fn add(
        &self,
        mut question: Question,
    ) -> Result<(Question, oneshot::Receiver<Answer>), AddError> {
        let mut open = self.open();
        if open.waiting.len() >= MAX_OPEN {
            return Err(AddError::TooMany);
        }
        // A call may have ended since the server's request was read.
        question.calls.retain(|call| open.calls.contains_key(call));
        if question.call.is_some() && question.calls.is_empty() {
            return Err(AddError::CallEnded);
        }
        if question.carrier.is_none_or(|call| !question.calls.contains(&call)) {
            question.carrier = question.calls.last().copied();
        }
        open.last += 1;
        question.id = open.last;
        let (reply, answer) = oneshot::channel();
        let waiting = Waiting { question: question.clone(), reply, may_outlive_calls: false };
        open.waiting.insert(question.id, waiting);
        self.changed.send_replace(question.id);
        Ok((question, answer))
    }

    /// The server's request has ended: its question is not shown to anybody any more.
    pub(super) fn remove(&self, id: u64) {
        self.open().waiting.remove(&id);
        self.changed.send_modify(|_| ());
    }

    pub(super) fn open_call(&self, call: u64, answers: Option<Answers>) {
        let mut open = self.open();
        let known = open.calls.entry(call).or_insert(OpenCall { requests: 0, answers });
        known.requests += 1;
    }

    /// Ends the questions that only calls that were given up can have caused; the others get another carrier.
    pub(super) fn close_call(&self, call: u64, end: CallEnd, default: Answers) {
        let mut open = self.open();
        let Some(known) = open.calls.get_mut(&call) else { return };
        known.requests -= 1;
        if known.requests > 0 {
            return;
        }
        open.calls.remove(&call);
        // Nearly always no question is open.
        if open.waiting.is_empty() {
            return;
        }
        let ended = open.let_go(call, end, default);
        drop(open);
        self.changed.send_modify(|_| ());
        for waiting in ended {
            // The server's request may have ended just now.
            let _ =
                waiting.reply.send(Err(RpcError::internal("the call that asks this was given up")));
        }
    }

    /// The client of this call cannot be asked: another call carries the question. False where there is none.
    pub(super) fn pass_over(&self, id: u64, call: u64, default: Answers) -> bool {
        let mut open = self.open();
        let Some(waiting) = open.waiting.get(&id) else { return true };
        let question = waiting.question.clone();
        let others: Vec<u64> = question.calls.iter().copied().filter(|it| *it != call).collect();
        let carrier = open.able(&others, &question, default);
        if let (Some(waiting), Some(_)) = (open.waiting.get_mut(&id), carrier) {
            waiting.question.carrier = carrier;
        }
        drop(open);
        self.changed.send_modify(|_| ());
        carrier.is_some()
    }

    /// Sees a change whenever a question begins, ends or changes its carrier.
    pub(super) fn watch(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn likeliest(
        &self,
        calls: &[u64],
        default: Answers,
        can_ask: impl Fn(Answers) -> bool,
    ) -> Option<(u64, Answers)> {
        let answers = |call: u64| self.calls.get(&call)?.answers;
        let answers = |call: u64| answers(call).unwrap_or(default);
        let is_asked =
            |call: u64| self.waiting.values().any(|it| it.question.carrier == Some(call));
        let rank = |call: u64| match (self.away.contains(&call), is_asked(call)) {
            (false, false) => 0,
            (false, true) => 1,
            (true, _) => 2,
        };
        let best = calls.iter().map(|call| rank(*call)).min()?;
        let mut equals: Vec<u64> = calls.iter().copied().filter(|it| rank(*it) == best).collect();
        equals.sort_unstable_by(|one, other| other.cmp(one));
        let able = equals.iter().find(|call| can_ask(answers(**call)));
        let call = *able.or(equals.first())?;
        Some((call, answers(call)))
    }

    /// The likeliest of these calls whose client can be asked this.
    fn able(&self, calls: &[u64], question: &Question, default: Answers) -> Option<u64> {
        let can_ask =
            |answers: Answers| answers.refusal(&question.method, question.params.json()).is_none();
        let of = |call: &u64| self.calls.get(call).and_then(|it| it.answers).unwrap_or(default);
        let able: Vec<u64> = calls.iter().copied().filter(|call| can_ask(of(call))).collect();
        self.likeliest(&able, default, can_ask).map(|(call, _)| call)
    }

    /// Takes a call out of all questions; those that end with it.
    fn let_go(&mut self, call: u64, end: CallEnd, default: Answers) -> Vec<Waiting> {
        let mut ended = Vec::new();
        let concerned = self.waiting.values().filter(|it| it.question.calls.contains(&call));
        let concerned: Vec<u64> = concerned.map(|it| it.question.id).collect();
        for id in concerned {
            let Some(mut waiting) = self.waiting.remove(&id) else { continue };
            let question = &mut waiting.question;
            question.calls.retain(|it| *it != call);
            waiting.may_outlive_calls |= end == CallEnd::Answered;
            if question.carrier == Some(call) {
                question.carrier = self.able(&question.calls, question, default);
            }
            match question.carrier.is_some() || waiting.may_outlive_calls {
                true => drop(self.waiting.insert(id, waiting)),
                false => ended.push(waiting),
            }
        }
        ended
    }
}

#[cfg(test)]
mod tests {
    use toolcrib_wire::{ObjectWriter, method};

    use super::*;

    const PERSON: Answers = Answers::PERSON_AND_MODEL;

    fn question(call: Option<u64>, calls: &[u64], carrier: u64) -> Question {
        Question {
            id: 0,
            call,
            calls: calls.to_vec(),
            carrier: Some(carrier),
            server: "server".into(),
            method: method::ELICIT.to_owned(),
            params: ObjectWriter::new().finish(),
            call_off: CallOff::default(),
        }
    }

    fn of(calls: &[(u64, Option<Answers>)]) -> Questions {
        let questions = Questions::default();
        calls.iter().for_each(|(call, answers)| questions.open_call(*call, *answers));
        questions
    }

    fn carrier(questions: &Questions, id: u64) -> Option<Option<u64>> {
        questions.open().waiting.get(&id).map(|it| it.question.carrier)
    }

    #[test]
    fn dis_41_the_newest_attended_call_without_a_question_carries_the_next_question() {
        let questions = of(&[(1, None), (2, None), (3, None)]);
        let likeliest = |calls: &[u64]| {
            let found = questions.likeliest(calls, PERSON, |answers| answers.elicitation);
            found.map(|(call, _)| call)
        };
        assert_eq!(likeliest(&[1, 2, 3]), Some(3));
        let newest = questions.add(question(None, &[1, 2, 3], 3)).unwrap().0.id;
        assert_eq!(likeliest(&[1, 2, 3]), Some(2));
        questions.open().away.insert(2);
        assert_eq!(likeliest(&[1, 2, 3]), Some(1), "nobody attends to the second");
        let other = questions.add(question(None, &[1, 2, 3], 1)).unwrap();
        assert_eq!(likeliest(&[1, 2, 3]), Some(3), "each attended call has a question");
        questions.answer(newest, Err(RpcError::internal("no")));
        questions.open().away.insert(3);
        assert_eq!(likeliest(&[1, 2, 3]), Some(1));
        questions.open().away.insert(1);
        assert_eq!(likeliest(&[1, 2, 3]), Some(3), "nobody attends to any");
        assert_eq!(likeliest(&[]), None);
        drop(other);
    }

    #[test]
    fn among_equal_calls_one_that_can_be_asked_carries_the_question() {
        let questions = of(&[(1, Some(PERSON)), (2, Some(Answers::default()))]);
        let likeliest = || questions.likeliest(&[1, 2], PERSON, |it| it.elicitation).unwrap();
        assert_eq!(likeliest(), (1, PERSON));
        questions.open().away.insert(1);
        assert_eq!(likeliest(), (2, Answers::default()), "the other waits for its client");
    }

    #[test]
    fn dis_41_a_question_ends_when_every_call_that_may_have_caused_it_was_given_up() {
        let questions = of(&[(1, None), (2, None)]);
        let (both, mut answer) = questions.add(question(None, &[1, 2], 2)).unwrap();
        let (own, mut own_answer) = questions.add(question(Some(2), &[2], 2)).unwrap();
        questions.close_call(2, CallEnd::GivenUp, PERSON);
        assert_eq!(
            carrier(&questions, both.id),
            Some(Some(1)),
            "the other call may have caused it"
        );
        assert!(answer.try_recv().is_err());
        assert_eq!(carrier(&questions, own.id), None, "its own call was given up");
        assert!(own_answer.try_recv().unwrap().is_err(), "the server is told");
        assert!(!questions.answer(own.id, Ok(ObjectWriter::new().finish())));
        questions.close_call(1, CallEnd::GivenUp, PERSON);
        assert!(answer.try_recv().unwrap().is_err());
        assert!(questions.waiting().is_empty());
    }

    #[test]
    fn a_question_outlives_a_call_that_ended_with_a_result() {
        let questions = of(&[(1, None), (2, None)]);
        let (asked, _answer) = questions.add(question(None, &[1, 2], 2)).unwrap();
        questions.close_call(2, CallEnd::Answered, PERSON);
        assert_eq!(carrier(&questions, asked.id), Some(Some(1)));
        questions.close_call(1, CallEnd::GivenUp, PERSON);
        assert_eq!(carrier(&questions, asked.id), Some(None), "the first may have asked it");
        assert!(questions.answer(asked.id, Ok(ObjectWriter::new().finish())));
    }

    #[test]
    fn a_question_of_a_call_that_has_ended_is_refused() {
        let questions = of(&[(1, None)]);
        assert_eq!(questions.add(question(Some(7), &[7], 7)).unwrap_err(), AddError::CallEnded);
        let (asked, _answer) = questions.add(question(None, &[1, 7], 7)).unwrap();
        assert_eq!((asked.calls, asked.carrier), (vec![1], Some(1)));
    }

    #[test]
    fn a_client_that_cannot_be_asked_is_passed_over_where_there_is_another() {
        let questions = of(&[(1, None), (2, None)]);
        let (asked, _answer) = questions.add(question(None, &[1, 2], 2)).unwrap();
        assert!(questions.pass_over(asked.id, 2, PERSON));
        assert_eq!(carrier(&questions, asked.id), Some(Some(1)));
        let (own, _answer) = questions.add(question(Some(2), &[2], 2)).unwrap();
        assert!(!questions.pass_over(own.id, 2, PERSON));
    }
}
