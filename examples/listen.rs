//! Addresses that a service will listen on when it is ready.

use std::io;
use std::net::SocketAddr;

use tokio::net::TcpSocket;

/// Checks that a service can listen on an address, without listening yet. As long as the service is not ready, a
/// client's connection is refused rather than cut off.
///
/// # Errors
///
/// The system's error, for example if another process listens on the address.
pub fn check_address(address: SocketAddr) -> io::Result<()> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }?;
    // A listener sets this option too, so that connections of an earlier run do not block the address.
    socket.set_reuseaddr(true)?;
    socket.bind(address)
}
