//! What a start of a server shows: the eras it speaks, how long it takes, what it offers, what is odd.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};
use toolcrib_config::ServerSpec;
use toolcrib_config::model::choice::Protocol;
use toolcrib_config::model::naming::is_legal;
use toolcrib_wire::handshake::{DiscoverResult, Implementation, InitializeResult};
use toolcrib_wire::view::ServerCapabilities;
use toolcrib_wire::{Era, Framing, Version};

use super::{Other, Server, Supervisor, Terms};
use crate::conn::{Agreed, Catalog, Event, Failure, Session, View, Want};
use crate::process::StderrTail;
use crate::signals::chain;

/// A start that takes longer is worth a word.
const SLOW: Duration = Duration::from_secs(10);

/// How long a second start may take at least; else it may take as long as the first one did, twice.
const SECOND: Duration = Duration::from_secs(5);

/// How much of its last words is shown.
const LAST_WORDS: usize = 2000;

/// What was seen.
#[derive(Debug, Clone)]
pub struct Examined {
    /// From the start to the complete lists, or to the failure.
    pub took: Duration,
    pub outcome: Result<Found, Failure>,
    pub oddities: Vec<Peculiar>,
    /// The end of what it wrote to its stderr, where that is seen.
    pub stderr: String,
}

/// A server that came up.
#[derive(Debug, Clone)]
pub struct Found {
    /// The eras that it is known to speak; the one that was spoken comes first.
    pub eras: Vec<Era>,
    pub version: Version,
    /// Where messages are set off from each other.
    pub framing: Option<Framing>,
    /// What it says of itself.
    pub name: Option<String>,
    pub release: Option<String>,
    pub tools: usize,
    pub prompts: usize,
    pub resources: usize,
    pub templates: usize,
}

/// Something that works and should be otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peculiar {
    /// Stable, for machines.
    pub code: &'static str,
    pub text: String,
}

/// Starts a server once, looks at it, and ends it. Where it does not say whether it speaks the legacy era beside the
/// modern one, it is started once more to find out.
pub async fn examine(supervisor: &Supervisor, spec: Arc<ServerSpec>, terms: Terms) -> Examined {
    let begun = Instant::now();
    let server = supervisor.take(spec, terms).await;
    // A look is one try: whoever fails it has failed.
    let outcome = match server.main().first_try(Want::Call).await {
        // It may speak `Content-Length`, which is tried after the limit.
        Err(failure) if server.main().view().life.is_trying_content_length() => {
            server.main().content_length_tried().await.ok_or(failure)
        }
        outcome => outcome,
    };
    let took = begun.elapsed();
    let view = server.main().view();
    let mut examined = match outcome {
        Ok(ticket) => Examined {
            took,
            oddities: peculiar(server.spec(), &view, took, &ticket.session),
            stderr: last_words(&view),
            outcome: Ok(found(&ticket.session, &view.catalog.unwrap_or_default())),
        },
        Err(failure) => Examined {
            took,
            oddities: Vec::new(),
            stderr: last_words(&view),
            outcome: Err(failure),
        },
    };
    if let Ok(found) = &mut examined.outcome
        && is_open(&server.spec().policy.protocol, &found.eras)
        && is_legacy(&server, took).await
    {
        found.eras.push(Era::Legacy);
    }
    supervisor.retire_and_wait(&server).await;
    examined
}

/// Whether it is still to be found out which eras the server speaks. Who speaks the legacy era was asked for the modern
/// one before, and has refused it.
fn is_open(protocol: &Protocol, known: &[Era]) -> bool {
    *protocol == Protocol::Auto && known == [Era::Modern]
}

/// Whether a server of the modern era can be had in the other one. It is asked on a connection of its own: one that has
/// spoken the modern era may refuse `initialize` from then on.
async fn is_legacy(server: &Arc<Server>, took: Duration) -> bool {
    // Not side by side: it may be of a kind of which only one can run.
    server.main().tell(Event::Retire).await;
    server.main().ended().await;
    let spare = server.spare(Other { protocol: Some(Protocol::Legacy), ..Other::default() });
    let tried = timeout(SECOND.max(took * 2), spare.conn().first_try(Want::Call));
    let is_legacy = tried.await.is_ok_and(|tried| tried.is_ok());
    spare.end().await;
    is_legacy
}

fn found(session: &Session, catalog: &Catalog) -> Found {
    let agreed = session.agreed();
    let implementation = implementation(agreed);
    let said = |read: fn(&Implementation) -> Option<std::borrow::Cow<'_, str>>| {
        implementation.as_ref().and_then(read).map(std::borrow::Cow::into_owned)
    };
    Found {
        eras: eras(agreed),
        version: agreed.version.clone(),
        framing: session.peer().framing(),
        name: said(Implementation::name),
        release: said(Implementation::version),
        tools: catalog.tools.len(),
        prompts: catalog.prompts.len(),
        resources: catalog.resources.len(),
        templates: catalog.templates.len(),
    }
}

fn implementation(agreed: &Agreed) -> Option<Implementation> {
    match agreed.era {
        Era::Legacy => InitializeResult::read(agreed.answer.clone()).ok()?.server(),
        Era::Modern => DiscoverResult::read(agreed.answer.clone()).ok()?.server(),
    }
}

/// A server of the modern era says which versions it speaks, those of the other era too.
fn eras(agreed: &Agreed) -> Vec<Era> {
    let mut eras = vec![agreed.era];
    if let Ok(said) = DiscoverResult::read(agreed.answer.clone()) {
        let has_legacy = said.versions().iter().any(|version| version.era() == Some(Era::Legacy));
        eras.extend(has_legacy.then_some(Era::Legacy));
    }
    eras.dedup();
    eras
}

fn peculiar(spec: &ServerSpec, view: &View, took: Duration, session: &Session) -> Vec<Peculiar> {
    let mut all = Vec::new();
    if took > SLOW {
        let text = format!("it takes {:.1} s to start", took.as_secs_f64());
        all.push(Peculiar { code: "start.slow", text });
    }
    all.extend(view.oddities().into_iter().map(|oddity| Peculiar {
        code: oddity.odd.code(),
        text: format!("{} ({}×), as `{}`", oddity.odd, oddity.count, oddity.example),
    }));
    if let Some(catalog) = &view.catalog {
        all.extend(of_lists(catalog));
    }
    let missing = missing_capabilities(spec, &session.agreed().capabilities);
    all.extend(missing.into_iter().map(|name| Peculiar {
        code: "capability.missing",
        text: format!("it does not have `{name}`, which `init.require_server` asks for"),
    }));
    all
}

fn of_lists(catalog: &Catalog) -> Vec<Peculiar> {
    let items = catalog.oddities.iter().map(|oddity| {
        let name = oddity.name.as_deref().unwrap_or("?");
        let text = format!("{} `{name}`: {}", oddity.list, chain(&oddity.what));
        Peculiar { code: "list.item", text }
    });
    let illegal = catalog.tools.iter().filter(|tool| !is_legal(tool.name())).map(|tool| Peculiar {
        code: "name.illegal",
        text: format!("model providers refuse the tool name `{}`", tool.name()),
    });
    items.chain(illegal).collect()
}

/// Capabilities that the configuration expects and the server does not declare.
pub fn missing_capabilities(spec: &ServerSpec, declared: &ServerCapabilities) -> Vec<String> {
    let wanted = spec.policy.init.require_server.iter();
    wanted.filter(|name| declared.raw().get(name).is_none()).cloned().collect()
}

fn last_words(view: &View) -> String {
    let text = view.stderr.as_ref().map(StderrTail::text).unwrap_or_default();
    let start = text.char_indices().rev().nth(LAST_WORDS).map_or(0, |(at, _)| at);
    text.get(start..).unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_nobody_said_is_to_be_found_out() {
        let version = |text: &str| Protocol::Version(text.to_owned());
        for (protocol, known, open) in [
            (Protocol::Auto, &[Era::Modern][..], true),
            (Protocol::Auto, &[Era::Modern, Era::Legacy], false),
            (Protocol::Auto, &[Era::Legacy], false),
            (Protocol::Modern, &[Era::Modern], false),
            (version("2026-07-28"), &[Era::Modern], false),
        ] {
            assert_eq!(is_open(&protocol, known), open, "{protocol:?} {known:?}");
        }
    }
}
