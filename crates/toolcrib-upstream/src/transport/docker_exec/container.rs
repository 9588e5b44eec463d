//! Finds, creates, starts and removes containers.

use std::collections::HashMap;
use std::time::Duration;

use bollard::models::{ContainerCreateBody, ContainerInspectResponse};
use bollard::query_parameters::{
    ContainerArchiveInfoOptions, CreateContainerOptions, ListContainersOptions,
    RemoveContainerOptions,
};
use tokio::time::{Instant, sleep};

use super::engine::{DockerEngine, response_status, with_call_timeout};
use super::fault::DockerFault;
use crate::process::OwnerMark;

/// Labels with the host instance and the session that own a container.
const OWNER_LABEL: &str = "toolcrib.owner";
const SESSION_LABEL: &str = "toolcrib.session";

/// Label with the image of a kept container, which belongs to no host.
const KEPT_LABEL: &str = "toolcrib.kept";

/// First process of our containers. It waits while servers run by `exec`, reaps orphans, as a waiting shell does, and
/// ends on a signal.
const WAIT_COMMAND: [&str; 3] =
    ["sh", "-c", "trap 'exit 0' TERM INT; while :; do sleep 3600 & wait $!; done"];

/// Time limit for a creation or removal in progress.
const PENDING_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

type Labels = HashMap<String, String>;

/// Labels of a container that is removed with its server.
pub(super) fn session_labels(mark: OwnerMark) -> Labels {
    let owner = (OWNER_LABEL.to_owned(), mark.instance.to_string());
    Labels::from([owner, (SESSION_LABEL.to_owned(), mark.to_string())])
}

impl DockerEngine {
    /// The id of a running container.
    pub(super) async fn running_container(&self, name: &str) -> Result<String, DockerFault> {
        let absent = || DockerFault::NoContainer { container: name.to_owned() };
        let found = self.inspect(name).await?.ok_or_else(absent)?;
        if !is_container_running(&found) {
            return Err(DockerFault::NotRunning { container: name.to_owned() });
        }
        found.id.ok_or_else(absent)
    }

    /// The kept container of an image. Creates it if it is missing.
    pub(super) async fn kept_container(&self, image: &str) -> Result<String, DockerFault> {
        let name = kept_container_name(image);
        if self.inspect(&name).await?.is_none() {
            let labels = Labels::from([(KEPT_LABEL.to_owned(), image.to_owned())]);
            match self.try_create(image, labels, Some(name.clone())).await {
                // Another host has just created the container.
                Err(error) if response_status(&error) == Some(409) => {}
                made => drop(made.map_err(|error| self.create_fault(image, error))?),
            }
        }
        let found = self.inspect_when_created(&name).await?;
        let found = found.filter(|found| container_label(found, KEPT_LABEL) == Some(image));
        let id = found.as_ref().and_then(|found| found.id.clone());
        let (Some(found), Some(id)) = (found, id) else {
            let cause = format!("the name `{name}` is taken by another container").into();
            return Err(DockerFault::Create { image: image.to_owned(), cause });
        };
        if !is_container_running(&found) {
            self.start_container(image, &id).await?;
        }
        Ok(id)
    }

    /// Creates a container without starting it.
    pub(super) async fn create_container(
        &self,
        image: &str,
        labels: Labels,
    ) -> Result<String, DockerFault> {
        let made = self.try_create(image, labels, None).await;
        made.map_err(|error| self.create_fault(image, error))
    }

    pub(super) async fn start_container(&self, image: &str, id: &str) -> Result<(), DockerFault> {
        let started = with_call_timeout(self.docker.start_container(id, None)).await;
        started.map_err(|error| self.create_fault(image, error))
    }

    /// Removes a container with its processes and its anonymous volumes.
    pub(super) async fn remove_container(&self, id: &str) -> Result<(), DockerFault> {
        let deadline = Instant::now() + PENDING_TIMEOUT;
        loop {
            let options = RemoveContainerOptions { v: true, force: true, link: false };
            match with_call_timeout(self.docker.remove_container(id, Some(options))).await {
                Ok(()) => return Ok(()),
                Err(error) if response_status(&error) == Some(404) => return Ok(()),
                // Another removal is in progress.
                Err(error) if response_status(&error) == Some(409) && Instant::now() < deadline => {
                    sleep(POLL_INTERVAL).await;
                }
                Err(error) => return Err(self.unreachable(error)),
            }
        }
    }

    /// The containers with the label of one session.
    pub(super) async fn session_containers(
        &self,
        mark: OwnerMark,
    ) -> Result<Vec<String>, DockerFault> {
        let label = format!("{SESSION_LABEL}={mark}");
        let filters = Some(HashMap::from([("label".to_owned(), vec![label])]));
        let options = ListContainersOptions { all: true, filters, ..Default::default() };
        let found = with_call_timeout(self.docker.list_containers(Some(options))).await;
        let found = found.map_err(|error| self.unreachable(error))?;
        Ok(found.into_iter().filter_map(|container| container.id).collect())
    }

    pub(super) async fn is_running(&self, container: &str) -> Result<bool, DockerFault> {
        Ok(self.inspect(container).await?.is_some_and(|found| is_container_running(&found)))
    }

    /// True if the container has `/bin/sh`. Checking the file system is much cheaper than running it. Assumes a shell
    /// if the check fails.
    pub(super) async fn has_shell(&self, container: &str) -> bool {
        let options = ContainerArchiveInfoOptions { path: "/bin/sh".to_owned() };
        let found =
            with_call_timeout(self.docker.get_container_archive_info(container, Some(options)))
                .await;
        found.err().is_none_or(|error| response_status(&error) != Some(404))
    }

    async fn inspect(&self, name: &str) -> Result<Option<ContainerInspectResponse>, DockerFault> {
        // Characters outside of names could change the path of the API request.
        if !is_container_name(name) {
            return Ok(None);
        }
        match with_call_timeout(self.docker.inspect_container(name, None)).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if response_status(&error) == Some(404) => Ok(None),
            Err(error) => Err(self.unreachable(error)),
        }
    }

    /// The engine reserves the name of a container before the container can be inspected.
    async fn inspect_when_created(
        &self,
        name: &str,
    ) -> Result<Option<ContainerInspectResponse>, DockerFault> {
        let deadline = Instant::now() + PENDING_TIMEOUT;
        loop {
            match self.inspect(name).await? {
                None if Instant::now() < deadline => sleep(POLL_INTERVAL).await,
                found => return Ok(found),
            }
        }
    }

    async fn try_create(
        &self,
        image: &str,
        labels: Labels,
        name: Option<String>,
    ) -> Result<String, bollard::errors::Error> {
        let body = ContainerCreateBody {
            image: Some(image.to_owned()),
            entrypoint: Some(WAIT_COMMAND.map(str::to_owned).to_vec()),
            // An empty command keeps the image's own command from becoming arguments of ours.
            cmd: Some(Vec::new()),
            labels: Some(labels),
            ..ContainerCreateBody::default()
        };
        let options = CreateContainerOptions { name, ..Default::default() };
        with_call_timeout(self.docker.create_container(Some(options), body))
            .await
            .map(|made| made.id)
    }

    fn create_fault(&self, image: &str, error: bollard::errors::Error) -> DockerFault {
        let image = image.to_owned();
        match response_status(&error) {
            None => self.unreachable(error),
            Some(404) => DockerFault::NoImage { image },
            Some(_) => DockerFault::Create { image, cause: Box::new(error) },
        }
    }
}

fn is_container_running(found: &ContainerInspectResponse) -> bool {
    found.state.as_ref().and_then(|state| state.running).unwrap_or_default()
}

fn container_label<'a>(found: &'a ContainerInspectResponse, name: &str) -> Option<&'a str> {
    found.config.as_ref()?.labels.as_ref()?.get(name).map(String::as_str)
}

/// True if engines accept the text as a container name or id.
fn is_container_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(plain)
}

/// Derives a stable name from the image. The label distinguishes images with the same name.
fn kept_container_name(image: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    format!("toolcrib-{}", image.chars().map(plain).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_url_syntax_are_rejected() {
        for good in ["pg-tools", "c0ffee", "a_b.c"] {
            assert!(is_container_name(good), "{good}");
        }
        for bad in ["", "../x", "a/b", "a?force=1", "a b", "-a", "a#b", "ä"] {
            assert!(!is_container_name(bad), "{bad}");
        }
    }

    #[test]
    fn kept_container_is_named_after_image() {
        assert_eq!(
            kept_container_name("registry.example/tools:1"),
            "toolcrib-registry.example-tools-1"
        );
        assert!(is_container_name(&kept_container_name("a b?c")));
    }
}
