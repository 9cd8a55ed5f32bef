//! Addresses that a service will listen on when it is ready.

use std::io;
use std::net::SocketAddr;

use tokio::net::TcpSocket;

/// Finds out whether an address can be listened on, without listening: a client that connects before the service is ready
/// is refused, and not cut off.
///
/// # Errors
///
/// The error of the system, such as that another process listens there.
pub fn can_be_bound(address: SocketAddr) -> io::Result<()> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }?;
    // As that of a listener, so that connections of an earlier run are in nobody's way.
    socket.set_reuseaddr(true)?;
    socket.bind(address)
}
