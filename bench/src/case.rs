//! One benchmark case: transport, response size and number of concurrent calls.

use std::fmt;

use crate::BenchResult;
use crate::client::{Client, ClientKind};
use crate::measure::{self, Sample};
use crate::upstream::{ResponseSize, Upstream, UpstreamTransport};

/// Number of rounds. The clients alternate, so that other load on the machine affects all of them.
const ROUNDS: usize = 7;

#[derive(Clone, Copy)]
pub struct Case {
    pub transport: UpstreamTransport,
    pub size: ResponseSize,
    pub in_flight: usize,
}

/// Best sample of each client over all rounds.
pub struct CaseResult {
    pub ours: Sample,
    pub rmcp: Sample,
    /// Sample of a client that only fetches the response, for HTTP transports.
    pub floor: Option<Sample>,
}

impl Case {
    pub fn all() -> impl Iterator<Item = Case> {
        [UpstreamTransport::Stdio, UpstreamTransport::Http, UpstreamTransport::Events]
            .into_iter()
            .flat_map(|transport| {
                [ResponseSize::Small, ResponseSize::Large].into_iter().flat_map(move |size| {
                    [1, 16, 64].into_iter().map(move |in_flight| Case {
                        transport,
                        size,
                        in_flight,
                    })
                })
            })
    }

    pub fn matches(&self, words: &[String]) -> bool {
        let name = self.to_string();
        words.iter().all(|word| name.split(' ').any(|part| part == word))
    }

    pub async fn run(&self) -> BenchResult<CaseResult> {
        let upstream = Upstream::start(self.transport)?;
        let which: &[ClientKind] = match self.transport {
            UpstreamTransport::Stdio => &[ClientKind::Ours, ClientKind::Rmcp],
            UpstreamTransport::Http | UpstreamTransport::Events => {
                &[ClientKind::Ours, ClientKind::Rmcp, ClientKind::Floor]
            }
        };
        let mut clients = Vec::new();
        for which in which {
            clients.push((Client::connect(*which, &upstream).await?, Vec::new()));
        }
        // The first round warms up and does not count.
        for round in 0..=ROUNDS {
            for (client, samples) in &mut clients {
                let sample =
                    measure::run_round(client, self.size, self.calls(), self.in_flight).await?;
                if round > 0 {
                    samples.push(sample);
                }
            }
        }
        let mut best = Vec::new();
        for (client, samples) in clients {
            client.close().await?;
            best.push(measure::best_sample(&samples));
        }
        Ok(CaseResult { ours: best[0], rmcp: best[1], floor: best.get(2).copied() })
    }

    /// Number of calls, about half a second for the slower client.
    fn calls(&self) -> usize {
        match (self.size, self.in_flight) {
            (ResponseSize::Small, 1) => 3_000,
            (ResponseSize::Small, _) => 12_800,
            (ResponseSize::Large, 1) => 60,
            (ResponseSize::Large, _) => 128,
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let transport = match self.transport {
            UpstreamTransport::Stdio => "stdio",
            UpstreamTransport::Http => "http",
            UpstreamTransport::Events => "events",
        };
        let size = match self.size {
            ResponseSize::Small => "100B",
            ResponseSize::Large => "1MB",
        };
        write!(f, "{transport} {size} {}", self.in_flight)
    }
}
