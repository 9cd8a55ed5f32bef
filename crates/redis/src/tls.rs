//! The provider of cryptography for `rediss://` URLs.

use tokio_rustls::rustls::crypto::{CryptoProvider, ring};

/// Chooses a provider of cryptography unless the process has chosen one. Without a choice the client panics when it
/// begins TLS and more than one provider is compiled in.
pub(super) fn choose_provider() {
    if CryptoProvider::get_default().is_none() {
        // The call fails if another thread has just chosen a provider.
        let _ = ring::default_provider().install_default();
    }
}
