//! The wire with faults.

use std::{io::ErrorKind, time::Duration};

use fieldlease::clock::{Clock, SystemClock};

use crate::servers::{Action, Flavour, Proxy, Reply, Rule, Server, resp::Client, until};

fn wired() -> (Server, Proxy) {
    let server = Server::start(Flavour::Redis7, &[]);
    let proxy = Proxy::to(server.port());
    (server, proxy)
}

#[test]
fn without_faults_everything_passes_and_is_counted() {
    let (server, proxy) = wired();
    let mut client = Client::tcp(proxy.port()).unwrap();

    client.send(&["SET", "k", "1"]).unwrap();
    client.send(&["get", "k"]).unwrap();
    client.send(&["LRANGE", "l", "0", "-1"]).unwrap();

    assert_eq!(client.read().unwrap().text(), "OK");
    assert_eq!(client.read().unwrap().text(), "1");
    assert_eq!(client.read().unwrap(), Reply::List(Vec::new()));
    assert_eq!((proxy.count("SET|GET"), proxy.open(), proxy.accepted()), (2, 1, 1));
    drop(client);
    until("it is closed", || proxy.open() == 0 && server.clients().is_empty());
}

#[test]
fn a_held_request_is_executed_only_when_it_is_let_go() {
    let (server, proxy) = wired();
    let mut client = Client::tcp(proxy.port()).unwrap();
    let held = proxy.fault(Rule::on("SET", Action::HoldRequest).after(1));

    client.send(&["SET", "a", "1"]).unwrap();
    client.send(&["SET", "b", "1"]).unwrap();
    held.wait();
    assert_eq!(client.read().unwrap().text(), "OK");
    assert_eq!(server.keys(), ["a"]);

    held.let_go();
    assert_eq!(client.read().unwrap().text(), "OK");
    assert_eq!(server.keys(), ["a", "b"]);
}

#[test]
fn faults_of_one_command_do_what_they_say() {
    // What is done, whether the server executes the command, and what the client gets: an answer, an end, or nothing.
    let cases = [
        (Action::DropRequest, false, "nothing"),
        (Action::DropReply, true, "nothing"),
        (Action::HoldReply, true, "nothing"),
        (Action::HalfOpen, true, "nothing"),
        (Action::DelayReply(Duration::from_millis(5)), true, "OK"),
        (Action::DelayRequest(Duration::from_millis(5)), true, "OK"),
        (Action::CutBefore, false, "reset"),
        (Action::CutAfter, true, "reset"),
        (Action::Truncate(2), true, "end"),
        (Action::Prefix("+one\r\n"), true, "one"),
        (Action::Answer("-LOADING wait\r\n"), false, "LOADING wait"),
    ];
    for (action, executed, got) in cases {
        let (server, proxy) = wired();
        let mut client = Client::tcp(proxy.port()).unwrap();
        let fault = proxy.fault(Rule::on("SET", action.clone()));

        client.send(&["SET", "k", "1"]).unwrap();
        fault.wait();

        if got == "nothing" {
            if executed {
                until("it is executed", || server.keys() == ["k"]);
            }
            client.patience(Duration::from_millis(50));
        }
        let answer = match client.read() {
            Ok(reply) => reply.text(),
            Err(error) => match error.kind() {
                ErrorKind::ConnectionReset => "reset".to_owned(),
                ErrorKind::UnexpectedEof | ErrorKind::InvalidData => "end".to_owned(),
                ErrorKind::WouldBlock => "nothing".to_owned(),
                other => panic!("{action:?}: {other:?}"),
            },
        };
        assert_eq!(answer, got, "{action:?}");
        assert_eq!(server.keys().len(), usize::from(executed), "{action:?}");
    }
}

#[test]
fn what_is_done_to_everything_holds_for_open_connections_too() {
    let (server, proxy) = wired();
    let mut client = Client::tcp(proxy.port()).unwrap();
    client.command(&["PING"]).unwrap();

    proxy.hole(false, true);
    client.send(&["SET", "replies", "1"]).unwrap();
    until("it is executed", || server.keys() == ["replies"]);
    proxy.hole(true, false);
    assert_eq!(client.read().unwrap().text(), "OK", "late");
    client.send(&["SET", "requests", "1"]).unwrap();
    // Gone before the hole is; its request arrives all the same.
    drop(client);
    until("only its connection to the server is left", || server.clients().len() == 1);
    assert_eq!(server.keys(), ["replies"]);
    proxy.heal();
    until("it is executed", || server.keys() == ["replies", "requests"]);
    until("nobody is connected", || server.clients().is_empty());

    let mut client = Client::tcp(proxy.port()).unwrap();
    proxy.latency(Duration::from_millis(30), Duration::from_millis(30));
    let before = SystemClock.now();
    client.command(&["PING"]).unwrap();
    assert!(SystemClock.now().since(before) >= Duration::from_millis(60));
    proxy.heal();

    proxy.bytes_per_second(Some(1_000));
    let before = SystemClock.now();
    client.command(&["ECHO", &"x".repeat(50)]).unwrap();
    assert!(SystemClock.now().since(before) >= Duration::from_millis(100));
    proxy.heal();

    proxy.cut_all();
    assert!(client.command(&["PING"]).is_err());
    proxy.refuse(true);
    assert!(Client::tcp(proxy.port()).and_then(|mut client| client.command(&["PING"])).is_err());
    proxy.refuse(false);
    assert!(Client::tcp(proxy.port()).unwrap().command(&["PING"]).is_ok());
}

#[test]
fn messages_pass_without_being_taken_for_answers() {
    let (server, proxy) = wired();
    let mut listener = Client::tcp(proxy.port()).unwrap();
    listener.command(&["SUBSCRIBE", "c"]).unwrap();
    let fault = proxy.fault(Rule::on("PING", Action::DropReply));

    for message in ["one", "two"] {
        server.run(&["PUBLISH", "c", message]);
        assert_eq!(listener.read().unwrap().texts(), ["message", "c", message]);
    }
    assert_eq!(fault.hits(), 0);
}
