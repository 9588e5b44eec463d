//! Validation of server URLs.

use url::{Host, Url};

use crate::model::transport::UrlPolicy;
use crate::secret_detection::mask_text;
use crate::text;

/// Checks a URL by its parsed parts. A prefix check would accept `localhost.evil.com` as loopback.
pub(crate) fn check_url(
    url: &str,
    schemes: &[&str],
    policy: UrlPolicy,
) -> Result<(), (&'static str, String)> {
    let shown = text::clip(&mask_text(url));
    let parsed = Url::parse(url)
        .map_err(|error| ("url.invalid", format!("`{shown}` is not a valid URL: {error}")))?;
    if !schemes.contains(&parsed.scheme()) {
        let text = format!("`{shown}` must begin with {}://", schemes.join(":// or "));
        return Err(("url.scheme", text));
    }
    if parsed.host().is_none() {
        return Err(("url.invalid", format!("`{shown}` has no host")));
    }
    if policy == UrlPolicy::HttpsOrLoopback
        && matches!(parsed.scheme(), "http")
        && !is_loopback(&parsed)
    {
        return Err(("url.insecure", format!("`{shown}` must use https, or http on this machine")));
    }
    Ok(())
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}
