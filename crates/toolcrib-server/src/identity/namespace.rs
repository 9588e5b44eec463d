//! Names of dialogs: a namespace per principal. Nobody can take, block or detect a name of another principal.

use super::Principal;
use super::secret::Hash;

/// The id of the principal behind the owner's socket and the console.
pub(super) const OWNER: &str = "owner";

/// Ids of dialogs of all other principals begin with this, followed by their namespace.
pub(crate) const PREFIX: &str = "by:";

/// The id of the dialog that a principal calls by this name. The owner's names are ids themselves, so that they
/// outlive a change of tokens. A principal that cannot choose its agent has a namespace for each agent that it was.
pub(crate) fn dialog_id(principal: &str, agent: &str, chooses: bool, name: &str) -> String {
    match principal == OWNER && !name.starts_with(PREFIX) {
        true => name.to_owned(),
        false => format!("{PREFIX}{}:{name}", namespace(principal, agent, chooses)),
    }
}

impl Principal {
    /// The id of the dialog that this principal calls by this name.
    pub(crate) fn dialog_id(&self, name: &str) -> String {
        dialog_id(&self.id, &self.agent, self.chooses, name)
    }

    /// The name of a dialog as this principal is told it: without its own namespace.
    pub(crate) fn dialog_name(&self, id: &str) -> String {
        let own = id.strip_prefix(PREFIX).and_then(|rest| {
            let rest = rest.strip_prefix(&namespace(&self.id, &self.agent, self.chooses))?;
            rest.strip_prefix(':')
        });
        own.unwrap_or(id).to_owned()
    }
}

/// Of one length, so that no principal can be named like another one's namespace and the beginning of a name.
fn namespace(principal: &str, agent: &str, chooses: bool) -> String {
    let whole = match chooses {
        true => principal.to_owned(),
        false => format!("{principal}\0{agent}"),
    };
    let mut hash = Hash::of(&whole).hex();
    hash.truncate(16);
    hash
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn principal(id: &str, agent: &str, chooses: bool) -> Principal {
        Principal { id: id.into(), agent: agent.into(), chooses, ..Principal::default() }
    }

    #[test]
    fn each_principal_and_agent_has_names_of_its_own() {
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
            all.iter().flat_map(|who| names.map(|name| who.dialog_id(name))).collect();
        assert_eq!(ids.len(), all.len() * names.len());
        for who in &all {
            for name in names {
                assert_eq!(who.dialog_name(&who.dialog_id(name)), name);
            }
        }
        let [owner, default, ..] = &all;
        assert_eq!(owner.dialog_id("d"), "d");
        let theirs = default.dialog_id("d");
        assert_eq!(owner.dialog_name(&theirs), theirs, "the owner sees whole ids of others");
        assert_eq!(default.dialog_name("d"), "d");
    }

    #[test]
    fn who_may_choose_an_agent_has_one_namespace() {
        let [one, other] = ["a", "b"].map(|agent| principal("default", agent, true).dialog_id("d"));
        assert_eq!(one, other);
    }
}
