//! The cryptography provider for `rediss://` URLs.

use tokio_rustls::rustls::crypto::{CryptoProvider, ring};

/// Installs a cryptography provider unless the process has one. If several providers are compiled in and none is
/// installed, the client panics when it begins TLS.
pub(super) fn choose_provider() {
    if CryptoProvider::get_default().is_none() {
        // The call fails if another thread has just installed a provider.
        let _ = ring::default_provider().install_default();
    }
}
