//! The floor: the two bare commands every lock on Redis needs, on one connection that all tasks share.

use fieldlease::clock::{Clock, Moment, SystemClock};
use redis::aio::MultiplexedConnection;
use tokio::task::JoinSet;

use super::{LeasesArgs, Mode, cycles::Cycles};
use crate::output::{Failure, Result};

/// Deletes a key that still holds this value.
const COMPARE_AND_DELETE: &str =
    "if redis.call('GET',KEYS[1])==ARGV[1] then return redis.call('DEL',KEYS[1]) else return 0 end";

pub(super) async fn line(args: &LeasesArgs) -> Result<String> {
    if args.mode == Mode::OneKey {
        let message = "two bare commands do not wait for each other";
        return Err(Failure::new("bad_peer", message, "use --mode own-key"));
    }
    let Some(url) = args.redis.as_ref().filter(|url| !url.is_memory()) else {
        let help = "pass --redis redis://127.0.0.1:6379";
        return Err(Failure::new("no_redis", "two bare commands need a Redis", help));
    };
    let connection = connect(url.reveal()).await?;
    let until = SystemClock.now().plus(args.length());
    let mut tasks = JoinSet::new();
    for task in 0..args.tasks {
        let key = format!("{}:bare:{}-{task}", args.namespace, std::process::id());
        tasks.spawn(cycle(connection.clone(), key, args.ttl_ms, until));
    }
    Ok(Cycles::of(tasks).await?.line("bare", args))
}

/// A plain connection, without anything of ours between.
pub(super) async fn connect(url: &str) -> Result<MultiplexedConnection> {
    let client = redis::Client::open(url).map_err(|error| failed(&error))?;
    client.get_multiplexed_async_connection().await.map_err(|error| failed(&error))
}

async fn cycle(
    mut connection: MultiplexedConnection,
    key: String,
    ttl_ms: u64,
    until: Moment,
) -> Result<Cycles> {
    let script = redis::Script::new(COMPARE_AND_DELETE);
    let mut cycles = Cycles::new()?;
    for number in 0_u64.. {
        let began = SystemClock.now();
        if began >= until {
            break;
        }
        let token = format!("{key}-{number}");
        let mut set = redis::cmd("SET");
        set.arg(&key).arg(&token).arg("NX").arg("PX").arg(ttl_ms);
        let taken: Option<String> =
            set.query_async(&mut connection).await.map_err(|error| failed(&error))?;
        let gone: i64 = script
            .key(&key)
            .arg(&token)
            .invoke_async(&mut connection)
            .await
            .map_err(|error| failed(&error))?;
        if taken.is_none() || gone != 1 {
            return Err(Failure::new("internal", format!("somebody else uses `{key}`"), ""));
        }
        cycles.record(began)?;
    }
    Ok(cycles)
}

/// The client's messages name neither user nor password.
fn failed(error: &redis::RedisError) -> Failure {
    Failure::new("unavailable", format!("Redis: {error}"), "")
}
