//! TLS configuration that all connections of a host share.

use std::sync::{Arc, OnceLock};

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, ConfigBuilder, Error, RootCertStore, WantsVerifier};
use rustls_platform_verifier::BuilderVerifierExt;

/// The trusted certificate authorities: by default those of the system, loaded with the first connection. Clones share
/// them.
#[derive(Clone, Debug, Default)]
pub struct Tls(Arc<OnceLock<Arc<ClientConfig>>>);

impl Tls {
    /// Trusts only these authorities.
    pub fn with_authorities(
        authorities: impl IntoIterator<Item = CertificateDer<'static>>,
    ) -> Result<Self, Error> {
        let mut roots = RootCertStore::empty();
        authorities.into_iter().try_for_each(|authority| roots.add(authority))?;
        let config = config_builder()?.with_root_certificates(roots).with_no_client_auth();
        Ok(Self(Arc::new(OnceLock::from(Arc::new(config)))))
    }

    pub(crate) fn config(&self) -> Result<Arc<ClientConfig>, Error> {
        if let Some(config) = self.0.get() {
            return Ok(Arc::clone(config));
        }
        let config = config_builder()?.with_platform_verifier()?.with_no_client_auth();
        Ok(Arc::clone(self.0.get_or_init(|| Arc::new(config))))
    }

    /// Configuration of clients that use only plain HTTP. Loads no authorities.
    pub(crate) fn without_authorities() -> Result<ClientConfig, Error> {
        Ok(config_builder()?.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
    }
}

/// Names the crypto provider explicitly: the process-wide default belongs to the embedding program.
fn config_builder() -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, Error> {
    let provider = Arc::new(ring::default_provider());
    ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()
}
