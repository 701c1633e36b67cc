//! How an attempt goes on and ends without an effect (transitions T4 and T7 to T9).

use std::time::Duration;

use crate::{
    key::{Attempt, Begin, Ending, Finish, Finished},
    path::Path,
    testing::{
        key_suite::{
            Rig, Verdict,
            build::{DAY, LONG, SHORT, done, in_progress, job, owner, work},
            promises,
        },
        store_suite::build::{operation, same, text_of},
    },
};

promises![
    a_renewed_attempt_keeps_others_out,
    a_lapsed_lease_alone_does_not_stop_its_owner,
    only_the_attempt_itself_renews_and_finishes,
    an_attempt_that_ended_renews_and_finishes_nothing,
    a_no_op_is_replayed,
    a_final_failure_is_replayed,
    input_stamps_come_back_as_they_were_stored,
    a_released_key_is_as_if_it_had_never_been,
    a_long_result_is_replayed_byte_for_byte,
    releasing_after_a_takeover_leaves_the_first_attempt_fenced,
];

async fn a_renewed_attempt_keeps_others_out(rig: Rig) -> Verdict {
    let key = job("k")?;
    let attempt = rig.acquired(&key, work(1)).await?;

    for _ in 0..8 {
        rig.pass(SHORT).await?;
        same("whether it was renewed", rig.renew(&key, attempt).await?, true)?;
        in_progress(&rig.begin(&key, work(1)).await?)?;
    }
    rig.pass(LONG).await?;
    same("the attempt after", rig.acquired(&key, work(1)).await?.number, 2)
}

async fn a_lapsed_lease_alone_does_not_stop_its_owner(rig: Rig) -> Verdict {
    let (renewed, finished) = (job("renewed")?, job("finished")?);
    let first = rig.acquired(&renewed, work(1)).await?;
    let second = rig.acquired(&finished, work(1)).await?;
    rig.pass(LONG).await?;

    same("whether it was renewed", rig.renew(&renewed, first).await?, true)?;
    in_progress(&rig.begin(&renewed, work(1)).await?)?;
    rig.finished(&finished, second, &done()).await?;
    rig.replayed(&finished, work(1)).await?;
    Ok(())
}

async fn only_the_attempt_itself_renews_and_finishes(rig: Rig) -> Verdict {
    let key = job("k")?;
    let zombie = rig.acquired(&key, work(1)).await?;
    rig.pass(LONG).await?;
    let attempt = rig.acquired(&key, work(1)).await?;
    let before = rig.listed().await?;

    let impostors = [
        zombie,
        Attempt { owner: attempt.owner, number: 1 },
        Attempt { owner: attempt.owner, number: 3 },
        Attempt { owner: zombie.owner, number: 2 },
        Attempt { owner: owner(), number: 2 },
    ];
    let retry = Finish::Retry { class: "io".to_owned(), after: Duration::ZERO };
    let failed = Finish::Failed { result: "no".to_owned(), retention: DAY };
    for impostor in impostors {
        same("whether an impostor renews", rig.renew(&key, impostor).await?, false)?;
        for how in [&done(), &failed, &retry, &Finish::Release] {
            let ended = rig.finish(&key, impostor, how).await?;
            same(&format!("whether {impostor:?} ends it by {how:?}"), ended, false)?;
        }
    }

    same("the key", rig.listed().await?, before)?;
    rig.finished(&key, attempt, &done()).await
}

async fn an_attempt_that_ended_renews_and_finishes_nothing(rig: Rig) -> Verdict {
    let retry = Finish::Retry { class: "io".to_owned(), after: DAY };
    for (name, how) in [("done", done()), ("retry", retry), ("released", Finish::Release)] {
        let key = job(name)?;
        let attempt = rig.acquired(&key, work(1)).await?;
        rig.finished(&key, attempt, &how).await?;
        let before = rig.listed().await?;

        same("whether it is renewed", rig.renew(&key, attempt).await?, false)?;
        let other = Finish::Done { result: "other".to_owned(), retention: DAY, inputs: None };
        for again in [&other, &Finish::Release] {
            same("whether it ends twice", rig.finish(&key, attempt, again).await?, false)?;
        }
        same("the keys", rig.listed().await?, before)?;
    }
    same(
        "what is replayed",
        rig.replayed(&job("done")?, work(1)).await?.result,
        r#"{"ok":true}"#.to_owned(),
    )
}

async fn a_no_op_is_replayed(rig: Rig) -> Verdict {
    let key = job("k")?;
    let attempt = rig.acquired(&key, work(1)).await?;

    rig.finished(&key, attempt, &done()).await?;

    let result = r#"{"ok":true}"#.to_owned();
    let wanted = Finished { ending: Ending::Completed, result, effect: None, inputs: None };
    same("the first repeat", rig.replayed(&key, work(1)).await?, wanted.clone())?;
    same("the second repeat", rig.replayed(&key, work(1)).await?, wanted)?;
    same("another request", rig.begin(&key, work(2)).await?, Begin::Mismatch)
}

async fn a_final_failure_is_replayed(rig: Rig) -> Verdict {
    let key = job("k")?;
    let attempt = rig.acquired(&key, work(1)).await?;
    let how = Finish::Failed { result: "no such image".to_owned(), retention: DAY };

    rig.finished(&key, attempt, &how).await?;

    let result = "no such image".to_owned();
    let wanted = Finished { ending: Ending::Failed, result, effect: None, inputs: None };
    same("the repeat", rig.replayed(&key, work(1)).await?, wanted)
}

async fn input_stamps_come_back_as_they_were_stored(rig: Rig) -> Verdict {
    let key = job("k")?;
    let attempt = rig.acquired(&key, work(1)).await?;
    let path = |text| Path::parse(text).map_err(text_of);
    let stamps = [(path("image")?, Some(operation())), (path("gallery.#keys@l=de")?, None)];
    let inputs = Some(stamps.into());
    let result = String::new();
    let how = Finish::Done { result, retention: DAY, inputs: inputs.clone() };

    rig.finished(&key, attempt, &how).await?;

    same("the inputs", rig.replayed(&key, work(1)).await?.inputs, inputs)
}

async fn a_released_key_is_as_if_it_had_never_been(rig: Rig) -> Verdict {
    let key = job("k")?;
    let attempt = rig.acquired(&key, work(1)).await?;

    rig.finished(&key, attempt, &Finish::Release).await?;

    same("the keys", rig.listed().await?, Vec::new())?;
    // For any work.
    same("the attempt", rig.acquired(&key, work(2)).await?.number, 1)
}

async fn a_long_result_is_replayed_byte_for_byte(rig: Rig) -> Verdict {
    let key = job("k")?;
    let attempt = rig.acquired(&key, work(1)).await?;
    let line = "caf\u{e9} \u{1f600} \\u0000 ' \" \\ % \u{feff}\r\n\t";
    let result = line.repeat(12_000);
    let how = Finish::Done { result: result.clone(), retention: DAY, inputs: None };

    rig.finished(&key, attempt, &how).await?;

    let replayed = rig.replayed(&key, work(1)).await?.result;
    same("the bytes", replayed.len(), result.len())?;
    same("whether they are the same", replayed == result, true)
}

async fn releasing_after_a_takeover_leaves_the_first_attempt_fenced(rig: Rig) -> Verdict {
    let key = job("k")?;
    let zombie = rig.acquired(&key, work(1)).await?;
    rig.pass(LONG).await?;
    let second = rig.acquired(&key, work(1)).await?;
    rig.finished(&key, second, &Finish::Release).await?;
    let third = rig.acquired(&key, work(1)).await?;

    same("whether the zombie renews", rig.renew(&key, zombie).await?, false)?;
    same("whether the zombie finishes", rig.finish(&key, zombie, &done()).await?, false)?;
    rig.finished(&key, third, &done()).await
}
