//! Sentinel and cluster.

use std::time::Duration;

use crate::servers::{Cluster, Flavour, Reply, Watched, cluster::client_of, until};

#[test]
fn sentinels_replace_a_primary_that_was_killed_and_one_that_is_asked_to_go() {
    for flavour in Flavour::ALL {
        let watched = Watched::start(flavour, Duration::from_millis(1_000));
        let old = watched.primary();
        assert_eq!(old.port(), watched.servers[0].port());
        old.run(&["SET", "k", "1"]);
        assert_eq!(old.run(&["WAIT", "2", "10000"]), Reply::Int(2));

        old.kill();
        let new = watched.primary_other_than(old);
        assert_eq!(new.run(&["GET", "k"]).text(), "1");
        old.restart();
        until("the old one follows", || !old.is_primary());

        if flavour == Flavour::Redis7 {
            let last = watched.failover();
            assert_ne!(last.port(), new.port());
            assert!(watched.url().starts_with("redis+sentinel://127.0.0.1:"));
        }
    }
}

#[test]
fn a_cluster_moves_slots_and_roles() {
    for flavour in Flavour::ALL {
        let cluster = Cluster::start(flavour);
        let slot = cluster.slot("{a}k");
        let from = cluster.owner_of(slot);
        let to = cluster.other_than_owner(slot);
        from.run(&["SET", "{a}k", "1", "PX", "60000"]);

        let migration = cluster.begin_migration(slot, to);
        let mut client = client_of(from);
        let absent = client.command(&["GET", "{a}absent"]).unwrap().text();
        assert!(absent.starts_with("ASK "), "{absent}");
        let both = client.command(&["MGET", "{a}k", "{a}absent"]).unwrap().text();
        // The old one sends the caller on although one of the keys is here.
        let answer = if flavour == Flavour::Redis62 { "ASK " } else { "TRYAGAIN" };
        assert!(both.starts_with(answer), "{both}");
        assert_eq!(migration.move_keys(), 1);
        migration.finish();
        assert_eq!(cluster.owner_of(slot).port(), to.port());
        assert!(client.command(&["GET", "{a}k"]).unwrap().text().starts_with("MOVED "));
        assert_eq!(to.run(&["GET", "{a}k"]).text(), "1");
        assert_eq!(cluster.keys(), ["{a}k"]);

        if flavour == Flavour::Redis7 {
            cluster.failover(slot);
            assert_ne!(cluster.owner_of(slot).port(), to.port());
            cluster.take_over(slot);
            assert_eq!(cluster.owner_of(slot).port(), to.port());
        }
    }
}
