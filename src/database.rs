//! What the backends in databases share: statements and migrations out of files.

pub mod migration;
pub mod named;
