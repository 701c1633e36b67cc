//! Everything that needs no outside server: one binary, one module per topic.
#![cfg(test)]
#![expect(unreachable_pub, reason = "modules of one test binary share helpers")]

mod canonical;
mod checker;
mod cli;
mod docs;
mod engine;
mod examples;
mod faults;
mod grammar;
mod grammar_search;
mod guards;
mod hold;
mod http;
mod http_apply;
mod http_faults;
mod http_keys;
mod http_queue;
mod http_security;
mod http_wire;
mod layers;
mod leasing;
mod locks;
#[cfg(feature = "sqlite")]
mod mapped;
mod plan;
mod race;
mod registry_meaning;
mod registry_rules;
mod registry_schema;
mod service;
mod sqlite;
mod strategies;
mod version_guard;
mod world;
