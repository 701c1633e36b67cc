//! What is found on real servers: a good one, and each thing that can be wrong with one.

use std::{process::Command, sync::Arc, time::Duration};

use fieldlease::{
    clock::{Clock, SystemClock},
    entity::{EntityRef, GroupName, WriterKind},
    guard::{Guard, GuardBoard},
    lease::{
        Acquire, Ask, Extent, LeaseStore, Release, Renew, Renewal, Wake, WakeSink,
        redis::{
            RedisLeases, RedisOptions,
            checks::{Checks, Level, Report, examine},
        },
    },
    scope::{ScopeName, ScopeSet},
    token::{Generation, HolderToken},
};

use crate::servers::{Flavour, Reply, Server};

fn options() -> RedisOptions {
    RedisOptions { namespace: "fl".to_owned(), ..RedisOptions::default() }
}

async fn report(server: &Server) -> Report {
    examine(&server.url(), &options()).await.unwrap()
}

fn refused(report: &Report) -> Vec<&str> {
    let worst = report.findings.iter().filter(|finding| finding.level == Level::Refuse);
    worst.map(|finding| finding.code).collect()
}

fn has(report: &Report, level: Level, code: &str) -> bool {
    report.findings.iter().any(|finding| finding.level == level && finding.code == code)
}

fn tell(server: &Server, words: &[&str]) -> Reply {
    let reply = server.try_command(words).unwrap();
    assert!(!matches!(reply, Reply::Error(_)), "{words:?}: {reply:?}");
    reply
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_stands_against_a_server_as_it_comes_and_nothing_is_left_on_it() {
    for flavour in Flavour::ALL {
        let server = Server::start(flavour, &[]);

        let report = report(&server).await;

        assert_eq!(refused(&report), Vec::<&str>::new(), "{flavour}: {report:#?}");
        assert!(!has(&report, Level::Info, "hidden"), "{flavour}: {report:#?}");
        assert!(has(&report, Level::Info, "persistence"), "{flavour}");
        let old = flavour != Flavour::Valkey9;
        assert_eq!(has(&report, Level::Warn, "lua_faults"), old, "{flavour}: {report:#?}");
        assert!(!has(&report, Level::Warn, "clock_jump"), "{flavour}: {report:#?}");
        assert_eq!(tell(&server, &["DBSIZE"]), Reply::Int(0), "{flavour}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_removes_keys_is_refused_unless_told_otherwise() {
    for flavour in Flavour::ALL {
        let server = Server::start(flavour, &["--maxmemory-policy", "volatile-lru"]);
        assert_eq!(refused(&report(&server).await), ["evicts"], "{flavour}");

        let connect = |checks| {
            let options = RedisOptions { checks, ..options() };
            let url = server.url();
            async move { RedisLeases::connect(&url, options).await.map(drop) }
        };
        let error = connect(Checks::Refuse).await.unwrap_err();
        assert_eq!(error.code(), "unsafe_server");
        assert!(error.to_string().contains("volatile-lru"), "{error}");
        connect(Checks::Warn).await.unwrap();
        connect(Checks::Off).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_others_wrong_types_and_other_forms_are_found() {
    for flavour in Flavour::ALL {
        let server = Server::start(flavour, &[]);
        tell(&server, &["SET", "cache:1", "x"]);
        assert_eq!(refused(&report(&server).await), Vec::<&str>::new(), "outside of the namespace");

        tell(&server, &["SET", "fl:cache:1", "x"]);
        tell(&server, &["RPUSH", "fl:{Product:1}:g:media", "x"]);
        tell(&server, &["SET", "fl:{Product:2}:g:media", "2 of a later version"]);

        let report = report(&server).await;
        assert_eq!(refused(&report), ["foreign_keys", "other_form", "wrong_type"], "{flavour}");
        let said: String = report.findings.iter().map(|finding| finding.message.as_str()).collect();
        for key in ["fl:cache:1", "fl:{Product:1}:g:media is a list", "fl:{Product:2}:g:media"] {
            assert!(said.contains(key), "{key}: {said}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_key_space_is_looked_at_in_part() {
    let server = Server::start(Flavour::Redis7, &[]);
    let fill = "for n = 1, 50000 do redis.call('SET', 'cache:' .. n, 'x') end";
    tell(&server, &["EVAL", fill, "0"]);
    tell(&server, &["CONFIG", "RESETSTAT"]);

    let report = report(&server).await;

    assert_eq!(refused(&report), Vec::<&str>::new());
    let stats = server.info("commandstats");
    let scans = stats.get("cmdstat_scan").unwrap();
    let calls: u32 = scans.split(['=', ',']).nth(1).unwrap().parse().unwrap();
    assert!(calls <= 20, "{scans}");
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_and_what_a_failover_loses_are_told() {
    for flavour in Flavour::ALL {
        let primary = Server::start(flavour, &[]);
        let port = primary.port().to_string();
        let replica = Server::start(flavour, &["--replicaof", "127.0.0.1", &port]);

        assert_eq!(refused(&report(&replica).await), ["replica"], "{flavour}");
        crate::servers::until("the replica is connected", || {
            primary.info("replication").get("connected_slaves").is_some_and(|count| count == "1")
        });
        assert!(has(&report(&primary).await, Level::Warn, "failover"), "{flavour}");
        tell(&primary, &["CONFIG", "SET", "min-replicas-to-write", "1"]);
        let report = report(&primary).await;
        assert!(has(&report, Level::Info, "failover"), "{flavour}: {report:#?}");
        let old = flavour == Flavour::Redis62;
        assert_eq!(has(&report, Level::Warn, "scripts_unacknowledged"), old, "{flavour}");
    }
}

/// The password stands where the line says `PASSWORD`.
fn make_user(server: &Server, acl: &str) -> String {
    let line = acl.replace("PASSWORD", "secret");
    tell(server, &line.split(' ').collect::<Vec<_>>());
    format!("redis://fieldlease:secret@127.0.0.1:{}", server.port())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_printed_user_can_do_everything_leases_need_and_little_else() {
    for flavour in Flavour::ALL {
        let server = Server::start(flavour, &[]);
        let url = make_user(&server, &report(&server).await.acl);

        let seen = examine(&url, &options()).await.unwrap();
        assert_eq!(refused(&seen), Vec::<&str>::new(), "{flavour}: {seen:#?}");
        assert!(!has(&seen, Level::Info, "hidden"), "{flavour}: {seen:#?}");
        let store = Arc::new(RedisLeases::connect(&url, options()).await.unwrap());
        works(&store).await;
        let denied = server.info("errorstats");
        assert!(!denied.contains_key("errorstat_NOPERM"), "{flavour}: {denied:?}");

        let mut other = server.client();
        other.command(&["AUTH", "fieldlease", "secret"]).unwrap();
        for words in [
            &["FLUSHALL"][..],
            &["CONFIG", "SET", "maxmemory", "1"],
            &["SCRIPT", "FLUSH"],
            &["GET", "x"],
            &["KEYS", "*"],
        ] {
            let reply = other.command(words).unwrap();
            assert!(
                matches!(&reply, Reply::Error(text) if text.starts_with("NOPERM")),
                "{reply:?}"
            );
        }
    }
}

struct Deaf;

impl WakeSink for Deaf {
    fn wake(&self, _: Wake) {}
}

fn ask(n: u8, groups: &[&str], whole: bool, queue: bool) -> Ask {
    let names = groups.iter().map(|name| ScopeName::group(GroupName::new(name).unwrap()));
    let scopes = ScopeSet::new(EntityRef::new("Product", "1").unwrap(), names);
    Ask {
        extent: if whole { Extent::Whole(scopes) } else { Extent::Groups(scopes) },
        token: HolderToken([n; 16]),
        ttl: Duration::from_secs(5),
        ttl_max: Duration::from_secs(10),
        label: "worker".into(),
        generation: Generation([7; 32]),
        queue,
        order: !queue,
    }
}

fn granted(answer: &Acquire) -> bool {
    matches!(answer, Acquire::Granted { .. })
}

/// Every operation of the port, plain and by script, and a guard.
async fn works(store: &RedisLeases) {
    tokio::select! {
        ended = store.watch(Arc::new(Deaf)) => panic!("the subscription ended: {ended:?}"),
        () = SystemClock.sleep_until(SystemClock.now().plus(Duration::from_millis(200))) => {}
    }
    leases_work(store).await;
    let entity = EntityRef::new("Product", "1").unwrap();
    let guard = Guard { kind: WriterKind::Worker, owner: "worker w".into(), entity };
    let id = store.open(&guard, Duration::from_secs(1)).await.unwrap();
    assert_eq!(store.keep(&[id], Duration::from_secs(1)).await.unwrap(), [true]);
    assert_eq!(store.look(id).await.unwrap(), Some(guard));
    assert!(store.close(id).await.unwrap());
}

async fn leases_work(store: &RedisLeases) {
    let all = ask(1, &["media", "search"], true, false);
    let media = ask(2, &["media"], false, false);
    let queued = ask(3, &["media"], false, true);
    assert!(granted(&store.acquire(&all).await.unwrap()));
    assert!(!granted(&store.acquire(&queued).await.unwrap()));
    let renew = |ask: &Ask| Renew { extent: ask.extent.clone(), token: ask.token, ttl: ask.ttl };
    let renewed = store.renew(&[renew(&all), renew(&queued)]).await;
    assert_eq!(renewed.first(), Some(&Renewal::Renewed));
    assert!(matches!(renewed.last(), Some(Renewal::Placed { .. })), "{renewed:?}");
    let holders = store.inspect(Some(all.extent.entity()), None, 10).await.unwrap().0;
    assert_eq!(holders.len(), 2);
    store.inspect(None, None, 10).await.unwrap();
    assert_eq!(store.release(&all.extent, all.token).await.unwrap(), Release::Released);
    assert!(granted(&store.acquire(&queued).await.unwrap()));
    let scope = queued.extent.scopes().iter().next().unwrap();
    assert!(store.break_lease(&scope, "stuck").await.unwrap().is_some());
    assert!(granted(&store.acquire(&media).await.unwrap()));
    assert_eq!(store.release(&media.extent, media.token).await.unwrap(), Release::Released);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_narrow_user_lacks_is_listed_and_what_is_hidden_is_told() {
    for flavour in Flavour::ALL {
        let server = Server::start(flavour, &[]);
        let acl = report(&server).await.acl;
        let table: [(&str, &str, &[&str], &[&str]); 6] = [
            ("+hset", "-hset", &["denied"], &["HSET"]),
            ("+set", "-set", &["denied"], &["SET"]),
            ("~fl:*", "~other:*", &["denied"], &["keys"]),
            ("&fl:*", "&other:*", &["denied"], &["channels"]),
            ("+eval ", "-eval ", &["no_scripts"], &[]),
            ("+info +config|get +scan", "-info", &[], &["INFO", "CONFIG GET", "SCAN"]),
        ];
        for (permitted, instead, codes, words) in table {
            assert!(acl.contains(permitted), "{permitted}");
            let url = make_user(&server, &acl.replace(permitted, instead));

            let report = examine(&url, &options()).await.unwrap();

            assert_eq!(refused(&report), codes, "{flavour} {instead}: {report:#?}");
            let about = report
                .findings
                .iter()
                .filter(|finding| finding.level == Level::Refuse || finding.code == "hidden");
            let said: String = about.map(|finding| finding.message.as_str()).collect();
            assert!(words.iter().all(|word| said.contains(word)), "{flavour} {words:?}: {said}");
            tell(&server, &["ACL", "DELUSER", "fieldlease"]);
            assert_eq!(tell(&server, &["DBSIZE"]), Reply::Int(0), "{flavour} {instead}");
        }
    }
}

#[test]
fn the_doctor_ends_as_its_findings_are() {
    let server = Server::start(Flavour::Redis7, &[]);
    let doctor = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fieldlease"));
        command.env_remove("FIELDLEASE_REDIS").env_remove("FIELDLEASE_NAMESPACE");
        command.arg("doctor").args(arguments);
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let url = server.url();

    let (code, text) = doctor(&["--redis", &url, "--namespace", "shop"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("info[persistence]: a restart forgets"), "{text}");
    assert!(text.contains("ACL SETUSER fieldlease on >PASSWORD resetkeys ~shop:*"), "{text}");
    assert!(text.contains("remedy: "), "{text}");

    tell(&server, &["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let (code, text) = doctor(&["--redis", &url, "--json"]);
    assert_eq!(code, Some(1), "{text}");
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["code"], "evicts");
    assert_eq!(lines[0]["level"], "refuse");
    assert_eq!(lines.last().unwrap()["refused"], true);

    server.kill();
    assert_eq!(doctor(&["--redis", &url]).0, Some(8));
    assert_eq!(doctor(&["--redis", "nonsense"]).0, Some(7));
    assert_eq!(doctor(&[]).0, Some(7));
}
