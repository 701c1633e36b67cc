//! The network side against real servers.

mod cluster;
mod faults;
mod sentinel;
mod server;
mod single;
mod tls;
