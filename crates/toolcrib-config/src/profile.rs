//! Profiles: five built-in sets of defaults and the user's own.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use crate::compile_context::CompileContext;
use crate::dialect::{Dialect, ProfileDraft};
use crate::doc::{self, Doc, NodeId, Syntax};
use crate::model::policy::{Policy, PolicyKeys};
use crate::model::setting::{Layer, Setting};
use crate::model::transport::{TransportKeys, TransportSettings};
use crate::model::{ProfileOrigins, ValueOrigin};
use crate::text;

/// Complete defaults of a server.
#[derive(Clone, Debug)]
pub(crate) struct Profile {
    pub(crate) policy: Policy,
    pub(crate) transport: TransportSettings,
    pub(crate) origins: Arc<ProfileOrigins>,
    /// True if the profile and its base could be read completely.
    pub(crate) is_valid: bool,
}

/// The profiles that a configuration may name.
#[derive(Clone, Debug)]
pub(crate) struct Profiles {
    profiles: BTreeMap<String, Arc<Profile>>,
}

/// The built-in profiles as native text, parsed like any other.
const BUILT_IN_TEXTS: &[(&str, &str)] = &[
    ("native", ""),
    ("dominds", include_str!("profiles/dominds.yaml")),
    ("dispatch", include_str!("profiles/dispatch.yaml")),
    ("holodeck", include_str!("profiles/holodeck.yaml")),
    ("minion", include_str!("profiles/minion.yaml")),
    ("docker", include_str!("profiles/docker.yaml")),
];

/// Maximum number of custom profiles. Each is complete, and each may wait for another one.
const MAX_CUSTOM: usize = 200;

/// The built-in profiles never change, so they are parsed once.
static BUILT_IN_PROFILES: LazyLock<BTreeMap<String, Arc<Profile>>> = LazyLock::new(|| {
    BUILT_IN_TEXTS
        .iter()
        .map(|(name, text)| ((*name).to_string(), Arc::new(parse_built_in(name, text))))
        .collect()
});

impl Profiles {
    pub(crate) fn built_in() -> Self {
        let profiles = BUILT_IN_PROFILES.clone();
        Self { profiles }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Profile> {
        self.profiles.get(name).map(|profile| &**profile)
    }

    pub(crate) fn names(&self) -> Vec<&str> {
        self.profiles.keys().map(String::as_str).collect()
    }

    /// Adds a file's profiles, each after its base.
    pub(crate) fn add(&mut self, cx: &mut CompileContext<'_>, mut drafts: Vec<ProfileDraft>) {
        drafts.retain(|draft| self.is_free(cx, draft));
        let room = (BUILT_IN_TEXTS.len() + MAX_CUSTOM).saturating_sub(self.profiles.len());
        if let Some(first) = drafts.get(room) {
            let text = format!("there are more than {MAX_CUSTOM} profiles; the rest is not used");
            cx.error(first.node, "profile.too_many", text, "use fewer profiles");
            drafts.truncate(room);
        }
        loop {
            let (ready, waiting): (Vec<_>, Vec<_>) = drafts.into_iter().partition(|draft| {
                self.profiles
                    .contains_key(draft.base.as_deref().unwrap_or(Dialect::Native.as_str()))
            });
            if ready.is_empty() {
                return waiting.iter().for_each(|draft| report_missing_base(cx, draft));
            }
            ready.into_iter().for_each(|draft| self.build(cx, draft));
            drafts = waiting;
        }
    }

    fn is_free(&self, cx: &mut CompileContext<'_>, draft: &ProfileDraft) -> bool {
        let built_in = BUILT_IN_TEXTS.iter().any(|(name, _)| *name == draft.name);
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

    fn build(&mut self, cx: &CompileContext<'_>, draft: ProfileDraft) {
        let base = draft.base.as_deref().unwrap_or(Dialect::Native.as_str());
        let Some(mut profile) = self.get(base).cloned() else {
            return;
        };
        profile.is_valid &= draft.is_valid;
        let mut values = profile.origins.values.clone();
        let origin = |node: Option<NodeId>| ValueOrigin::File {
            source: cx.label.clone(),
            location: cx.doc.location(node.unwrap_or(draft.node)),
            key: cx.doc.path(node.unwrap_or(draft.node)),
        };
        profile.overlay_keys(draft.policy, draft.transport, &mut |path, node| {
            values.insert(path.to_string(), origin(node));
        });
        profile.origins = Arc::new(ProfileOrigins { values });
        self.profiles.insert(draft.name, Arc::new(profile));
    }
}

impl Profile {
    /// Overlays keys on the defaults. `record` receives each changed path.
    pub(crate) fn overlay_keys(
        &mut self,
        policy: PolicyKeys,
        transport: TransportKeys,
        record: &mut dyn FnMut(&str, Option<NodeId>),
    ) {
        let mut layer = Layer::new(record);
        self.policy.overlay(policy, &mut layer);
        layer.field("transport", &mut self.transport, Some(doc::At::without_location(transport)));
    }
}

fn report_missing_base(cx: &mut CompileContext<'_>, draft: &ProfileDraft) {
    let base = text::clip(draft.base.as_deref().unwrap_or_default());
    let text = format!("profile `{}` has the unknown base `{base}`", draft.name);
    cx.error(draft.node, "profile.unknown", text, "name a built-in profile or one of this file");
}

fn parse_built_in(name: &str, yaml: &str) -> Profile {
    #[derive(Default, serde::Deserialize)]
    #[serde(default)]
    struct TransportOnly {
        transport: Option<doc::At<TransportKeys>>,
    }
    let name: Arc<str> = name.into();
    let mut values = BTreeMap::new();
    let (policy, transport) = (Policy::default(), TransportSettings::default());
    let mut profile = Profile { policy, transport, origins: Arc::default(), is_valid: true };
    if let Some(tree) = doc::parse(Syntax::Yaml, yaml.as_bytes()).doc {
        let keys = doc::deserialize::<PolicyKeys>(&tree, Doc::ROOT).value.unwrap_or_default();
        let own = doc::deserialize::<TransportOnly>(&tree, Doc::ROOT).value.unwrap_or_default();
        let transport = own.transport.and_then(|at| at.value).unwrap_or_default();
        profile.overlay_keys(keys, transport, &mut |path, _| {
            values.insert(path.to_string(), ValueOrigin::Profile(name.clone()));
        });
    }
    profile.origins = Arc::new(ProfileOrigins { values });
    profile
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_profiles_have_no_defects() {
        for (name, yaml) in BUILT_IN_TEXTS {
            let parsed = doc::parse(Syntax::Yaml, yaml.as_bytes());
            assert_eq!(parsed.defects, [], "{name}");
            let tree = parsed.doc.unwrap();
            let policy = doc::deserialize::<PolicyKeys>(&tree, Doc::ROOT);
            assert_eq!(policy.errors, [], "{name}");
            let unknown_keys: Vec<_> = policy.unknown.iter().map(|u| u.key.as_str()).collect();
            assert!(unknown_keys.iter().all(|key| *key == "transport"), "{name}: {unknown_keys:?}");
            if let Some(node) = tree.get(Doc::ROOT, "transport") {
                let transport = doc::deserialize::<TransportKeys>(&tree, node);
                assert_eq!(transport.errors, [], "{name}");
                assert!(transport.unknown.is_empty(), "{name}");
            }
        }
    }
}
