//! What a user must be allowed, and the line that allows it.

/// Commands that leases and version guards send, in scripts and outside. Tried one by one on a key of our own.
pub(super) const TRIED: &[&str] = &[
    "SET",
    "GET",
    "PTTL",
    "PEXPIRE",
    "SETRANGE",
    "EXISTS",
    "HSET",
    "HGET",
    "HGETALL",
    "HLEN",
    "HDEL",
    "HINCRBY",
    "ZADD",
    "ZREM",
    "ZCARD",
    "ZLEXCOUNT",
    "ZRANGEBYLEX",
    "ZRANGEBYSCORE",
    "PUBLISH",
    "TIME",
    "EVALSHA",
    "DEL",
];

/// Commands of a connection, which are tried by connecting and subscribing.
const OF_A_CONNECTION: &[&str] =
    &["HELLO", "AUTH", "PING", "ROLE", "CLIENT|SETNAME", "SUBSCRIBE", "UNSUBSCRIBE", "EVAL"];

/// What only these checks need. Without them some findings are missing, and leases work.
const OF_CHECKS: &[&str] = &["INFO", "CONFIG|GET", "SCAN", "TYPE"];

/// The least a user needs, as one command. Every word of it is known to Redis 6.2, 7.0 and Valkey 9 alike: nothing of
/// ours needs `CLIENT SETINFO`, which Redis 7.0 cannot permit.
pub(super) fn line(namespace: &str, clustered: bool, database: bool) -> String {
    let mut words: Vec<String> = ["ACL", "SETUSER", "fieldlease", "on", ">PASSWORD", "resetkeys"]
        .iter()
        .map(|word| (*word).to_owned())
        .collect();
    words.push(format!("~{namespace}:*"));
    words.push("resetchannels".to_owned());
    words.push(format!("&{namespace}:*"));
    words.push("-@all".to_owned());
    let cluster: &[&str] =
        if clustered { &["CLUSTER|SLOTS", "CLUSTER|INFO", "ASKING"] } else { &[] };
    let select: &[&str] = if database { &["SELECT"] } else { &[] };
    for part in [OF_A_CONNECTION, TRIED, cluster, select, OF_CHECKS] {
        words.extend(part.iter().map(|command| format!("+{}", command.to_ascii_lowercase())));
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_command_of_a_script_is_tried() {
        let scripts = [
            include_str!("../acquire.lua"),
            include_str!("../common.lua"),
            include_str!("../inspect.lua"),
            include_str!("../release.lua"),
            include_str!("../release_one.lua"),
            include_str!("../renew.lua"),
            include_str!("../roster.lua"),
        ];
        let calls = scripts.iter().flat_map(|script| script.split("call('").skip(1));
        let called: BTreeSet<&str> = calls.filter_map(|rest| rest.split('\'').next()).collect();

        assert!(called.len() > 15, "{called:?}");
        for command in called {
            assert!(TRIED.contains(&command), "{command}");
        }
    }
}
