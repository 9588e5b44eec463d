//! Named defaults: five built in, and a person's own on top of them.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use crate::cx::Cx;
use crate::dialect::{Dialect, ProfileDraft};
use crate::doc::{self, Doc, NodeId, Syntax};
use crate::model::policy::{Policy, PolicyKeys};
use crate::model::setting::{Layer, Setting};
use crate::model::transport::{TransportKeys, TransportSettings};
use crate::model::{Origin, ProfileOrigins};
use crate::text;

/// Complete defaults for a server.
#[derive(Clone, Debug)]
pub(crate) struct Profile {
    pub(crate) policy: Policy,
    pub(crate) transport: TransportSettings,
    pub(crate) origins: Arc<ProfileOrigins>,
    /// Whether it and the profile that it starts from could be read whole.
    pub(crate) sound: bool,
}

/// The profiles that a configuration may name.
#[derive(Clone, Debug)]
pub(crate) struct Profiles {
    known: BTreeMap<String, Arc<Profile>>,
}

/// The built-in profiles as native text, so that they read like any other.
const BUILT_IN: &[(&str, &str)] = &[
    ("native", ""),
    ("dominds", include_str!("profiles/dominds.yaml")),
    ("dispatch", include_str!("profiles/dispatch.yaml")),
    ("holodeck", include_str!("profiles/holodeck.yaml")),
    ("minion", include_str!("profiles/minion.yaml")),
    ("docker", include_str!("profiles/docker.yaml")),
];

/// More of a person's own are refused: each is complete, and each of them may wait for another.
const MAX_OWN: usize = 200;

/// They are part of the program and never change, so they are read once.
static READ: LazyLock<BTreeMap<String, Arc<Profile>>> = LazyLock::new(|| {
    BUILT_IN
        .iter()
        .map(|(name, text)| ((*name).to_string(), Arc::new(built_in(name, text))))
        .collect()
});

impl Profiles {
    pub(crate) fn built_in() -> Self {
        let known = READ.clone();
        Self { known }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Profile> {
        self.known.get(name).map(|profile| &**profile)
    }

    pub(crate) fn names(&self) -> Vec<&str> {
        self.known.keys().map(String::as_str).collect()
    }

    /// Adds a file's own profiles, each after the one that it starts from.
    pub(crate) fn add(&mut self, cx: &mut Cx<'_>, mut drafts: Vec<ProfileDraft>) {
        drafts.retain(|draft| self.is_free(cx, draft));
        let room = (BUILT_IN.len() + MAX_OWN).saturating_sub(self.known.len());
        if let Some(first) = drafts.get(room) {
            let text = format!("there are more than {MAX_OWN} profiles; the rest is not used");
            cx.error(first.node, "profile.too_many", text, "use fewer profiles");
            drafts.truncate(room);
        }
        loop {
            let (ready, waiting): (Vec<_>, Vec<_>) = drafts.into_iter().partition(|draft| {
                self.known.contains_key(draft.base.as_deref().unwrap_or(Dialect::Native.as_str()))
            });
            if ready.is_empty() {
                return waiting.iter().for_each(|draft| no_base(cx, draft));
            }
            ready.into_iter().for_each(|draft| self.build(cx, draft));
            drafts = waiting;
        }
    }

    fn is_free(&self, cx: &mut Cx<'_>, draft: &ProfileDraft) -> bool {
        let built_in = BUILT_IN.iter().any(|(name, _)| *name == draft.name);
        if built_in {
            let text = format!("the profile `{}` is built in and cannot be changed", draft.name);
            cx.error(
                draft.node,
                "profile.reserved",
                text,
                "give it another name and `base` it on this one",
            );
        }
        !built_in
    }

    fn build(&mut self, cx: &Cx<'_>, draft: ProfileDraft) {
        let base = draft.base.as_deref().unwrap_or(Dialect::Native.as_str());
        let Some(mut profile) = self.get(base).cloned() else {
            return;
        };
        profile.sound &= draft.sound;
        let mut values = profile.origins.values.clone();
        let origin = |node: Option<NodeId>| Origin::File {
            source: cx.label.clone(),
            place: cx.doc.place(node.unwrap_or(draft.node)),
            key: cx.doc.path(node.unwrap_or(draft.node)),
        };
        profile.lay(draft.policy, draft.transport, &mut |path, node| {
            values.insert(path.to_string(), origin(node));
        });
        profile.origins = Arc::new(ProfileOrigins { values });
        self.known.insert(draft.name, Arc::new(profile));
    }
}

impl Profile {
    /// Lays keys over the defaults; `record` learns of each value that was taken over.
    pub(crate) fn lay(
        &mut self,
        policy: PolicyKeys,
        transport: TransportKeys,
        record: &mut dyn FnMut(&str, Option<NodeId>),
    ) {
        let mut layer = Layer::new(record);
        self.policy.overlay(policy, &mut layer);
        layer.field("transport", &mut self.transport, Some(doc::At::unplaced(transport)));
    }
}

fn no_base(cx: &mut Cx<'_>, draft: &ProfileDraft) {
    let base = text::clip(draft.base.as_deref().unwrap_or_default());
    let text = format!("profile `{}` starts from `{base}`, which is no profile", draft.name);
    cx.error(draft.node, "profile.unknown", text, "name a built-in profile or one of this file");
}

fn built_in(name: &str, yaml: &str) -> Profile {
    #[derive(Default, serde::Deserialize)]
    #[serde(default)]
    struct Own {
        transport: Option<doc::At<TransportKeys>>,
    }
    let name: Arc<str> = name.into();
    let mut values = BTreeMap::new();
    let (policy, transport) = (Policy::default(), TransportSettings::default());
    let mut profile = Profile { policy, transport, origins: Arc::default(), sound: true };
    if let Some(tree) = doc::parse(Syntax::Yaml, yaml.as_bytes()).doc {
        let keys = doc::read::<PolicyKeys>(&tree, Doc::ROOT).value.unwrap_or_default();
        let own = doc::read::<Own>(&tree, Doc::ROOT).value.unwrap_or_default();
        let transport = own.transport.and_then(|at| at.value).unwrap_or_default();
        profile.lay(keys, transport, &mut |path, _| {
            values.insert(path.to_string(), Origin::Profile(name.clone()));
        });
    }
    profile.origins = Arc::new(ProfileOrigins { values });
    profile
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_profiles_hold_no_mistake() {
        for (name, yaml) in BUILT_IN {
            let parsed = doc::parse(Syntax::Yaml, yaml.as_bytes());
            assert_eq!(parsed.flaws, [], "{name}");
            let tree = parsed.doc.unwrap();
            let policy = doc::read::<PolicyKeys>(&tree, Doc::ROOT);
            assert_eq!(policy.wrongs, [], "{name}");
            let strangers: Vec<_> = policy.unknown.iter().map(|u| u.key.as_str()).collect();
            assert!(strangers.iter().all(|key| *key == "transport"), "{name}: {strangers:?}");
            if let Some(node) = tree.get(Doc::ROOT, "transport") {
                let transport = doc::read::<TransportKeys>(&tree, node);
                assert_eq!(transport.wrongs, [], "{name}");
                assert!(transport.unknown.is_empty(), "{name}");
            }
        }
    }
}
