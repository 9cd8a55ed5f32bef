//! The cryptography provider for `rediss://` URLs.

use tokio_rustls::rustls::crypto::{CryptoProvider, ring};

/// Installs a cryptography provider unless the process already has one. Without one, the client panics when it begins
/// TLS, if several providers are compiled in.
pub(super) fn choose_provider() {
    if CryptoProvider::get_default().is_none() {
        // The call fails if another thread has just installed a provider.
        let _ = ring::default_provider().install_default();
    }
}
