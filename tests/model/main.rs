//! Claims, fences, versions and traces, explored in every order: acquire and claim are two steps, commits and claims
//! arrive late, leases expire under living savers, savers die, answers are lost, the lease server forgets its keys.
//!
//! Every world is exhausted at up to three savers. Every defence is then taken out once, and a named property must
//! notice: a model that cannot fail proves nothing.

#[cfg(test)]
mod database;
#[cfg(test)]
mod design;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod state;
#[cfg(test)]
mod steps;
#[cfg(test)]
mod symmetry;
#[cfg(test)]
mod worlds;
