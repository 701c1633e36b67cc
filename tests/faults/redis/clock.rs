//! Rows 59 and 60: a wall clock of the server that is wrong.

use fieldlease::{event::LossReason, hold::Released, registry::OnBusy};

use crate::{
    redis::{Actor, WAIT, eventually, held, is_busy, key, lost, nothing_is_left},
    servers::{Flavour, WrongClock},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_jumps_forward_ends_leases_and_their_holders_hear_of_it() {
    for flavour in Flavour::ALL {
        let clock = WrongClock::start(flavour, &[]);
        let server = &clock.server;
        let (a, b) = (Actor::new("a", &server.url()).await, Actor::new("b", &server.url()).await);
        let lease = a.lease("media").await;

        clock.wrong_by_ms(60_000);
        // For a moment both believe; the claim in the record store decides.
        let successor = held(b.ask("media", WAIT).await);

        assert_eq!(lost(&lease).await, LossReason::NotOurs, "{flavour}");
        assert_eq!(lease.release().await, Released::Lost, "{flavour}");
        assert!(successor.is_valid(), "{flavour}");
        let renewed = b.log.renewals();
        eventually("renewals by the new time", || b.log.renewals() >= renewed + 2).await;
        assert_eq!(successor.release().await, Released::Released, "{flavour}");
        nothing_is_left(&[server], vec![a, b]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_jumps_back_keeps_nobody_out_for_longer_than_the_bound() {
    for flavour in Flavour::ALL {
        let clock = WrongClock::start(flavour, &[]);
        let server = &clock.server;
        let (a, b) = (Actor::new("a", &server.url()).await, Actor::new("b", &server.url()).await);
        let lease = a.lease("media").await;

        clock.wrong_by_ms(-3_600_000);
        eventually("the lease lasts an hour longer", || {
            server.run(&["PTTL", &key("media")]).int() > 3_000_000
        })
        .await;
        assert!(is_busy(&b.ask("media", OnBusy::Skip).await), "{flavour}");

        let left = server.run(&["PTTL", &key("media")]).int();
        assert!((1..=10_000).contains(&left), "{flavour}: {left} ms are left");
        let renewed = a.log.renewals();
        eventually("renewals by the new time", || a.log.renewals() >= renewed + 2).await;
        assert!(lease.is_valid() && a.log.losses() == 0, "{flavour}");
        let waiter = b.waits("media");
        assert_eq!(lease.release().await, Released::Released, "{flavour}");
        assert_eq!(waiter.await.unwrap().release().await, Released::Released, "{flavour}");
        clock.wrong_by_ms(0);
        nothing_is_left(&[server], vec![a, b]).await;
    }
}
