//! One server.

use std::{sync::Arc, time::Duration};

use redis::Value;

use crate::lease::redis::{
    fault::Class,
    trial::server::{Server, bulk, connect, echo, eventually, until},
    wait,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_pipelines_and_messages_work() {
    let server = Server::start(&[]);
    let link = connect(&server.url()).await;

    let one = link.send(0, &echo("one"), None).await;
    let many: Vec<_> = (0..1_300).map(|n| (0, echo(&n.to_string()))).collect();
    let answers = link.send_all(&many, None).await;
    let mut messages = link.subscribe("somewhere").await.unwrap();
    let mut publish = redis::cmd("PUBLISH");
    publish.arg("somewhere").arg("hello");
    let heard = link.send(0, &publish, None).await;

    assert_eq!(one, Ok(bulk("one")));
    assert_eq!(answers.len(), 1_300);
    for (n, answer) in answers.into_iter().enumerate() {
        assert_eq!(answer, Ok(bulk(&n.to_string())));
    }
    assert_eq!(heard, Ok(Value::Int(1)));
    assert_eq!(messages.next().await.as_deref(), Some(b"hello".as_slice()));
    assert_eq!(link.nodes()[0].to_string(), format!("127.0.0.1:{}", server.port));
    assert_eq!(link.send_to(&link.nodes()[0], &echo("x")).await, Ok(bulk("x")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_of_the_server_stay_with_their_command() {
    let server = Server::start(&[]);
    let link = connect(&server.url()).await;
    let mut missing = redis::cmd("EVALSHA");
    missing.arg("0000000000000000000000000000000000000000").arg(0);

    let answers = link.send_all(&[(0, echo("a")), (0, missing), (0, echo("b"))], None).await;

    assert_eq!(answers[0], Ok(bulk("a")));
    let fault = answers[1].clone().unwrap_err();
    assert_eq!((fault.class, fault.code.as_str()), (Class::NotExecuted, "NOSCRIPT"));
    assert_eq!(answers[2], Ok(bulk("b")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_is_reported_at_once_and_found_again() {
    let mut server = Server::start(&[]);
    let link = connect(&server.url()).await;
    let mut messages = link.subscribe("c").await.unwrap();

    server.kill();
    assert_eq!(messages.next().await, None);
    // The first may have been sent before the end of the connection was noticed, the second cannot.
    let first = link.send(0, &echo("x"), None).await.unwrap_err();
    let fault = link.send(0, &echo("x"), None).await.unwrap_err();
    assert_eq!(first.code, "io", "{first}");
    assert_eq!((fault.class, fault.code.as_str()), (Class::NotExecuted, "io"), "{fault}");
    server.restart();
    let faults = eventually(&link, 0, &echo("x")).await;

    assert!(faults.iter().all(|fault| fault.class == Class::NotExecuted), "{faults:?}");
    assert!(link.subscribe("c").await.is_ok());
    drop((messages, link));
    until("no connection of ours is left", || server.ours() == 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_request_is_never_answered_to_another() {
    let server = Server::start(&[]);
    let link = Arc::new(connect(&server.url()).await);
    let mut tasks = tokio::task::JoinSet::new();

    for task in 0..10_u32 {
        let link = Arc::clone(&link);
        tasks.spawn(async move {
            for n in 0..1_000_u32 {
                let text = format!("{task}-{n}");
                let command = echo(&text);
                let request = link.send(0, &command, None);
                // Dropped after a random time up to twice what an answer takes.
                let life = Duration::from_micros(u64::from(getrandom::u32().unwrap() % 1_000));
                if let Some(answer) = wait::within(life, request).await {
                    assert_eq!(answer, Ok(bulk(&text)));
                }
            }
        });
    }

    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    assert_eq!(link.send(0, &echo("last"), None).await, Ok(bulk("last")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_has_one_connection_for_commands_and_one_for_messages() {
    let server = Server::start(&[]);
    let link = Arc::new(connect(&server.url()).await);
    let messages = link.subscribe("c").await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();

    for task in 0..64 {
        let link = Arc::clone(&link);
        tasks.spawn(async move { link.send(0, &echo(&task.to_string()), None).await.unwrap() });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }

    assert_eq!(server.ours(), 2);
    drop((messages, link));
    until("no connection of ours is left", || server.ours() == 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_socket_file_is_an_address_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.sock");
    let server = Server::start(&["--unixsocket", path.to_str().unwrap()]);

    let link = connect(&format!("redis+unix://{}?db=3", path.display())).await;
    link.send(0, &crate::lease::redis::trial::server::set("k", "v"), None).await.unwrap();

    assert!(server.tell("SELECT 3\r\nGET k").contains("v"));
}
