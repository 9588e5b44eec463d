//! Dialog names in one namespace per principal, so that no principal can take, block or detect another's names.

use super::Principal;
use super::secret::TokenHash;

/// Principal id of the owner's socket and of the console.
pub(super) const OWNER: &str = "owner";

/// Prefix of all other principals' dialog ids, followed by their namespace.
pub(crate) const PREFIX: &str = "by:";

/// Maps a principal's dialog name to the dialog id. The owner's names are ids, so that they survive a change of tokens.
/// A principal that cannot choose its agent has a namespace per agent.
pub(crate) fn dialog_id(
    principal: &str,
    agent: &str,
    may_choose_agent: bool,
    name: &str,
) -> String {
    match principal == OWNER && !name.starts_with(PREFIX) {
        true => name.to_owned(),
        false => format!("{PREFIX}{}:{name}", namespace(principal, agent, may_choose_agent)),
    }
}

impl Principal {
    /// Maps this principal's dialog name to the dialog id.
    pub(crate) fn dialog_id(&self, name: &str) -> String {
        dialog_id(&self.id, &self.agent, self.may_choose_agent, name)
    }

    /// The dialog name for this principal: the id without the principal's own namespace.
    pub(crate) fn dialog_name(&self, id: &str) -> String {
        let own = id.strip_prefix(PREFIX).and_then(|rest| {
            let rest =
                rest.strip_prefix(&namespace(&self.id, &self.agent, self.may_choose_agent))?;
            rest.strip_prefix(':')
        });
        own.unwrap_or(id).to_owned()
    }
}

/// Namespaces have a fixed length, so that one cannot be the start of another.
fn namespace(principal: &str, agent: &str, may_choose_agent: bool) -> String {
    let whole = match may_choose_agent {
        true => principal.to_owned(),
        false => format!("{principal}\0{agent}"),
    };
    let mut hash = TokenHash::digest(&whole).hex();
    hash.truncate(16);
    hash
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn principal(id: &str, agent: &str, may_choose_agent: bool) -> Principal {
        Principal { id: id.into(), agent: agent.into(), may_choose_agent, ..Principal::default() }
    }

    #[test]
    fn dialog_ids_differ_per_principal_and_agent() {
        let all = [
            principal("owner", "default", true),
            principal("default", "default", true),
            principal("token:1", "a", false),
            principal("token:1", "b", false),
            principal("oauth:a", "b", false),
            principal("oauth:a:b", "b", false),
        ];
        let names = ["d", "command-line", "api:owner:default", "b:d", "by:0123456789abcdef:d"];
        let ids: HashSet<String> =
            all.iter().flat_map(|principal| names.map(|name| principal.dialog_id(name))).collect();
        assert_eq!(ids.len(), all.len() * names.len());
        for principal in &all {
            for name in names {
                assert_eq!(principal.dialog_name(&principal.dialog_id(name)), name);
            }
        }
        let [owner, default, ..] = &all;
        assert_eq!(owner.dialog_id("d"), "d");
        let theirs = default.dialog_id("d");
        assert_eq!(owner.dialog_name(&theirs), theirs, "the owner sees full ids of others");
        assert_eq!(default.dialog_name("d"), "d");
    }

    #[test]
    fn principal_that_may_choose_its_agent_has_one_namespace() {
        let [one, other] = ["a", "b"].map(|agent| principal("default", agent, true).dialog_id("d"));
        assert_eq!(one, other);
    }
}
