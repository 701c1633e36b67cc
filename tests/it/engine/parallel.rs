//! Many writers of one record at once: every change is there afterwards, and nobody is told of a conflict that is none.

use std::{future::Future, sync::Arc};

use fieldlease::engine::{Engine, Outcome};
use serde_json::json;
use tokio::{sync::Barrier, task::JoinHandle};

use super::support::{File, created, product, saved};

const MANY: usize = 20;

/// Runs `work` in so many tasks that begin together.
async fn together<F, Fut, T>(count: usize, work: F) -> Vec<T>
where
    F: Fn(usize) -> Fut,
    Fut: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    let start = Arc::new(Barrier::new(count));
    let task = |number| -> JoinHandle<T> {
        let (start, work) = (start.clone(), work(number));
        tokio::spawn(async move {
            start.wait().await;
            work.await
        })
    };
    let mut answers = Vec::new();
    for task in (0..count).map(task).collect::<Vec<_>>() {
        answers.push(task.await.unwrap());
    }
    answers
}

async fn chair() -> (File, Engine, String) {
    let file = File::new();
    let fields: Vec<String> = (0..MANY).map(|number| format!("field{number}")).collect();
    let text = super::support::PRODUCT
        .replace("[name, description", &format!("[{}, name, description", fields.join(", ")));
    let engine = file.builder(&text).build().await.unwrap();
    let token = created(&engine.editor("anna"), &product("42")).await;
    (file, engine, token)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn twenty_editors_on_twenty_fields_of_one_form_all_succeed_with_a_version_each() {
    let (file, engine, token) = chair().await;

    let outcomes = together(MANY, |number| {
        let editor = engine.editor(&format!("editor-{number}"));
        let save = editor.save(&product("42")).token(token.clone());
        save.set(format!("field{number}"), number).send()
    })
    .await;

    let mut versions: Vec<u64> =
        outcomes.into_iter().map(|outcome| saved(outcome.unwrap()).version.unwrap().0).collect();
    versions.sort_unstable();
    assert_eq!(versions, (2..=MANY as u64 + 1).collect::<Vec<_>>());
    assert_eq!(file.counts(&product("42")).await, (MANY + 1, 0));
    for number in 0..MANY {
        assert_eq!(file.value(&product("42"), &format!("field{number}")).await, json!(number));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_counter_that_twenty_tasks_add_to_has_the_exact_sum() {
    let (file, engine, _) = chair().await;

    let done = together(MANY, |number| {
        let engine = engine.clone();
        async move {
            for _ in 0..5 {
                let save = match number % 2 {
                    0 => engine.worker("shop").save(&product("42")),
                    _ => engine.editor("anna").save(&product("42")),
                };
                saved(save.add("stock", number as i64 + 1).send().await.unwrap());
            }
        }
    })
    .await;

    let sum: usize = (1..=MANY).map(|number| number * 5).sum();
    assert_eq!(done.len(), MANY);
    assert_eq!(file.value(&product("42"), "stock").await, json!(sum));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_set_that_twenty_tasks_put_a_member_into_has_them_all() {
    let (file, engine, token) = chair().await;

    let outcomes = together(MANY, |number| {
        let save = engine.editor("anna").save(&product("42"));
        match number % 2 {
            0 => save.include("categories", [format!("c{number:02}")]).send(),
            _ => save.token(token.clone()).set("categories", vec![format!("c{number:02}")]).send(),
        }
    })
    .await;

    for outcome in outcomes {
        saved(outcome.unwrap());
    }
    let stored = file.value(&product("42"), "categories").await;
    let mut stored: Vec<String> = serde_json::from_value(stored).unwrap();
    stored.sort();
    assert_eq!(stored, (0..MANY).map(|number| format!("c{number:02}")).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_twenty_editors_who_change_one_field_exactly_one_wins_and_the_others_see_its_value() {
    for field in ["name", "price"] {
        let (file, engine, token) = chair().await;

        let outcomes = together(MANY, |number| {
            let editor = engine.editor(&format!("editor-{number}"));
            let save = editor.save(&product("42")).token(token.clone());
            save.set(field, format!("value-{number}")).send()
        })
        .await;

        let outcomes: Vec<Outcome> = outcomes.into_iter().map(Result::unwrap).collect();
        let won: Vec<usize> =
            (0..MANY).filter(|number| outcomes[*number].code() == "applied").collect();
        let [winner] = won[..] else { panic!("{field}: {won:?}") };
        let value = json!(format!("value-{winner}"));
        assert_eq!(file.value(&product("42"), field).await, value);
        for (number, outcome) in outcomes.iter().enumerate().filter(|(n, _)| *n != winner) {
            assert_eq!(outcome.code(), "conflict", "{number}");
            let (_, conflict) = outcome.plan().unwrap().conflicts().next().unwrap();
            assert_eq!(conflict.theirs, value.clone().into());
        }
        assert_eq!(file.counts(&product("42")).await, (2, 0));
    }
}

/// Claims, saves, waits and refusals on ever new records leave nothing in the lease manager or the lease store.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn records_that_were_worked_on_leave_nothing_behind_in_memory() {
    let hands = super::support::Hands::new();
    let process = hands.process().await;
    let worker = process.engine.worker("w");

    for number in 0..500 {
        let entity = product(&number.to_string());
        created(&process.engine.editor("anna"), &entity).await;
        saved(
            worker
                .save(&entity)
                .set("thumbnail", "t")
                .set("searchIndex", "x")
                .send()
                .await
                .unwrap(),
        );
        let claim =
            worker.claim(&entity, ["media", "translation[locale=de]"]).send().await.unwrap();
        let skip = fieldlease::registry::OnBusy::Skip;
        let other = process.engine.worker("other").claim(&entity, ["media"]).on_busy(skip);
        assert!(matches!(other.send().await.unwrap(), fieldlease::engine::Claiming::Skipped(_)));
        drop(claim);
        saved(process.engine.editor("anna").delete(&entity).send().await.unwrap());
    }

    hands.settle().await;
    assert_eq!(process.engine.leases(None, None, 10).await.unwrap().0, vec![]);
    assert!(hands.leases.is_empty());
}
