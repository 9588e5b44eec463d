//! One thing that is measured: which transport, how large an answer, how many calls at once.

use std::fmt;

use crate::Fallible;
use crate::client::{Client, Which};
use crate::measure::{self, Sample};
use crate::upstream::{Over, Size, Upstream};

/// Each client has this many turns, one after the other, so that whatever else the machine does hits both.
const ROUNDS: usize = 7;

#[derive(Clone, Copy)]
pub struct Case {
    pub over: Over,
    pub size: Size,
    pub in_flight: usize,
}

/// The best of the rounds of each.
pub struct Outcome {
    pub ours: Sample,
    pub theirs: Sample,
    /// Where there is a way to fetch and do nothing else.
    pub floor: Option<Sample>,
}

impl Case {
    pub fn all() -> impl Iterator<Item = Case> {
        [Over::Stdio, Over::Http, Over::Events].into_iter().flat_map(|over| {
            [Size::Small, Size::Large].into_iter().flat_map(move |size| {
                [1, 16, 64].into_iter().map(move |in_flight| Case { over, size, in_flight })
            })
        })
    }

    pub fn is_meant(&self, words: &[String]) -> bool {
        let name = self.to_string();
        words.iter().all(|word| name.split(' ').any(|part| part == word))
    }

    pub async fn run(&self) -> Fallible<Outcome> {
        let upstream = Upstream::start(self.over)?;
        let which: &[Which] = match self.over {
            Over::Stdio => &[Which::Ours, Which::Rmcp],
            Over::Http | Over::Events => &[Which::Ours, Which::Rmcp, Which::Floor],
        };
        let mut clients = Vec::new();
        for which in which {
            clients.push((Client::connect(*which, &upstream).await?, Vec::new()));
        }
        // The first round warms up and does not count.
        for round in 0..=ROUNDS {
            for (client, samples) in &mut clients {
                let sample =
                    measure::round(client, self.size, self.calls(), self.in_flight).await?;
                if round > 0 {
                    samples.push(sample);
                }
            }
        }
        let mut best = Vec::new();
        for (client, samples) in clients {
            client.close().await?;
            best.push(measure::best(&samples));
        }
        Ok(Outcome { ours: best[0], theirs: best[1], floor: best.get(2).copied() })
    }

    /// About half a second for the slower one.
    fn calls(&self) -> usize {
        match (self.size, self.in_flight) {
            (Size::Small, 1) => 3_000,
            (Size::Small, _) => 12_800,
            (Size::Large, 1) => 60,
            (Size::Large, _) => 128,
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let over = match self.over {
            Over::Stdio => "stdio",
            Over::Http => "http",
            Over::Events => "events",
        };
        let size = match self.size {
            Size::Small => "100B",
            Size::Large => "1MB",
        };
        write!(f, "{over} {size} {}", self.in_flight)
    }
}
