//! Servers.

use crate::servers::{Flavour, Reply, Server, Setup, until};

#[test]
fn every_flavour_starts_answers_and_is_gone_afterwards() {
    for (flavour, version) in
        [(Flavour::Redis7, "7."), (Flavour::Redis62, "6.2."), (Flavour::Valkey9, "9.")]
    {
        let server = Server::start(flavour, &[]);
        let name = if flavour == Flavour::Valkey9 { "valkey_version" } else { "redis_version" };
        assert!(server.info("server")[name].starts_with(version), "{flavour}");

        assert_eq!(server.run(&["SET", "a", "1", "PX", "60000"]), Reply::Simple("OK".into()));
        assert_eq!(server.command(&["GET", "a"]).text(), "1");
        assert!(server.command(&["RPUSH", "a", "1"]).text().starts_with("WRONGTYPE"));
        assert_eq!(server.keys(), ["a"]);
        assert_eq!(server.clients().len(), 0, "the harness does not count itself");
        assert!(server.channels().is_empty());

        let pid = server.pid();
        drop(server);
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }
}

#[test]
fn a_server_comes_back_on_its_port_without_what_it_knew() {
    let server = Server::start(Flavour::Redis7, &[]);
    let (port, pid) = (server.port(), server.pid());
    server.run(&["SET", "a", "1"]);

    server.restart();

    assert_eq!((server.port(), server.keys()), (port, Vec::new()));
    assert_ne!(server.pid(), pid);
}

#[test]
fn a_stopped_server_is_silent_and_goes_on_where_it_was() {
    let server = Server::start(Flavour::Redis7, &[]);
    server.run(&["SET", "a", "1"]);
    let mut client = server.client();

    server.pause();
    client.send(&["GET", "a"]).unwrap();
    server.resume();

    assert_eq!(client.read().unwrap().text(), "1");
}

#[test]
fn commands_are_counted_and_monitored_those_of_the_harness_left_out() {
    let server = Server::start(Flavour::Redis7, &[]);
    let monitor = server.monitor();
    server.reset_stats();
    let mut client = crate::servers::resp::Client::tcp(server.port()).unwrap();
    client.command(&["EVAL", "return redis.call('set', KEYS[1], 'x')", "1", "k"]).unwrap().good();

    let stats = server.commandstats();
    assert_eq!((stats["eval"], stats["set"]), (1, 1));
    let lines = server.monitored(&monitor);
    let lines: Vec<&str> =
        lines.iter().filter_map(|line| line.split_once("] ")).map(|x| x.1).collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].contains("EVAL") && lines[1].contains("\"set\" \"k\""), "{lines:?}");
    assert_eq!(server.clients().len(), 1);
    drop(client);
    until("the connection is gone", || server.clients().is_empty());
}

#[test]
fn a_password_is_asked_of_everybody_but_known_to_the_harness() {
    let server = Setup::new(Flavour::Redis7).password("secret").start();
    let mut stranger = crate::servers::resp::Client::tcp(server.port()).unwrap();

    assert!(stranger.command(&["PING"]).unwrap().text().starts_with("NOAUTH"));
    assert_eq!(server.run(&["PING"]).text(), "PONG");
    assert!(server.url().contains(":secret@"));
}
