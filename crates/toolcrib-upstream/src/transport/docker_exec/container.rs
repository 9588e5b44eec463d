//! Containers: found, made with our labels, waited in, removed with all that they brought.

use std::collections::HashMap;
use std::time::Duration;

use bollard::models::{ContainerCreateBody, ContainerInspectResponse};
use bollard::query_parameters::{
    ContainerArchiveInfoOptions, CreateContainerOptions, ListContainersOptions,
    RemoveContainerOptions,
};
use tokio::time::{Instant, sleep};

use super::engine::{Engine, limited, status};
use super::fault::DockerFault;
use crate::process::Mark;

/// The host that a container belongs to, and the session.
const OWNER: &str = "toolcrib.owner";
const SESSION: &str = "toolcrib.session";

/// The image that a kept container was made for: it belongs to no host.
const KEPT: &str = "toolcrib.kept";

/// What waits in a container of ours while servers are run in it by `exec`. As the first process it must take
/// care of orphans, which a waiting shell does, and end when it is told.
const WAIT: [&str; 3] =
    ["sh", "-c", "trap 'exit 0' TERM INT; while :; do sleep 3600 & wait $!; done"];

/// How long a making or a removal that is under way may take.
const UNDER_WAY: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(50);

type Labels = HashMap<String, String>;

/// Of a container that is removed with its server.
pub(super) fn own_labels(mark: Mark) -> Labels {
    let owner = (OWNER.to_owned(), mark.instance.to_string());
    Labels::from([owner, (SESSION.to_owned(), mark.to_string())])
}

impl Engine {
    /// The id of a container that runs.
    pub(super) async fn running(&self, name: &str) -> Result<String, DockerFault> {
        let absent = || DockerFault::NoContainer { container: name.to_owned() };
        let found = self.find(name).await?.ok_or_else(absent)?;
        if !runs(&found) {
            return Err(DockerFault::NotRunning { container: name.to_owned() });
        }
        found.id.ok_or_else(absent)
    }

    /// The container that is kept for an image: the one that is there, or a new one.
    pub(super) async fn kept(&self, image: &str) -> Result<String, DockerFault> {
        let name = kept_name(image);
        if self.find(&name).await?.is_none() {
            let labels = Labels::from([(KEPT.to_owned(), image.to_owned())]);
            match self.make(image, labels, Some(name.clone())).await {
                // Somebody else has just made it.
                Err(error) if status(&error) == Some(409) => {}
                made => drop(made.map_err(|error| self.create_fault(image, error))?),
            }
        }
        let found = self.find_soon(&name).await?;
        let found = found.filter(|found| label(found, KEPT) == Some(image));
        let id = found.as_ref().and_then(|found| found.id.clone());
        let (Some(found), Some(id)) = (found, id) else {
            let cause = format!("the name `{name}` is taken by another container").into();
            return Err(DockerFault::Create { image: image.to_owned(), cause });
        };
        if !runs(&found) {
            self.start(image, &id).await?;
        }
        Ok(id)
    }

    /// Makes a container, which does not run yet.
    pub(super) async fn create(&self, image: &str, labels: Labels) -> Result<String, DockerFault> {
        let made = self.make(image, labels, None).await;
        made.map_err(|error| self.create_fault(image, error))
    }

    pub(super) async fn start(&self, image: &str, id: &str) -> Result<(), DockerFault> {
        let started = limited(self.docker.start_container(id, None)).await;
        started.map_err(|error| self.create_fault(image, error))
    }

    /// Removes a container whatever runs in it, with the volumes that have no name.
    pub(super) async fn remove(&self, id: &str) -> Result<(), DockerFault> {
        let deadline = Instant::now() + UNDER_WAY;
        loop {
            let options = RemoveContainerOptions { v: true, force: true, link: false };
            match limited(self.docker.remove_container(id, Some(options))).await {
                Ok(()) => return Ok(()),
                Err(error) if status(&error) == Some(404) => return Ok(()),
                // It is being removed.
                Err(error) if status(&error) == Some(409) && Instant::now() < deadline => {
                    sleep(POLL).await;
                }
                Err(error) => return Err(self.unreachable(error)),
            }
        }
    }

    /// The containers of one session, by their label.
    pub(super) async fn of_session(&self, mark: Mark) -> Result<Vec<String>, DockerFault> {
        let label = format!("{SESSION}={mark}");
        let filters = Some(HashMap::from([("label".to_owned(), vec![label])]));
        let options = ListContainersOptions { all: true, filters, ..Default::default() };
        let found = limited(self.docker.list_containers(Some(options))).await;
        let found = found.map_err(|error| self.unreachable(error))?;
        Ok(found.into_iter().filter_map(|container| container.id).collect())
    }

    /// Whether anything can run in it at all.
    pub(super) async fn lives(&self, container: &str) -> Result<bool, DockerFault> {
        Ok(self.find(container).await?.is_some_and(|found| runs(&found)))
    }

    /// Asked of its files, which is much cheaper than to try. Where that cannot be told, it has one.
    pub(super) async fn has_shell(&self, container: &str) -> bool {
        let options = ContainerArchiveInfoOptions { path: "/bin/sh".to_owned() };
        let found = limited(self.docker.get_container_archive_info(container, Some(options))).await;
        found.err().is_none_or(|error| status(&error) != Some(404))
    }

    async fn find(&self, name: &str) -> Result<Option<ContainerInspectResponse>, DockerFault> {
        // What is no name would be taken for another part of the request.
        if !is_name(name) {
            return Ok(None);
        }
        match limited(self.docker.inspect_container(name, None)).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if status(&error) == Some(404) => Ok(None),
            Err(error) => Err(self.unreachable(error)),
        }
    }

    /// One that is being made has its name before it can be found.
    async fn find_soon(&self, name: &str) -> Result<Option<ContainerInspectResponse>, DockerFault> {
        let deadline = Instant::now() + UNDER_WAY;
        loop {
            match self.find(name).await? {
                None if Instant::now() < deadline => sleep(POLL).await,
                found => return Ok(found),
            }
        }
    }

    async fn make(
        &self,
        image: &str,
        labels: Labels,
        name: Option<String>,
    ) -> Result<String, bollard::errors::Error> {
        let body = ContainerCreateBody {
            image: Some(image.to_owned()),
            entrypoint: Some(WAIT.map(str::to_owned).to_vec()),
            // Else the image's own would be given to ours as arguments.
            cmd: Some(Vec::new()),
            labels: Some(labels),
            ..ContainerCreateBody::default()
        };
        let options = CreateContainerOptions { name, ..Default::default() };
        limited(self.docker.create_container(Some(options), body)).await.map(|made| made.id)
    }

    fn create_fault(&self, image: &str, error: bollard::errors::Error) -> DockerFault {
        let image = image.to_owned();
        match status(&error) {
            None => self.unreachable(error),
            Some(404) => DockerFault::NoImage { image },
            Some(_) => DockerFault::Create { image, cause: Box::new(error) },
        }
    }
}

fn runs(found: &ContainerInspectResponse) -> bool {
    found.state.as_ref().and_then(|state| state.running).unwrap_or_default()
}

fn label<'a>(found: &'a ContainerInspectResponse, name: &str) -> Option<&'a str> {
    found.config.as_ref()?.labels.as_ref()?.get(name).map(String::as_str)
}

/// What engines accept as a container's name or id.
fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(plain)
}

/// The same for the same image, so that it is found again. The label tells apart what looks alike.
fn kept_name(image: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    format!("toolcrib-{}", image.chars().map(plain).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_change_a_request_is_no_name() {
        for good in ["pg-tools", "c0ffee", "a_b.c"] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", "../x", "a/b", "a?force=1", "a b", "-a", "a#b", "ä"] {
            assert!(!is_name(bad), "{bad}");
        }
    }

    #[test]
    fn a_kept_container_is_named_after_its_image() {
        assert_eq!(kept_name("registry.example/tools:1"), "toolcrib-registry.example-tools-1");
        assert!(is_name(&kept_name("a b?c")));
    }
}
