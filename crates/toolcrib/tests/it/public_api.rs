//! The names that the crate exports. A changed list is a changed API.

/// Every name in the root of the crate.
const NAMES: &[&str] = &[
    "Artifact",
    "Audience",
    "CallContext",
    "CallError",
    "CallFacts",
    "CallRequest",
    "CallResult",
    "ChangedDefinition",
    "Dialog",
    "DialogCapabilities",
    "DialogError",
    "DialogRequest",
    "ErrorKind",
    "EventListener",
    "Execution",
    "Host",
    "HostBuilder",
    "HostEvent",
    "HostStats",
    "Lease",
    "ModelItem",
    "NativeCall",
    "NativeError",
    "NativeTool",
    "NativeToolDefinition",
    "NativeToolFuture",
    "NativeToolset",
    "PendingRequest",
    "Problem",
    "Prompt",
    "Reload",
    "ReloadOutcome",
    "ReloadedServer",
    "Reminder",
    "Resource",
    "ResourceSubscription",
    "ResourceTemplate",
    "ServerOperationError",
    "ServerStatus",
    "StartError",
    "Store",
    "StoreLimits",
    "SwitchError",
    "Tool",
    "Trust",
    "TrustFile",
    "Turn",
    "config",
    "model_items",
];

#[test]
fn root_exports_only_the_documented_names() {
    let source = include_str!("../../src/lib.rs");
    let (root, _) = source.split_once("#[doc(hidden)]").unwrap();
    let mut names: Vec<&str> = root
        .split("\npub use ")
        .skip(1)
        .filter_map(|rest| rest.split(';').next())
        .flat_map(|path| path.split(['{', '}', ',']))
        .map(str::trim)
        .filter(|name| !name.is_empty() && !name.ends_with("::"))
        .map(|name| name.rsplit([' ', ':']).next().unwrap_or(name))
        .collect();
    names.sort_unstable();
    assert_eq!(names, NAMES);
    assert!(!root.contains("\npub mod "), "modules are private");
}
