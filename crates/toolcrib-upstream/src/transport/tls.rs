//! One TLS set-up for all connections of a host, whatever protocol they carry.

use std::sync::{Arc, OnceLock};

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, ConfigBuilder, Error, RootCertStore, WantsVerifier};
use rustls_platform_verifier::BuilderVerifierExt;

/// Whom the host trusts: by default whom the system does, read when the first connection needs it. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Tls(Arc<OnceLock<Arc<ClientConfig>>>);

impl Tls {
    /// Trusts whomever one of these authorities vouches for, and nobody else.
    pub fn trusting(
        authorities: impl IntoIterator<Item = CertificateDer<'static>>,
    ) -> Result<Self, Error> {
        let mut roots = RootCertStore::empty();
        authorities.into_iter().try_for_each(|authority| roots.add(authority))?;
        let config = builder()?.with_root_certificates(roots).with_no_client_auth();
        Ok(Self(Arc::new(OnceLock::from(Arc::new(config)))))
    }

    pub(crate) fn config(&self) -> Result<Arc<ClientConfig>, Error> {
        if let Some(config) = self.0.get() {
            return Ok(Arc::clone(config));
        }
        let config = builder()?.with_platform_verifier()?.with_no_client_auth();
        Ok(Arc::clone(self.0.get_or_init(|| Arc::new(config))))
    }

    /// For clients that never leave plain HTTP: nobody is trusted, and nothing has to be read.
    pub(crate) fn unused() -> Result<ClientConfig, Error> {
        Ok(builder()?.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
    }
}

/// The provider is named: the process-wide default belongs to whoever embeds this library.
fn builder() -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, Error> {
    let provider = Arc::new(ring::default_provider());
    ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()
}
