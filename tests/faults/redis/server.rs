//! Rows 22 to 32 and 40 to 45: a server that stops, restarts, fills up, is busy, or lets nobody in.

use std::{fs, os::unix::net::UnixStream, time::Duration};

use fieldlease::{
    clock::{Clock, SystemClock},
    error::Error,
    event::LossReason,
    hold::Released,
    registry::OnBusy,
};

use crate::{
    redis::{
        Actor, Known, PATIENCE, TTL, eventually, held, is_busy, is_unavailable, key, lost,
        nothing_is_left, sleep,
    },
    servers::{Action, Flavour, Proxy, Rule, Server, resp::Client},
};

/// Longer than what this test does to the server, shorter than a lease.
const SHORT: Duration = Duration::from_millis(350);

async fn two(server: &Server) -> (Actor, Actor) {
    (Actor::new("a", &server.url()).await, Actor::new("b", &server.url()).await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stands_still_for_less_than_a_ttl_costs_nobody_a_lease() {
    // How it is made to stand still, and to go on.
    type Fault = fn(&Server) -> Option<UnixStream>;
    let stop: Fault = |server| {
        server.pause();
        None
    };
    let pause_writes: Fault = |server| {
        server.run(&["CLIENT", "PAUSE", "350", "WRITE"]);
        None
    };
    let debug_sleep: Fault = |server| Some(server.send_only(&["DEBUG", "SLEEP", "0.35"]));
    let script: Fault = |server| Some(server.send_only(&["EVAL", "while true do end", "0"]));
    let go_on: fn(&Server) = |server| server.resume();
    let nothing: fn(&Server) = |_| {};
    let kill_script: fn(&Server) = |server| {
        server.run(&["SCRIPT", "KILL"]);
    };
    let cases = [
        ("SIGSTOP", stop, go_on),
        ("CLIENT PAUSE", pause_writes, nothing),
        ("DEBUG SLEEP", debug_sleep, nothing),
        ("a script that only reads and does not end", script, kill_script),
    ];
    for (name, fault, mend) in cases {
        let server = Server::start(
            Flavour::Redis7,
            &["--enable-debug-command", "local", "--busy-reply-threshold", "50"],
        );
        Known::learn(&server).await;
        let (a, b) = two(&server).await;
        let lease = a.lease("media").await;
        eventually("a renewal", || a.log.renewals() > 0).await;

        let _keep = fault(&server);
        sleep(SHORT).await;
        mend(&server);

        let renewed = a.log.renewals();
        eventually("a renewal afterwards", || a.log.renewals() > renewed).await;
        assert!(lease.is_valid() && a.log.losses() == 0, "{name}");
        assert!(is_busy(&b.ask("media", OnBusy::Skip).await), "{name}");
        assert_eq!(lease.release().await, Released::Released, "{name}");
        nothing_is_left(&[&server], vec![a, b]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stands_still_for_longer_than_a_ttl_loses_the_lease_for_its_holder_first() {
    let server = Server::start(Flavour::Redis7, &[]);
    let (a, b) = two(&server).await;
    let lease = a.lease("media").await;

    server.pause();
    assert_eq!(lost(&lease).await, LossReason::Expired);
    assert!(is_unavailable(&b.ask("media", OnBusy::Fail).await));
    server.resume();

    let successor = b.lease_again("media").await;
    assert!(successor.is_valid() && !lease.is_valid());
    assert_eq!(a.lease_again("other").await.release().await, Released::Released);
    assert_eq!(lease.release().await, Released::Lost);
    assert!(successor.is_valid());
    assert_eq!(successor.release().await, Released::Released);
    nothing_is_left(&[&server], vec![a, b]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_that_cannot_be_killed_is_a_server_that_is_down() {
    let server = Server::start(Flavour::Redis7, &["--busy-reply-threshold", "50"]);
    let proxy = Proxy::to(server.port());
    let (a, b) = (Actor::new("a", &proxy.url()).await, Actor::new("b", &server.url()).await);
    let lease = a.lease("media").await;

    let endless = "redis.call('set', 'theirs', 1) while true do end";
    let _script = server.send_only(&["EVAL", endless, "0"]);
    assert_eq!(lost(&lease).await, LossReason::Expired);
    assert!(is_unavailable(&a.ask("other", OnBusy::Fail).await));
    assert!(server.command(&["SCRIPT", "KILL"]).text().starts_with("UNKILLABLE"));
    server.restart();

    let successor = b.lease_again("media").await;
    assert_eq!(successor.release().await, Released::Released);
    assert_eq!(proxy.count("SCRIPT"), 0, "nobody's script is killed");
    drop(lease);
    nothing_is_left(&[&server], vec![a, b]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_forgot_everything_tells_the_old_holder_and_blocks_nobody() {
    for flavour in Flavour::ALL {
        let server = Server::start(flavour, &[]);
        let (a, b) = two(&server).await;
        let lease = a.lease("media").await;
        let waiting = b.waits("media");
        sleep(Duration::from_millis(100)).await;

        server.restart();

        // Both may believe for a moment that they hold it; the claim in the record store decides.
        assert_eq!(lost(&lease).await, LossReason::NotOurs, "{flavour}");
        drop(waiting);
        let successor = b.lease_again("media").await;
        assert!(successor.is_valid());
        assert_eq!(successor.release().await, Released::Released);
        drop(lease);
        nothing_is_left(&[&server], vec![a, b]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_that_kept_everything_costs_nobody_a_lease() {
    let server =
        Server::start(Flavour::Redis7, &["--appendonly", "yes", "--appendfsync", "always"]);
    let (a, b) = two(&server).await;
    let long = Duration::from_secs(5);
    let lease = held(a.ask_for(&["media"], long, OnBusy::Fail).await);

    server.restart();

    eventually("a renewal afterwards", || a.log.renewals() > 0).await;
    assert!(lease.is_valid());
    eventually("a look from elsewhere", || server.clients().len() >= 3).await;
    assert_eq!(lease.release().await, Released::Released);
    assert_eq!(b.lease_again("media").await.release().await, Released::Released);
    nothing_is_left(&[&server], vec![a, b]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_lost_its_tail_lets_the_next_holder_in() {
    let server = Server::start(Flavour::Redis7, &["--appendonly", "yes"]);
    let (a, b) = two(&server).await;
    let lease = a.lease("media").await;
    server.stop();
    let log = fs::read_dir(server.dir().join("appendonlydir")).unwrap();
    let mut files = log.map(|file| file.unwrap().path());
    let file = files.find(|path| path.to_str().unwrap().ends_with(".incr.aof")).unwrap();
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() - 20]).unwrap();

    server.restart();

    assert_eq!(lost(&lease).await, LossReason::NotOurs);
    assert_eq!(b.lease_again("media").await.release().await, Released::Released);
    drop(lease);
    nothing_is_left(&[&server], vec![a, b]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_does_not_come_back_is_unavailable_until_it_does() {
    let server = Server::start(Flavour::Redis7, &["--appendonly", "yes"]);
    let (a, b) = two(&server).await;
    let lease = a.lease("media").await;
    server.run(&["SET", "theirs", &"x".repeat(1_000)]);
    server.stop();
    let folder = server.dir().join("appendonlydir");
    let mut files = fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path());
    let file = files.find(|path| path.to_str().unwrap().ends_with(".incr.aof")).unwrap();
    let sound = fs::read(&file).unwrap();
    let mut broken = sound.clone();
    broken[20..30].fill(0xff);
    fs::write(&file, broken).unwrap();

    // It may answer that it is loading before it comes to the broken bytes.
    let _ = server.try_restart();
    eventually("it refuses a log that is broken in the middle", || !server.is_running()).await;
    assert_eq!(lost(&lease).await, LossReason::Expired);
    for policy in [OnBusy::Skip, OnBusy::Fail, OnBusy::Wait(Duration::from_millis(200))] {
        let answer = b.ask("media", policy).await;
        assert!(is_unavailable(&answer) || is_busy(&answer), "{answer:?}");
    }

    fs::write(&file, sound).unwrap();
    server.restart();
    eventually("it has read its log", || !server.command(&["DEL", "theirs"]).is_error()).await;
    assert_eq!(b.lease_again("media").await.release().await, Released::Released);
    drop(lease);
    nothing_is_left(&[&server], vec![a, b]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_loading_is_waited_for() {
    let arguments = ["--key-load-delay", "400", "--loading-process-events-interval-bytes", "1024"];
    let server = Server::start(Flavour::Redis7, &arguments);
    let (a, b) = two(&server).await;
    for number in 0..1_000 {
        server.run(&["SET", &format!("theirs:{number}"), &"x".repeat(50)]);
    }
    server.run(&["SAVE"]);
    server.restart();
    assert_eq!(server.info("persistence")["loading"], "1");

    let lease = b.lease_again("media").await;
    assert_eq!(lease.release().await, Released::Released);

    server.run(&["FLUSHALL"]);
    nothing_is_left(&[&server], vec![a, b]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_cannot_save_refuses_everything_and_leases_end_by_their_ttl() {
    for flavour in Flavour::ALL {
        let server = Server::start(flavour, &["--stop-writes-on-bgsave-error", "yes"]);
        let (a, b) = two(&server).await;
        let lease = a.lease("media").await;
        // The dump cannot take the place of a folder.
        fs::create_dir(server.dir().join("dump.rdb")).unwrap();
        server.set("save", "3600 1000000");
        server.run(&["BGSAVE"]);
        eventually("the failure is noticed", || {
            server.info("persistence")["rdb_last_bgsave_status"] == "err"
        })
        .await;

        assert_eq!(lost(&lease).await, LossReason::Expired, "{flavour}");
        let refused = b.ask("media", OnBusy::Fail).await;
        assert!(is_unavailable(&refused), "{flavour}: {refused:?}");
        assert!(refused.unwrap_err().to_string().contains("MISCONF"), "{flavour}");
        // On 6.2 the holder's own renewals are refused too.
        assert_ne!(lease.release().await, Released::Released);

        server.set("stop-writes-on-bgsave-error", "no");
        assert_eq!(b.lease_again("media").await.release().await, Released::Released);
        nothing_is_left(&[&server], vec![a, b]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_that_are_forgotten_are_sent_once_more_and_only_then() {
    for flavour in Flavour::ALL {
        let server = Server::start(flavour, &[]);
        Known::learn(&server).await;
        let (a, b) = two(&server).await;
        let lease = a.lease("media").await;
        server.run(&["SCRIPT", "FLUSH"]);
        server.reset_stats();

        assert_eq!(lease.release().await, Released::Released);

        let stats = server.commandstats();
        assert_eq!((stats["evalsha"], stats["eval"], stats["del"]), (1, 1, 1), "{flavour}");
        assert!(server.keys().is_empty());
        let lease = a.lease("media").await;
        assert_eq!(lease.release().await, Released::Released);
        let stats = server.commandstats();
        assert_eq!((stats["evalsha"], stats["eval"]), (2, 1), "{flavour}");
        nothing_is_left(&[&server], vec![a, b]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_house_is_told_and_not_stormed() {
    let server = Server::start(Flavour::Redis7, &[]);
    let (a, b) = two(&server).await;
    // The harness itself has a connection too.
    eventually("both listen", || server.clients().len() == 4).await;
    server.set("maxclients", "5");

    let late = Actor::try_new("late", &server.url()).await;
    let refused = late.err().map(|error| error.to_string()).unwrap_or_default();
    // It says why and hangs up; whether the reason is still heard is chance.
    assert!(refused.contains("max number of clients") || refused.contains("lost"), "{refused}");
    assert_eq!(a.lease("media").await.release().await, Released::Released);

    // Those who are thrown out find their places taken.
    let lease = b.lease("media").await;
    for client in server.clients() {
        server.run(&["CLIENT", "KILL", "ID", &client["id"]]);
        let mut other = Client::tcp(server.port()).unwrap();
        let _ = other.command(&["PING"]);
        std::mem::forget(other);
    }
    let before: u64 = server.info("stats")["rejected_connections"].parse().unwrap();
    let begun = SystemClock.now();
    lost(&lease).await;
    let answer = a.ask("other", OnBusy::Fail).await;
    let after: u64 = server.info("stats")["rejected_connections"].parse().unwrap();
    let elapsed = SystemClock.now().since(begun).as_secs() + 1;
    assert!(after - before <= 8 * elapsed, "{} attempts in {elapsed} s", after - before);
    assert!(is_unavailable(&answer), "{answer:?}");

    server.set("maxclients", "100");
    assert_eq!(a.lease_again("media").await.release().await, Released::Released);
    assert_eq!(b.lease_again("media").await.release().await, Released::Released);
    drop(lease);
    for actor in [a, b] {
        actor.manager.shutdown(TTL).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_that_changed_is_told_not_hammered_and_never_shown() {
    let server = crate::servers::Setup::new(Flavour::Redis7).password("first-secret").start();
    let proxy = Proxy::to(server.port());
    let url = format!("redis://:first-secret@127.0.0.1:{}", proxy.port());
    let a = Actor::new("a", &url).await;
    assert_eq!(a.lease("media").await.release().await, Released::Released);

    server.set("requirepass", "second-secret");
    proxy.cut_all();
    sleep(Duration::from_millis(20)).await;
    let accepted = proxy.accepted();
    let mut told = Vec::new();
    for _ in 0..20 {
        let answer = a.ask("media", OnBusy::Skip).await;
        told.extend(answer.err().as_ref().map(Error::to_string));
        sleep(Duration::from_millis(20)).await;
    }

    assert!(told.iter().any(|text| text.contains("WRONGPASS")), "{told:?}");
    assert!(told.iter().all(|text| !text.contains("secret")), "{told:?}");
    assert!(proxy.accepted() - accepted <= 6, "{} attempts", proxy.accepted() - accepted);

    server.set("requirepass", "first-secret");
    assert_eq!(a.lease_again("media").await.release().await, Released::Released);
    nothing_is_left(&[&server], vec![a]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_who_may_too_little_is_told_what_is_missing() {
    let server = Server::start(Flavour::Redis7, &[]);
    let user = |rules: &[&str]| {
        let mut command = vec!["ACL", "SETUSER", "narrow", "reset", "on", ">pw", "&*", "+@all"];
        command.extend(rules);
        server.run(&command);
    };
    user(&["~*", "-set"]);
    let url = format!("redis://narrow:pw@127.0.0.1:{}", server.port());
    let refused = match Actor::try_new("a", &url).await {
        Err(error) => error.to_string(),
        Ok(actor) => actor.ask("media", OnBusy::Fail).await.unwrap_err().to_string(),
    };
    assert!(refused.contains("(denied)") && refused.contains(": SET"), "{refused}");

    user(&["~other:*"]);
    let refused = match Actor::try_new("a", &url).await {
        Err(error) => error.to_string(),
        Ok(actor) => actor.ask("media", OnBusy::Fail).await.unwrap_err().to_string(),
    };
    assert!(refused.contains("(denied)"), "{refused}");
    assert!(!refused.contains("pw@"), "{refused}");
    nothing_is_left(&[&server], Vec::new()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_an_error_of_the_moment_is_asked_again_within_the_patience() {
    let server = Server::start(Flavour::Redis7, &[]);
    let proxy = Proxy::to(server.port());
    let a = Actor::new("a", &proxy.url()).await;
    for answer in ["-LOADING later\r\n", "-BUSY later\r\n", "-MASTERDOWN later\r\n"] {
        let fault = proxy.fault(Rule::on("SET", Action::Answer(answer)).times(2));
        let before = SystemClock.now();
        let lease = a.lease("media").await;
        assert_eq!(fault.hits(), 2, "{answer}");
        assert!(SystemClock.now().since(before) < PATIENCE * 8);
        assert_eq!(lease.release().await, Released::Released, "{answer}");
    }
    assert!(!server.keys().contains(&key("media")));
    nothing_is_left(&[&server], vec![a]).await;
}
