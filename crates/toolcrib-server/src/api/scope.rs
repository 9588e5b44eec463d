//! Which dialog a request is of, and whose.

use std::path::Path;

use toolcrib::host::{DialogRequest, OpError, Status, Visibility};
use toolcrib::{Dialog, Problem, ServerStatus};

use super::fail::{Fail, Kind};
use super::settle::is_up;
use super::shape::NewDialog;
use crate::front::Front;
use crate::identity::Principal;
use crate::identity::namespace::PREFIX;

/// Ids that begin with this are of dialogs that nobody named: nobody else can take them.
const UNNAMED: &str = "api:";

/// The longest id that somebody may choose.
const LONGEST: usize = 128;

/// A dialog that is there, by its name or its id. Others' dialogs are only the owner's to see.
pub(crate) fn own(front: &Front, who: &Principal, name: &str) -> Result<Dialog, Fail> {
    let dialog = find(front, who, name).ok_or_else(|| Fail::no_dialog(name))?;
    front.visits.came(dialog.id());
    Ok(dialog)
}

/// A name is one of the principal's own; else it is an id, which has to be of a dialog that the principal may use.
fn find(front: &Front, who: &Principal, name: &str) -> Option<Dialog> {
    let by_id = |id: &str| front.host.dialog_of(id).filter(|dialog| is_of(dialog, who));
    by_id(&who.dialog_id(name)).or_else(|| by_id(name))
}

pub(crate) fn is_of(dialog: &Dialog, who: &Principal) -> bool {
    let is_own = |id: &str| who.may_use(id, dialog.agent());
    who.is_owner || dialog.principal().is_some_and(is_own)
}

/// The servers that a principal may know of.
pub(crate) fn servers(front: &Front, visible: &Visibility) -> Vec<ServerStatus> {
    let mut servers = front.host.servers();
    servers.retain(|server| visible.includes_spec(&server.spec));
    servers
}

/// The problems that a principal may know of.
pub(crate) fn problems(front: &Front, visible: &Visibility) -> Vec<Problem> {
    let mut problems = front.host.problems();
    problems.retain(|problem| visible.includes_problem(problem));
    problems
}

/// The host in figures: a principal that may not know of every server is told figures of its own dialogs and of the
/// servers that it may know of.
pub(crate) fn figures(front: &Front, who: &Principal, visible: &Visibility) -> Status {
    let status = front.host.status();
    if visible.is_unrestricted() {
        return status;
    }
    let (servers, mut dialogs) = (servers(front, visible), front.host.dialogs());
    dialogs.retain(|dialog| is_of(dialog, who));
    Status {
        servers: servers.len(),
        ready: servers.iter().filter(|server| is_up(server)).count(),
        tools: servers.iter().map(|server| server.tools).sum(),
        dialogs: dialogs.len(),
        leases: dialogs.iter().map(|dialog| dialog.leases().len()).sum(),
        problems: problems(front, visible).len(),
        draining: 0,
        ..status
    }
}

/// One server by its id or key. One that the principal does not see does not exist.
pub(crate) fn server(
    front: &Front,
    visible: &Visibility,
    name: &str,
) -> Result<ServerStatus, Fail> {
    match front.host.server(name) {
        Ok(server) if visible.includes_spec(&server.spec) => Ok(server),
        Err(error) if visible.is_owner() => Err(error.into()),
        _ => {
            let known = servers(front, visible).into_iter().map(|it| it.spec.id.clone()).collect();
            Err(OpError::NoServer { name: name.to_owned(), known }.into())
        }
    }
}

/// The dialog that a request names, or the one that whoever asks has where none is named.
pub(crate) async fn dialog(
    front: &Front,
    who: &Principal,
    agent: Option<&str>,
    named: Option<String>,
) -> Result<Dialog, Fail> {
    let chosen = who.agent(agent)?;
    if let Some(there) = named.as_deref().and_then(|name| find(front, who, name)) {
        front.visits.came(there.id());
        return match agent.is_none_or(|agent| agent == there.agent()) {
            true => Ok(there),
            false => Err(Fail::no_dialog(named.as_deref().unwrap_or_default())),
        };
    }
    let name = match named {
        Some(name) => checked(name)?,
        None => format!("{UNNAMED}{}:{chosen}", who.id),
    };
    let id = Some(who.dialog_id(&name));
    let request = DialogRequest { id, agent: Some(chosen.to_string()), ..DialogRequest::default() };
    begin(front, who, request).await
}

/// A dialog as somebody asks for it.
pub(crate) async fn create(front: &Front, who: &Principal, new: NewDialog) -> Result<Dialog, Fail> {
    let agent = who.agent(new.agent.as_deref())?.to_string();
    let cwd = new.cwd.as_deref().map(|cwd| front.host.root().join(cwd));
    if let Some(cwd) =
        cwd.as_deref().filter(|cwd| !who.is_owner && !is_below(front.host.root(), cwd))
    {
        let text = format!("only the owner may work in `{}`, outside of the root", cwd.display());
        return Err(Fail::new(Kind::Call(toolcrib::shape::ErrorKind::Denied), "denied.cwd", text));
    }
    let answers = new.answers.map(|it| toolcrib::host::Answers {
        elicitation: it.elicitation,
        elicitation_url: it.elicitation,
        sampling: it.sampling,
        sampling_tools: it.sampling,
        ..toolcrib::host::Answers::default()
    });
    let id = new.id.map(checked).transpose()?.map(|name| who.dialog_id(&name));
    begin(
        front,
        who,
        DialogRequest { id, agent: Some(agent), cwd, answers, ..DialogRequest::default() },
    )
    .await
}

/// So many dialogs at a time, for each principal.
async fn begin(front: &Front, who: &Principal, request: DialogRequest) -> Result<Dialog, Fail> {
    let most = front.limits().sessions;
    let is_there = request.id.as_deref().is_some_and(|id| front.host.dialog_of(id).is_some());
    let count =
        || front.host.dialogs().iter().filter(|it| it.principal() == Some(&*who.id)).count();
    if !who.is_owner && !is_there && count() >= most {
        let text = format!("{most} dialogs are the most at a time (gateway.limits.sessions)");
        return Err(Fail::new(Kind::TooMany, "dialog.limit", text));
    }
    let principal = Some(who.id.to_string());
    let dialog = front.host.dialog(DialogRequest { principal, ..request }).await?;
    match is_there {
        true => front.visits.came(dialog.id()),
        false => front.visits.began(dialog.id()),
    }
    Ok(dialog)
}

fn checked(id: String) -> Result<String, Fail> {
    let is_good = !id.trim().is_empty()
        && id.len() <= LONGEST
        && !id.starts_with(UNNAMED)
        && !id.starts_with(PREFIX)
        && !id.chars().any(char::is_control);
    match is_good {
        true => Ok(id),
        false => Err(Fail::bad(format!(
            "the id of a dialog has 1 to {LONGEST} characters and does not begin with `{UNNAMED}` or `{PREFIX}`"
        ))),
    }
}

/// As things are on disk, so that neither `..` nor a link leads out.
fn is_below(root: &Path, cwd: &Path) -> bool {
    match (root.canonicalize(), cwd.canonicalize()) {
        (Ok(root), Ok(cwd)) => cwd.starts_with(root),
        // What is not there cannot be worked in, and whether it is there is nobody else's business.
        _ => false,
    }
}
