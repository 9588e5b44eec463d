//! A client of the host that runs, and of whoever is the host after it: another, or in the end this process.

use std::pin::pin;
use std::time::Duration;

use tokio::io::{AsyncRead, duplex, split, stdin, stdout};
use tokio::time::{Instant, sleep, timeout};

use super::be_the_host;
use crate::args::Serve;
use crate::hosted::Stop;
use crate::out::Out;
use crate::pipe;
use crate::relay::{Left, Relay};
use crate::running::{self, Claim, Place, Running};
use crate::settings::Settings;

/// How long the place of a host that has ended is left to others: a `toolcrib serve` that is being restarted gets it
/// back, address and all. Its client waits no longer for that than for a slow tool.
const GRACE: Duration = Duration::from_secs(3);

/// A host that lasted so long was no failure.
const LASTING: Duration = Duration::from_secs(10);

/// Hosts in a row that may end sooner, and how long is waited after the first of them; twice as long each time.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(200);

/// Bytes between a client and the host in one process.
const ROOM: usize = 64 << 10;

/// How long the last answers may take to be written when the host of this process has ended.
const LAST: Duration = Duration::from_secs(2);

/// Passes a client on to the host that runs, until the client ends.
pub(super) async fn join(
    settings: &Settings,
    out: &Out,
    args: &Serve,
    running: Running,
    mut stop: Stop,
) -> Result<(), String> {
    let root = settings.root().display();
    if !args.stdio {
        return Err(format!("a host of {root} runs already: {}", running.told()));
    }
    check(settings, &running)?;
    if args.listen.is_some() {
        let host = running.told();
        out.note(&format!("no address is opened: a host of {root} runs already: {host}"));
    }
    let mut relay = Relay::new(stdin(), stdout());
    let followed = tokio::select! {
        followed = follow(settings, out, &mut relay, running) => followed,
        () = stop.heard() => Ok(None),
    };
    let done = match followed {
        Ok(Some(claim)) => take_over(settings, out, args, (claim, stop), &mut relay).await,
        Ok(None) => Ok(()),
        Err(error) => Err(error),
    };
    relay.end().await;
    done
}

/// One host after the other, until the client ends or there is no other: then the place is this process's.
async fn follow(
    settings: &Settings,
    out: &Out,
    relay: &mut Relay<impl AsyncRead + Unpin>,
    mut running: Running,
) -> Result<Option<Claim>, String> {
    let mut tries = Tries::default();
    loop {
        let begun = Instant::now();
        let Some(ended) = speak(relay, &running).await else { return Ok(None) };
        let Some(pause) = tries.after(begun.elapsed()) else {
            return Err(format!("{ended}; so it was {TRIES} times in a row"));
        };
        let place = tokio::select! {
            place = next(settings, pause) => place?,
            () = relay.hear() => return Ok(None),
        };
        match place {
            Place::Taken(next) => {
                check(settings, &next)?;
                out.note(&format!("{ended}: its clients go on with {}", next.told()));
                running = next;
            }
            Place::Free(claim) => {
                out.note(&format!("{ended}: this process is the host now"));
                return Ok(Some(claim));
            }
        }
    }
}

/// Speaks with a host until the client ends, or until it cannot be spoken with any more: why.
async fn speak(relay: &mut Relay<impl AsyncRead + Unpin>, running: &Running) -> Option<String> {
    let host = match pipe::open(running).await {
        Ok(host) => host,
        Err(error) => return Some(error),
    };
    match relay.through(host).await {
        Left::Client => None,
        Left::Host => Some(format!("the host of this root has ended ({})", running.told())),
    }
}

async fn next(settings: &Settings, pause: Duration) -> Result<Place, String> {
    sleep(pause).await;
    running::succeed(settings, GRACE).await
}

/// The client is served by this process from now on, and the end of one of them is the other's.
async fn take_over(
    settings: &Settings,
    out: &Out,
    args: &Serve,
    (claim, stop): (Claim, Stop),
    relay: &mut Relay<impl AsyncRead + Unpin>,
) -> Result<(), String> {
    let (here, there) = duplex(ROOM);
    let (input, output) = split(there);
    let streams = (Box::new(input) as _, Box::new(output) as _);
    let mut hosting = pin!(be_the_host(settings, out, args, claim, stop, Some(streams)));
    let mut relaying = pin!(relay.last(here));
    tokio::select! {
        served = &mut hosting => {
            // Whoever does not read now will not.
            let _ = timeout(LAST, relaying).await;
            served
        }
        () = &mut relaying => hosting.await,
    }
}

fn check(settings: &Settings, running: &Running) -> Result<(), String> {
    let (root, host) = (settings.root().display(), running.told());
    match running.is_of(settings) {
        true => Ok(()),
        false => Err(format!("a host of {root} runs already and reads other files: {host}")),
    }
}

/// Hosts in a row that ended too soon.
#[derive(Debug, Default)]
struct Tries(u32);

impl Tries {
    /// How long to wait after a host that lasted so long; nothing where it is no use to go on.
    fn after(&mut self, lasted: Duration) -> Option<Duration> {
        self.0 = if lasted >= LASTING { 0 } else { self.0 + 1 };
        match self.0 {
            0 => Some(Duration::ZERO),
            short if short < TRIES => Some(PAUSE * 2_u32.pow(short - 1)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_end_at_once_are_waited_for_longer_and_longer_and_then_given_up() {
        let mut tries = Tries::default();
        let short = Duration::from_secs(1);
        let millis = |pause: Option<Duration>| pause.map(|pause| pause.as_millis());
        assert_eq!([short; 4].map(|it| millis(tries.after(it))), [200, 400, 800, 1600].map(Some));
        assert_eq!(tries.after(LASTING), Some(Duration::ZERO), "one that lasted makes up for all");
        assert_eq!([short; 5].map(|it| tries.after(it).is_some()), [true, true, true, true, false]);
    }
}
