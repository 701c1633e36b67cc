//! One server that is not well.

use std::{fs, sync::Arc, time::Duration};

use rustix::process::Signal;
use tokio::task::JoinSet;

use crate::lease::redis::{
    fault::Class,
    link::Link,
    trial::server::{Server, connect, echo, eventually, free_port, set, settings, target, until},
    wait,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_server_is_noticed_and_its_answers_reach_nobody_else() {
    let server = Server::start(&[]);
    let link = connect(&server.url()).await;
    let mut messages = link.subscribe("c").await.unwrap();

    server.signal(Signal::STOP);
    let fault = link.send(0, &echo("lost"), None).await.unwrap_err();
    let early = link.send(0, &echo("early"), Some(Duration::from_millis(30))).await.unwrap_err();
    let heard = wait::within(Duration::from_secs(20), messages.next()).await;
    server.signal(Signal::CONT);
    eventually(&link, 0, &echo("after")).await;

    assert_eq!((fault.class, fault.code.as_str()), (Class::Unknown, "timeout"), "{fault}");
    assert_eq!(early.class, Class::NotExecuted, "{early}");
    assert_eq!(heard, Some(None));
    until("the connections given up are closed", || server.ours() == 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_server_is_noticed_although_every_caller_gives_up_early() {
    let server = Server::start(&[]);
    let link = connect(&server.url()).await;

    server.signal(Signal::STOP);
    let mut classes = Vec::new();
    while classes.last() != Some(&Class::NotExecuted) {
        let answer = link.send(0, &echo("x"), Some(Duration::from_millis(20))).await;
        classes.push(answer.unwrap_err().class);
        assert!(classes.len() < 40, "a dead connection is kept");
        // So seldom that no look at the traffic finds a request under way twice in a row.
        wait::pause(Duration::from_millis(250)).await;
    }
    server.signal(Signal::CONT);

    assert_eq!(classes[0], Class::Unknown);
    eventually(&link, 0, &echo("after")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_shorter_than_the_response_timeout_changes_nothing() {
    let server = Server::start(&[]);
    let link = connect(&server.url()).await;
    let before = server.info("total_connections_received", None);

    server.tell("CLIENT PAUSE 150 WRITE");
    let answer = link.send(0, &set("k", "v"), None).await;

    assert!(answer.is_ok(), "{answer:?}");
    // Two of our own, to look.
    assert_eq!(server.info("total_connections_received", None), before + 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_connection_is_replaced_without_losing_the_next_command() {
    let server = Server::start(&[]);
    let link = connect(&server.url()).await;

    for round in 0..5 {
        server.tell("CLIENT KILL TYPE normal SKIPME yes");
        until("it is gone", || server.ours() == 0);
        wait::pause(Duration::from_millis(100)).await;
        let answer = link.send(0, &echo("x"), Some(Duration::from_secs(10))).await;
        assert!(answer.is_ok(), "{round}: {answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_is_refused_by_name_and_found_again_as_a_primary() {
    let primary = Server::start(&[]);
    let other = Server::start(&[]);
    let link = connect(&primary.url()).await;
    let address = format!("127.0.0.1 {}", other.port);

    primary.tell(&format!("REPLICAOF {address}"));
    let fault = link.send(0, &set("k", "v"), None).await.unwrap_err();
    let Err(error) = Link::connect(&target(&primary.url()), settings()).await else { panic!() };
    primary.tell("REPLICAOF NO ONE");
    let faults = eventually(&link, 0, &set("k", "v")).await;

    assert_eq!((fault.class, fault.code.as_str()), (Class::NotExecuted, "READONLY"), "{fault}");
    let expected = format!("is a replica of `127.0.0.1:{}`", other.port);
    assert!(error.to_string().contains(&expected), "{error}");
    assert!(faults.iter().all(|fault| fault.class == Class::NotExecuted), "{faults:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_loads_is_waited_for() {
    // Servers look at their clients after every two megabytes that they have loaded.
    let mut server = Server::start(&["--rdbcompression", "no"]);
    let fill = "for i = 1, 2500 do redis.call('SET', i, string.rep('x', 20000)) end";
    server.tell(&format!("EVAL \"{fill}\" 0\r\nSAVE"));
    server.push_arguments(&["--key-load-delay", "500"]);
    let link = connect(&server.url()).await;

    server.kill();
    server.restart_unready();
    let mut seen = Vec::new();
    while seen.last().map(String::as_str) != Some("LOADING") {
        match link.send(0, &set("k", "v"), Some(Duration::from_millis(300))).await {
            Ok(_) => panic!("it was never loading: {seen:?}"),
            Err(fault) => {
                // It looks at its clients now and then only; one may not be answered in time.
                let silent = fault.code == "timeout";
                assert!(silent || fault.class == Class::NotExecuted, "{fault}");
                seen.push(fault.code);
            }
        }
        wait::pause(Duration::from_millis(20)).await;
    }
    let answer = link.send(0, &set("k", "v"), Some(Duration::from_secs(20))).await;

    assert!(answer.is_ok(), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_listening_is_told_at_once_with_the_address() {
    let port = free_port();

    let Err(error) = Link::connect(&target(&format!("redis://127.0.0.1:{port}")), settings()).await
    else {
        panic!()
    };

    assert!(error.to_string().contains(&format!("`127.0.0.1:{port}`: cannot connect")), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_server_is_not_stormed() {
    let server = Server::start(&[]);
    let first = connect(&server.url()).await;
    let mut limit = redis::cmd("CONFIG");
    limit.arg("SET").arg("maxclients").arg(1);
    first.send(0, &limit, None).await.unwrap();
    let link = Arc::new(Link::open(&target(&server.url()), settings()).unwrap());
    let mut tasks = JoinSet::new();

    for _ in 0..200 {
        let link = Arc::clone(&link);
        tasks.spawn(async move { link.send(0, &echo("x"), None).await.unwrap_err() });
    }
    while let Some(fault) = tasks.join_next().await {
        let fault = fault.unwrap();
        assert_eq!(fault.class, Class::NotExecuted, "{fault}");
    }
    let mut more = redis::cmd("CONFIG");
    more.arg("SET").arg("maxclients").arg(100);
    first.send(0, &more, None).await.unwrap();
    let rejected = server.info("rejected_connections", None);
    eventually(&link, 0, &echo("x")).await;

    assert!((1..=4).contains(&rejected), "{rejected} attempts");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rotated_password_is_read_anew_and_a_wrong_one_is_not_hammered() {
    let server = Server::start(&["--requirepass", "first-secret"]);
    let file = server.folder().join("secret");
    fs::write(&file, "first-secret\n").unwrap();
    let url = format!("{}?password_file={}", server.url(), file.display());
    let link = connect(&url).await;

    server.tell(
        "AUTH first-secret\r\nCONFIG SET requirepass second-secret\r\nCLIENT KILL TYPE normal",
    );
    let mut last = None;
    for _ in 0..500 {
        if let Err(fault) = link.send(0, &echo("x"), None).await {
            assert!(!format!("{fault:?}{fault}").contains("secret"), "{fault:?}");
            last = Some(fault);
        }
        wait::pause(Duration::from_millis(1)).await;
    }
    let refused = last.unwrap();
    let tries = server.tell("AUTH second-secret\r\nINFO commandstats");
    fs::write(&file, "second-secret\n").unwrap();
    eventually(&link, 0, &echo("x")).await;

    assert_eq!(
        (refused.class, refused.code.as_str()),
        (Class::NotExecuted, "WRONGPASS"),
        "{refused}"
    );
    let calls = tries.lines().find(|line| line.starts_with("cmdstat_auth:")).unwrap();
    let failed = calls.split("failed_calls=").nth(1).unwrap().trim().to_owned();
    assert!(matches!(failed.as_str(), "1" | "2"), "{calls}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_with_the_fewest_permissions_is_enough() {
    let server = Server::start(&[]);
    let rules = "on >pass resetchannels &c resetkeys ~k* -@all +set +echo +subscribe";
    assert!(server.tell(&format!("ACL SETUSER few {rules}")).contains("+OK"));
    let link = connect(&format!("redis://few:pass@127.0.0.1:{}", server.port)).await;

    let allowed = link.send(0, &set("k1", "v"), None).await;
    let denied = link.send(0, &redis::cmd("FLUSHALL"), None).await.unwrap_err();
    let messages = link.subscribe("c").await;
    let other = link.subscribe("other").await.map(drop).unwrap_err();

    assert!(allowed.is_ok(), "{allowed:?}");
    assert_eq!((denied.class, denied.code.as_str()), (Class::NotExecuted, "NOPERM"));
    assert!(messages.is_ok(), "{:?}", messages.err());
    assert_eq!(other.code, "NOPERM", "{other}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_user_is_told_without_the_password() {
    let server = Server::start(&[]);
    let url = format!("redis://nobody:secret@127.0.0.1:{}", server.port);

    let Err(error) = Link::connect(&target(&url), settings()).await else { panic!() };

    assert_eq!(error.to_string().matches("WRONGPASS").count(), 1, "{error}");
    assert!(error.to_string().ends_with("the user or password is wrong"), "{error}");
    assert!(!format!("{error:?}").contains("secret"), "{error:?}");
}
