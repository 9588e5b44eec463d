//! Relays a client to the running host, then to its successor, and finally serves the client in this process.

use std::pin::pin;
use std::time::Duration;

use tokio::io::{AsyncRead, duplex, split, stdin, stdout};
use tokio::time::{Instant, sleep, timeout};

use super::run_host;
use crate::args::ServeArgs;
use crate::host_access::StopSignals;
use crate::host_pipe;
use crate::output::Output;
use crate::relay::{EndedBy, Relay};
use crate::running_host::{self, HostClaim, HostSlot, RunningHost};
use crate::settings::Settings;

/// Time that the slot of an ended host stays reserved for others: a `toolcrib serve` that restarts gets it back, with
/// its address. The client waits no longer for this than for a slow tool.
const TAKEOVER_GRACE: Duration = Duration::from_secs(3);

/// A host that ran this long did not fail.
const MIN_LIFETIME: Duration = Duration::from_secs(10);

/// Number of consecutive short-lived hosts until the relay gives up, and the delay after the first one. The delay
/// doubles each time.
const MAX_SHORT_LIVED: u32 = 5;
const FIRST_DELAY: Duration = Duration::from_millis(200);

/// Buffer size between the client and the host in this process.
const DUPLEX_BUFFER: usize = 64 << 10;

/// Time limit for writing the last responses after the host of this process has ended.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// Relays the client to the running host until the client closes.
pub(super) async fn relay_to_host(
    settings: &Settings,
    out: &Output,
    args: &ServeArgs,
    running: RunningHost,
    mut stop: StopSignals,
) -> Result<(), String> {
    let root = settings.root().display();
    if !args.stdio {
        return Err(format!("a host of {root} runs already: {}", running.describe()));
    }
    check_same_files(settings, &running)?;
    if args.listen.is_some() {
        let host = running.describe();
        out.print_note(&format!("--listen is ignored: a host of {root} runs already: {host}"));
    }
    let mut relay = Relay::new(stdin(), stdout());
    let followed = tokio::select! {
        followed = follow_hosts(settings, out, &mut relay, running) => followed,
        () = stop.recv() => Ok(None),
    };
    let done = match followed {
        Ok(Some(claim)) => take_over(settings, out, args, (claim, stop), &mut relay).await,
        Ok(None) => Ok(()),
        Err(error) => Err(error),
    };
    relay.close().await;
    done
}

/// Relays the client to one host after the other. Returns the claim if this process must become the host, or `None`
/// when the client closed.
async fn follow_hosts(
    settings: &Settings,
    out: &Output,
    relay: &mut Relay<impl AsyncRead + Unpin>,
    mut running: RunningHost,
) -> Result<Option<HostClaim>, String> {
    let mut backoff = RestartBackoff::default();
    loop {
        let begun = Instant::now();
        let Some(ended) = relay_until_end(relay, &running).await else { return Ok(None) };
        let Some(pause) = backoff.next_delay(begun.elapsed()) else {
            return Err(format!("{ended}; {MAX_SHORT_LIVED} times in a row"));
        };
        let place = tokio::select! {
            place = next_host(settings, pause) => place?,
            () = relay.buffer_client() => return Ok(None),
        };
        match place {
            HostSlot::Taken(next) => {
                check_same_files(settings, &next)?;
                out.print_note(&format!("{ended}: the client continues with {}", next.describe()));
                running = next;
            }
            HostSlot::Free(claim) => {
                out.print_note(&format!("{ended}: this process becomes the host"));
                return Ok(Some(claim));
            }
        }
    }
}

/// Relays to one host. Returns `None` when the client closed, or else the reason why the host cannot be used.
async fn relay_until_end(
    relay: &mut Relay<impl AsyncRead + Unpin>,
    running: &RunningHost,
) -> Option<String> {
    let host = match host_pipe::open(running).await {
        Ok(host) => host,
        Err(error) => return Some(error),
    };
    match relay.relay_to(host).await {
        EndedBy::Client => None,
        EndedBy::Host => {
            Some(format!("the host of this workspace has ended ({})", running.describe()))
        }
    }
}

async fn next_host(settings: &Settings, pause: Duration) -> Result<HostSlot, String> {
    sleep(pause).await;
    running_host::claim_after_end(settings, TAKEOVER_GRACE).await
}

/// Serves the client in this process. Either one ends the other.
async fn take_over(
    settings: &Settings,
    out: &Output,
    args: &ServeArgs,
    (claim, stop): (HostClaim, StopSignals),
    relay: &mut Relay<impl AsyncRead + Unpin>,
) -> Result<(), String> {
    let (here, there) = duplex(DUPLEX_BUFFER);
    let (input, output) = split(there);
    let streams = (Box::new(input) as _, Box::new(output) as _);
    let mut hosting = pin!(run_host(settings, out, args, claim, stop, Some(streams)));
    let mut relaying = pin!(relay.relay_to_last(here));
    tokio::select! {
        served = &mut hosting => {
            // A client that does not read by now is abandoned.
            let _ = timeout(DRAIN_TIMEOUT, relaying).await;
            served
        }
        () = &mut relaying => hosting.await,
    }
}

fn check_same_files(settings: &Settings, running: &RunningHost) -> Result<(), String> {
    let (root, host) = (settings.root().display(), running.describe());
    match running.matches_settings(settings) {
        true => Ok(()),
        false => {
            Err(format!("a host of {root} with other configuration files runs already: {host}"))
        }
    }
}

/// Number of consecutive hosts that ended too soon.
#[derive(Debug, Default)]
struct RestartBackoff(u32);

impl RestartBackoff {
    /// Returns the delay before the next host, or `None` to give up.
    fn next_delay(&mut self, lasted: Duration) -> Option<Duration> {
        self.0 = if lasted >= MIN_LIFETIME { 0 } else { self.0 + 1 };
        match self.0 {
            0 => Some(Duration::ZERO),
            short if short < MAX_SHORT_LIVED => Some(FIRST_DELAY * 2_u32.pow(short - 1)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restart_backoff_grows_and_gives_up_after_short_lived_hosts() {
        let mut backoff = RestartBackoff::default();
        let short = Duration::from_secs(1);
        let millis = |pause: Option<Duration>| pause.map(|pause| pause.as_millis());
        assert_eq!(
            [short; 4].map(|it| millis(backoff.next_delay(it))),
            [200, 400, 800, 1600].map(Some)
        );
        assert_eq!(
            backoff.next_delay(MIN_LIFETIME),
            Some(Duration::ZERO),
            "a long-lived host resets the backoff"
        );
        assert_eq!(
            [short; 5].map(|it| backoff.next_delay(it).is_some()),
            [true, true, true, true, false]
        );
    }
}
