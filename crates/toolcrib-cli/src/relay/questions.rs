//! What hosts have asked their client and have not been answered yet.

use std::collections::VecDeque;

use toolcrib_wire::notice::Cancelled;
use toolcrib_wire::{Id, Notification, Raw, Request, Response, method};

use super::passing::Fate;

/// Questions that are open at once; the oldest is not waited for any more where there are more.
const OPEN: usize = 256;

#[derive(Debug, Default)]
pub(super) struct Questions {
    /// The oldest first.
    open: VecDeque<Question>,
    /// How many hosts have ended.
    ended: u64,
}

/// The id of a question at the host, and at the client.
#[derive(Debug)]
struct Question {
    there: Id,
    here: Id,
}

impl Questions {
    /// Each host counts its questions from one, so those of later ones get ids that no earlier one can have given.
    pub(super) fn ask(&mut self, request: &Request) -> Fate {
        let there = request.id.clone();
        let here = match self.ended {
            0 => there.clone(),
            ended => Id::from(format!("{ended}:{there}").as_str()),
        };
        let fate = match here == there {
            true => Fate::On,
            false => Fate::OnAs(request.rewrite().id(&here).finish()),
        };
        if self.open.len() == OPEN {
            self.open.pop_front();
        }
        self.open.push_back(Question { there, here });
        fate
    }

    /// An answer that no host waits for is nobody's: the next one may have given the same id to another question.
    pub(super) fn answer(&mut self, answer: &Response) -> Fate {
        let Some(id) = &answer.id else { return Fate::On };
        match self.take(|question| question.here == *id) {
            Some(question) if question.there == *id => Fate::On,
            Some(question) => Fate::OnAs(answer.rewrite().id(&question.there).finish()),
            None => Fate::Nowhere,
        }
    }

    /// A host may call off what it has asked.
    pub(super) fn heed(&mut self, told: &Notification) -> Fate {
        let cancelled = Cancelled::read(told.params.json());
        let (method::CANCELLED, Ok(cancelled)) = (told.method.as_str(), cancelled) else {
            return Fate::On;
        };
        match self.take(|question| question.there == cancelled.request) {
            Some(question) if question.here != question.there => {
                Fate::OnAs(Cancelled { request: question.here, ..cancelled }.build())
            }
            _ => Fate::On,
        }
    }

    /// Calls off what is open, at the client.
    pub(super) fn host_ended(&mut self, why: &'static str) -> impl Iterator<Item = Raw> {
        self.ended += 1;
        let open = self.open.drain(..).map(|question| question.here);
        open.map(move |request| Cancelled { request, reason: Some(why.into()) }.build())
    }

    fn take(&mut self, is_it: impl Fn(&Question) -> bool) -> Option<Question> {
        let place = self.open.iter().position(is_it)?;
        self.open.remove(place)
    }
}
