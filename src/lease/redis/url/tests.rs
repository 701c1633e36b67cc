//! URLs good and bad.

use std::path::PathBuf;

use crate::{
    error::Error,
    lease::redis::url::{Access, Password, Target},
};

/// Everything that was read, on one line.
fn told(url: &str) -> String {
    let access = |access: &Access| {
        let password = match &access.password {
            Password::None => String::new(),
            Password::Given(text) => format!(" password {text}"),
            Password::File(path) => format!(" password in {}", path.display()),
        };
        let tls = access.tls.as_ref().map_or(String::new(), |files| {
            let show = |path: &PathBuf| path.display().to_string();
            let identity = files.identity.as_ref();
            format!(
                " tls {} {}",
                files.ca.as_ref().map_or("-".to_owned(), show),
                identity.map_or("-".to_owned(), |(cert, key)| show(cert) + "+" + &show(key))
            )
        });
        let user = access.user.as_deref().map_or(String::new(), |user| format!(" user {user}"));
        format!("/{}{user}{password}{tls}", access.database)
    };
    match Target::parse(url).unwrap() {
        Target::Single(server) => format!("{}{}", server.address, access(&server.access)),
        Target::Cluster(servers) => {
            let list: Vec<_> = servers.iter().map(|one| one.address.to_string()).collect();
            format!("cluster {}{}", list.join(" "), access(&servers[0].access))
        }
        Target::Quorum(targets) => {
            let list: Vec<_> = targets.iter().map(ToString::to_string).collect();
            format!("quorum {}", list.join(" "))
        }
        Target::Sentinel(sentinels) => {
            let list: Vec<_> =
                sentinels.servers.iter().map(|one| one.address.to_string()).collect();
            let own = access(&sentinels.servers[0].access);
            let access = access(&sentinels.access);
            format!("{} by {}{own} then{access}", sentinels.primary, list.join(" "))
        }
    }
}

#[test]
fn addresses_are_read_whole() {
    let cases = [
        ("redis://h", "h:6379/0"),
        ("valkey://h:1/", "h:1/0"),
        ("redis://h:1/3", "h:1/3"),
        ("redis://h:1?db=3", "h:1/3"),
        ("redis://:s%40%25+x@h", "h:6379/0 password s@%+x"),
        ("redis://u%3a:p:q@h", "h:6379/0 user u: password p:q"),
        ("redis://u@h?password_file=/run/secret", "h:6379/0 user u password in /run/secret"),
        ("redis://[::1]:7/1", "[::1]:7/1"),
        ("redis://[::1]", "[::1]:6379/0"),
        ("rediss://h", "h:6379/0 tls - -"),
        ("rediss://h?ca=/ca&cert=/c&key=/k", "h:6379/0 tls /ca /c+/k"),
        ("redis+unix:///run/r.sock?db=2", "/run/r.sock/2"),
        ("unix://u:p@/run/r.sock", "/run/r.sock/0 user u password p"),
        ("redis://a,b:2", "cluster a:6379 b:2/0"),
        ("redis+cluster://a", "cluster a:6379/0"),
        ("rediss+cluster://p:q@a,b?ca=/ca", "cluster a:6379 b:6379/0 user p password q tls /ca -"),
        ("redis+quorum://a,b,c:9", "quorum a:6379 b:6379 c:9"),
        ("redis+sentinel://a,b:2/main", "main by a:26379 b:2/0 then/0"),
        (
            "redis+sentinel://u:p@a/main?db=1&sentinel_user=s&sentinel_password=t",
            "main by a:26379/0 user s password t then/1 user u password p",
        ),
        (
            "rediss+sentinel://a/m?ca=/ca&sentinel_password_file=/f",
            "m by a:26379/0 password in /f tls /ca - then/0 tls /ca -",
        ),
    ];

    for (url, expected) in cases {
        assert_eq!(told(url), expected, "{url}");
    }
}

#[test]
fn a_wrong_address_is_told_by_its_part_and_never_repeats_a_password() {
    let cases = [
        ("h:6379", "no scheme"),
        ("http://h", "is not a kind of server"),
        ("redis://", "the host is missing"),
        ("redis://a,,b", "the host of server 2 is missing"),
        ("redis://a,a:6379", "the address of server 2 is listed twice"),
        ("redis://h:0", "the port is not a number from 1"),
        ("redis://h:port", "the port is not a number from 1"),
        ("redis://a,h:port", "the port of server 2 is not"),
        ("redis://user%40h", "a character that no host has"),
        ("redis://user@h", "a user is given without a password"),
        ("redis://user:@h", "a user is given without a password"),
        ("redis+sentinel://a/m?sentinel_user=s", "`sentinel_user` is given without"),
        ("redis://h?x=1&x=2", "the word after `?` is given twice"),
        ("redis://h?db=%x", "the `db` after `?` has a `%`"),
        ("redis://[::1", "not closed"),
        ("redis://h/x", "the database is not a number"),
        ("redis://h/1?db=1", "the database is given twice"),
        ("redis://h?db=1&db=2", "the `db` after `?` is given twice"),
        ("redis://h?nosuch=1", "not a setting"),
        ("redis://h?sentinel_user=x", "not a setting"),
        ("redis://h#insecure", "after `#`"),
        ("redis://u:se%cret@h", "the password has a `%`"),
        ("redis://u:se/cret@h", "a `@` stands after"),
        ("redis://u:se?cret@h", "a `@` stands after"),
        ("redis://u:se#cret@h", "after `#`"),
        ("redis://u:secret@h?password_file=/f", "a password and a `password_file`"),
        ("redis://h?password_file=", "names no file"),
        ("redis://h?ca=/ca", "without TLS"),
        ("rediss://h?cert=/c", "without its key"),
        ("rediss://h?key=/k", "without its certificate"),
        ("redis+unix://h/run/r.sock", "a socket file has no host"),
        ("redis+unix://", "the socket file is missing"),
        ("redis+sentinel://a", "the name of the primary is missing"),
        ("redis+sentinel://a/b/c", "more than one name"),
        ("redis+sentinel://a/m?sentinel_password=se&cret", "not a setting"),
        ("redis+cluster://a/1", "no database other than 0"),
        ("redis://a,b/1", "no database other than 0"),
        ("redis+quorum://a", "a quorum of one"),
    ];

    for (url, part) in cases {
        let error = Target::parse(url).unwrap_err();
        let Error::Invalid { code, message, help } = &error else { panic!("{error:?}") };
        assert_eq!(*code, "bad_url", "{url}");
        assert!(message.contains(part), "{url}: {message}");
        assert!(!help.is_empty(), "{url}");
        assert!(!format!("{error:?}").contains("cret"), "{url}: {error:?}");
    }
}

#[test]
fn passwords_are_never_shown() {
    let urls = [
        "redis://u:secret@h",
        "redis+quorum://u:secret@h,i",
        "redis+sentinel://u:secret@h/m?sentinel_password=secret",
        "redis+cluster://u:secret@h",
    ];

    for url in urls {
        let target = Target::parse(url).unwrap();
        assert!(!format!("{target} {target:?} {target:#?}").contains("secret"), "{url}");
    }
}

#[test]
fn nothing_that_was_not_understood_is_repeated() {
    let urls = [
        "CANARY",
        "CANARY://x",
        "CANARY://u:p@h",
        "redis:CANARY@h",
        "redis:/u:CANARY@h",
        "rediss+CANARY://h",
        "redis://user:CANARY",
        "redis://user:CANARY/0",
        "redis://user:CANARY?db=1",
        "redis://:CANARY",
        "redis://:CANARY:h",
        "redis://user:CANARY:127.0.0.1:47101",
        "redis://user:CANARY%40127.0.0.1:47101",
        "redis://CANARY%40127.0.0.1",
        "redis://CANARY%2F127.0.0.1",
        "redis://CANARY!x:6379",
        "redis://CANARY h:6379",
        "redis://CANARY:h",
        "redis://CANARY@h",
        "redis://CANARY@h:x",
        "redis://user@CANARY:h",
        "redis://CANARY:@h",
        "redis://user:CANARY@",
        "redis://user:CANARY@:6379",
        "redis://user:CANARY@h:x",
        "redis://user:CANARY@h/x",
        "redis://user:CANARY%@h",
        "redis://user:CANARY%ff@h",
        "redis://CANARY%:p@h",
        "redis://user:x/CANARY@h",
        "redis://user:x?CANARY@h",
        "redis://user:x#CANARY@h",
        "redis://user:x?CANARY",
        "redis://user@CANARY@h",
        "redis://h/CANARY",
        "redis://h?db=CANARY",
        "redis://h?CANARY",
        "redis://h?CANARY=1",
        "redis://h?CANARY&CANARY",
        "redis://h?CANARY=%",
        "redis://h?x=CANARY",
        "redis://h?db=1&CANARY",
        "redis://h?sentinel_password=CANARY",
        "redis://h?db=1&db=CANARY",
        "redis://CANARY%",
        "redis://CANARY,CANARY",
        "redis://CANARY,",
        "redis://h,CANARY,h",
        "redis://h,user:CANARY",
        "redis://[CANARY",
        "redis://[CANARY]:x",
        "redis://[::1]CANARY",
        "redis://[::1]:CANARY",
        "redis://[CANARY@h]",
        "redis+unix://CANARY/run/r.sock",
        "redis+unix://user:CANARY/run/r.sock",
        "redis+unix://CANARY@/run/r.sock",
        "redis+unix:///CANARY%",
        "redis+unix:///run/r.sock?db=CANARY",
        "redis+cluster://user:CANARY",
        "redis+cluster://CANARY/1",
        "redis+quorum://CANARY",
        "redis+quorum://user:CANARY,b",
        "redis+sentinel://user:CANARY/main",
        "redis+sentinel://CANARY@a/main",
        "redis+sentinel://CANARY",
        "redis+sentinel://a/CANARY/x",
        "redis+sentinel://a/CANARY%",
        "redis+sentinel://a/m?sentinel_user=CANARY",
        "redis+sentinel://a/m?sentinel_password=x&CANARY",
        "redis+sentinel://a/m?sentinel_password=CANARY&sentinel_password_file=/f",
        "redis://u:CANARY@h?password_file=/f",
        "redis://u:CANARY@h?password_file=",
        "redis://u:CANARY@h?ca=/f",
        "rediss://u:CANARY@h?cert=/f",
    ];

    for url in urls {
        for canary in ["s3cr3t", "S3CR3T", "-1s3", "99999"] {
            let url = url.replace("CANARY", canary);
            match Target::parse(&url) {
                Err(error) => {
                    let told = format!("{error} {error:?} {error:#?}");
                    assert!(!told.contains(canary), "{url}: {told}");
                }
                // A number may be a database.
                Ok(_) => assert_eq!(canary, "99999", "{url}"),
            }
        }
    }
}
