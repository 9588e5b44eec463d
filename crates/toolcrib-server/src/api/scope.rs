//! Resolves the dialog of a request and restricts data to what a principal may see.

use std::path::Path;

use toolcrib::internal::Visibility;
use toolcrib::{Dialog, DialogRequest, HostStats, Problem, ServerOperationError, ServerStatus};

use super::error::{ApiError, ApiErrorKind};
use super::list_wait::is_up;
use super::schema::NewDialog;
use crate::front::Front;
use crate::identity::Principal;
use crate::identity::namespace::PREFIX;

/// Prefix of the ids of unnamed dialogs. No client can choose such an id.
const UNNAMED_PREFIX: &str = "api:";

/// Maximum length of a chosen dialog id.
const MAX_ID_LENGTH: usize = 128;

/// An existing dialog by name or id. Only the owner can find dialogs of other principals.
pub(crate) fn require_dialog(
    front: &Front,
    principal: &Principal,
    name: &str,
) -> Result<Dialog, ApiError> {
    let dialog = find_dialog(front, principal, name).ok_or_else(|| ApiError::no_dialog(name))?;
    front.dialog_activity.touch(dialog.id());
    Ok(dialog)
}

/// Tries the name in the principal's namespace first, then as an id of a dialog that the principal may use.
fn find_dialog(front: &Front, principal: &Principal, name: &str) -> Option<Dialog> {
    let by_id =
        |id: &str| front.host.find_dialog(id).filter(|dialog| may_use_dialog(dialog, principal));
    by_id(&principal.dialog_id(name)).or_else(|| by_id(name))
}

pub(crate) fn may_use_dialog(dialog: &Dialog, principal: &Principal) -> bool {
    let is_own = |id: &str| principal.may_use(id, dialog.agent());
    principal.is_owner || dialog.principal().is_some_and(is_own)
}

/// The servers visible to a principal.
pub(crate) fn visible_servers(front: &Front, visible: &Visibility) -> Vec<ServerStatus> {
    let mut servers = front.host.servers();
    servers.retain(|server| visible.includes_spec(&server.spec));
    servers
}

/// The problems visible to a principal.
pub(crate) fn visible_problems(front: &Front, visible: &Visibility) -> Vec<Problem> {
    let mut problems = front.host.problems();
    problems.retain(|problem| visible.includes_problem(problem));
    problems
}

/// Statistics of the host. A restricted principal gets the numbers of its own dialogs and of visible servers.
pub(crate) fn visible_stats(
    front: &Front,
    principal: &Principal,
    visible: &Visibility,
) -> HostStats {
    let status = front.host.status();
    if visible.is_unrestricted() {
        return status;
    }
    let (servers, mut dialogs) = (visible_servers(front, visible), front.host.dialogs());
    dialogs.retain(|dialog| may_use_dialog(dialog, principal));
    HostStats {
        servers: servers.len(),
        ready: servers.iter().filter(|server| is_up(server)).count(),
        tools: servers.iter().map(|server| server.tools).sum(),
        dialogs: dialogs.len(),
        leases: dialogs.iter().map(|dialog| dialog.leases().len()).sum(),
        problems: visible_problems(front, visible).len(),
        draining: 0,
        ..status
    }
}

/// One visible server by id or key. Invisible servers look unknown.
pub(crate) fn visible_server(
    front: &Front,
    visible: &Visibility,
    name: &str,
) -> Result<ServerStatus, ApiError> {
    match front.host.server(name) {
        Ok(server) if visible.includes_spec(&server.spec) => Ok(server),
        Err(error) if visible.is_owner() => Err(error.into()),
        _ => {
            let known =
                visible_servers(front, visible).into_iter().map(|it| it.spec.id.clone()).collect();
            Err(ServerOperationError::NoServer { name: name.to_owned(), known }.into())
        }
    }
}

/// The dialog that a request names, or else the principal's default dialog. The dialog is created if necessary.
pub(crate) async fn resolve_dialog(
    front: &Front,
    principal: &Principal,
    agent: Option<&str>,
    named: Option<String>,
) -> Result<Dialog, ApiError> {
    let chosen = principal.choose_agent(agent)?;
    if let Some(existing) = named.as_deref().and_then(|name| find_dialog(front, principal, name)) {
        front.dialog_activity.touch(existing.id());
        return match agent.is_none_or(|agent| agent == existing.agent()) {
            true => Ok(existing),
            false => Err(ApiError::no_dialog(named.as_deref().unwrap_or_default())),
        };
    }
    let name = match named {
        Some(name) => check_dialog_id(name)?,
        None => format!("{UNNAMED_PREFIX}{}:{chosen}", principal.id),
    };
    let id = Some(principal.dialog_id(&name));
    let request = DialogRequest { id, agent: Some(chosen.to_string()), ..DialogRequest::default() };
    open_dialog(front, principal, request).await
}

/// Creates a dialog from a request body.
pub(crate) async fn create_dialog(
    front: &Front,
    principal: &Principal,
    new: NewDialog,
) -> Result<Dialog, ApiError> {
    let agent = principal.choose_agent(new.agent.as_deref())?.to_string();
    let cwd = new.cwd.as_deref().map(|cwd| front.host.root().join(cwd));
    if let Some(cwd) =
        cwd.as_deref().filter(|cwd| !principal.is_owner && !is_within_root(front.host.root(), cwd))
    {
        let text =
            format!("only the owner may use `{}`, which is outside the root folder", cwd.display());
        return Err(ApiError::new(
            ApiErrorKind::Call(toolcrib::ErrorKind::Denied),
            "denied.cwd",
            text,
        ));
    }
    let answers = new.answers.map(|it| toolcrib::DialogCapabilities {
        elicitation: it.elicitation,
        elicitation_url: it.elicitation,
        sampling: it.sampling,
        sampling_tools: it.sampling,
        ..toolcrib::DialogCapabilities::default()
    });
    let id = new.id.map(check_dialog_id).transpose()?.map(|name| principal.dialog_id(&name));
    open_dialog(
        front,
        principal,
        DialogRequest {
            id,
            agent: Some(agent),
            cwd,
            capabilities: answers,
            ..DialogRequest::default()
        },
    )
    .await
}

/// Opens a dialog within the limit of dialogs per principal.
async fn open_dialog(
    front: &Front,
    principal: &Principal,
    request: DialogRequest,
) -> Result<Dialog, ApiError> {
    let max = front.limits().sessions;
    let is_there = request.id.as_deref().is_some_and(|id| front.host.find_dialog(id).is_some());
    let count =
        || front.host.dialogs().iter().filter(|it| it.principal() == Some(&*principal.id)).count();
    if !principal.is_owner && !is_there && count() >= max {
        let text = format!(
            "too many dialogs: at most {max} are allowed (gateway.limits.sessions); end one first"
        );
        return Err(ApiError::new(ApiErrorKind::TooManyRequests, "dialog.limit", text));
    }
    let principal = Some(principal.id.to_string());
    let dialog = front.host.open_dialog(DialogRequest { principal, ..request }).await?;
    match is_there {
        true => front.dialog_activity.touch(dialog.id()),
        false => front.dialog_activity.track(dialog.id()),
    }
    Ok(dialog)
}

fn check_dialog_id(id: String) -> Result<String, ApiError> {
    let is_good = !id.trim().is_empty()
        && id.len() <= MAX_ID_LENGTH
        && !id.starts_with(UNNAMED_PREFIX)
        && !id.starts_with(PREFIX)
        && !id.chars().any(char::is_control);
    match is_good {
        true => Ok(id),
        false => Err(ApiError::bad_request(format!(
            "invalid dialog id: it must have 1 to {MAX_ID_LENGTH} characters and must not start with `{UNNAMED_PREFIX}` or `{PREFIX}`"
        ))),
    }
}

/// Resolves both paths on disk, so that neither `..` nor a symbolic link leads outside.
fn is_within_root(root: &Path, cwd: &Path) -> bool {
    match (root.canonicalize(), cwd.canonicalize()) {
        (Ok(root), Ok(cwd)) => cwd.starts_with(root),
        // A missing folder is refused in the same way, so that the caller cannot detect which folders exist.
        _ => false,
    }
}
