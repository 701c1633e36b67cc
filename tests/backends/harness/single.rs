//! Certificates and clocks.

use crate::servers::{Certificates, Flavour, WrongClock, resp::Client, until};

#[test]
fn a_server_speaks_tls_on_its_port_and_nothing_else() {
    let certificates = Certificates::make();
    // The Valkey and the Redis 6.2 of the Python packages are built without TLS.
    let server = certificates.server(Flavour::Redis7, "server", true);

    let mut plain = Client::tcp(server.port()).unwrap();
    assert!(plain.command(&["PING"]).is_err());
    assert_eq!(server.run(&["PING"]).text(), "PONG");
    assert!(server.url().starts_with("rediss://"));
    for file in ["ca.crt", "client.crt", "client.key"] {
        assert!(certificates.path(file).is_file());
    }
}

#[test]
fn the_wall_clock_of_a_server_is_moved_both_ways() {
    for flavour in Flavour::ALL {
        let clock = WrongClock::start(flavour, &[]);
        let server = &clock.server;
        let pttl = || server.run(&["PTTL", "k"]).int();
        server.run(&["SET", "k", "1", "PX", "30000"]);

        clock.wrong_by_ms(-3_600_000);
        until("the key lasts an hour longer", || pttl() > 3_600_000);
        clock.wrong_by_ms(0);
        until("it is right again", || (1..=30_000).contains(&pttl()));
        clock.wrong_by_ms(60_000);
        until("the key is over", || pttl() == -2);
    }
}
