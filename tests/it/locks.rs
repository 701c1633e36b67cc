//! Scenarios that broke well-known lock libraries, by the names the project knows them under (LC-..). Time is moved by hand;
//! an actor is a process with a connection and a manager of its own. Left out here: LC-09 and LC-11 (one server's own
//! caches and failover), the cluster half of LC-10, LC-17 (a read mode).

mod holding;
mod process;
mod time;
mod waiting;
