//! What the histories have found, one by one.

use super::*;

const WHOLE: &[&str] = &["*", "a"];

fn three(id: &str, extents: [&'static [&'static str]; 3]) -> Vec<Ask> {
    let ttl = Duration::from_secs(60);
    let actors = extents.map(|extent| Actor { extent, order: false, ttl });
    asks(&EntityRef::new("Product", id).unwrap(), &actors)
}

fn renew(ask: &Ask) -> Renew {
    Renew { extent: ask.extent.clone(), token: ask.token, ttl: ask.ttl }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_free_split_scope_is_refused_while_somebody_waits_for_the_whole() {
    let world = World::start(Flavour::Redis7).await;
    let asks = three("1", [&["a"], WHOLE, &["t[l=de]"]]);
    world.stores[0].acquire(&asks[0]).await.unwrap();
    world.stores[1].acquire(&asks[1]).await.unwrap();

    let later = world.stores[0].acquire(&asks[2]).await.unwrap();

    assert!(matches!(later, Acquire::Held { place: Some(2), .. }), "{later:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_holder_of_a_split_scope_hears_that_the_whole_is_waited_for() {
    let world = World::start(Flavour::Redis7).await;
    let asks = three("1", [&["t[l=de]"], WHOLE, &["b"]]);
    world.stores[0].acquire(&asks[0]).await.unwrap();

    world.stores[1].acquire(&asks[1]).await.unwrap();

    let wanted = Wake::Wanted(asks[0].token);
    until("it is told", || world.ears.0.lock().unwrap().contains(&wanted));
    // And when to ask again: not before the lease would end.
    let again = world.stores[1].renew(&[renew(&asks[1])]).await[0];
    let Renewal::Placed { again: Some(again) } = again else { panic!("{again:?}") };
    assert!(again > Duration::from_secs(50), "{again:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_takes_what_it_waited_for_by_itself_hears_that_others_wait_too() {
    let world = World::start(Flavour::Redis7).await;
    let asks = three("1", [&["a"], &["a", "b"], &["a"]]);
    for ask in &asks {
        world.stores[0].acquire(ask).await.unwrap();
    }
    world.stores[0].release(&asks[0].extent, asks[0].token).await.unwrap();

    let second = world.stores[1].acquire(&asks[1]).await.unwrap();

    assert!(matches!(second, Acquire::Granted { .. }), "{second:?}");
    let wanted = Wake::Wanted(asks[1].token);
    until("it is told", || world.ears.0.lock().unwrap().contains(&wanted));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_that_want_a_whole_entity_of_split_groups_get_it_in_turn() {
    let world = World::start(Flavour::Redis7).await;
    let asks = three("1", [&["*"], &["*"], &["*"]]);
    world.stores[0].acquire(&asks[0]).await.unwrap();

    for (n, ask) in asks.iter().enumerate().skip(1) {
        // One with an impossible time left is cut here too.
        let ask = Ask { ttl_max: Duration::from_secs(1), ..ask.clone() };
        let second = world.stores[1].acquire(&ask).await.unwrap();
        assert!(matches!(second, Acquire::Held { place: Some(place), .. } if place == n as u32));
    }
    world.stores[0].release(&asks[0].extent, asks[0].token).await.unwrap();
    let tried = |ask: &Ask| world.ears.0.lock().unwrap().contains(&Wake::Try(ask.token));
    until("the first is told", || tried(&asks[1]));
    assert!(!tried(&asks[2]), "a release wakes one");
    let second = world.stores[1].acquire(&asks[1]).await.unwrap();
    assert!(matches!(second, Acquire::Granted { .. }), "{second:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_holder_of_another_kind_with_an_impossible_time_left_is_cut_too() {
    let world = World::start(Flavour::Redis7).await;
    for (id, holder, waiter) in [("1", &["t[l=de]"][..], WHOLE), ("2", WHOLE, &["t[l=de]"][..])] {
        let asks = three(id, [holder, waiter, &["b"]]);
        world.stores[0].acquire(&asks[0]).await.unwrap();

        let waiter = Ask { ttl_max: Duration::from_millis(300), ..asks[1].clone() };
        world.stores[1].acquire(&waiter).await.unwrap();

        SystemClock.sleep_until(SystemClock.now().plus(Duration::from_millis(400))).await;
        let second = world.stores[1].acquire(&waiter).await.unwrap();
        assert!(matches!(second, Acquire::Granted { .. }), "{id} {second:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_without_room_does_not_keep_a_lease_of_the_same_record_from_being_renewed() {
    for flavour in [Flavour::Redis7, Flavour::Redis62, Flavour::Valkey9] {
        let world = World::start(flavour).await;
        let asks = three("1", [&["a"], &["b"], &["b"]]);
        world.stores[1].acquire(&asks[2]).await.unwrap();
        world.stores[0].acquire(&asks[0]).await.unwrap();
        world.stores[0].acquire(&asks[1]).await.unwrap();

        world.server.set("maxmemory", "1");
        let renewed = world.stores[0].renew(&[renew(&asks[1]), renew(&asks[0])]).await;

        assert_eq!(renewed, [Renewal::Unknown, Renewal::Renewed], "{flavour}");
    }
}
