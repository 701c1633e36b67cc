//! The rules in force: two processes that disagree about them never both write.

use fieldlease::{engine::OnChangedRegistry, entity::EntityType, store::RegistryStore};
use serde_json::json;
use std::time::Duration;

use super::support::{File, PRODUCT, created, product, refused, saved};

fn with_more() -> String {
    PRODUCT.replace("images]\n", "images, video]\n")
}

fn with_name_taken_away() -> String {
    PRODUCT.replace("[name, description", "[description").replace("[seoText]", "[seoText, name]")
}

#[tokio::test]
async fn a_start_with_other_rules_is_refused_unless_it_is_told_what_to_do() {
    let file = File::new();
    file.engine().await;
    let kind = EntityType::new("Product").unwrap();

    let refuse = file.builder(&with_more()).build().await.err().unwrap();
    let follow = file.builder(&with_more()).on_changed_registry(OnChangedRegistry::Follow);
    let follow = follow.build().await.unwrap();
    let first = file.store.active(&kind).await.unwrap().unwrap().0;
    let activate = file.builder(&with_more()).on_changed_registry(OnChangedRegistry::Activate);
    let activate = activate.activation_delay(Duration::ZERO).build().await.unwrap();
    let second = file.store.active(&kind).await.unwrap().unwrap().0;

    assert_eq!(refuse.code(), "registry_changed");
    assert_eq!(follow.rules(&kind).unwrap().generation, first);
    assert_eq!(activate.rules(&kind).unwrap().generation, second);
    assert_ne!(first, second);
}

#[tokio::test]
async fn a_save_under_former_rules_goes_on_only_if_the_new_ones_decide_the_same() {
    for (text, code) in [(with_more(), "applied"), (with_name_taken_away(), "stale_registry")] {
        let file = File::new();
        let engine = file.engine().await;
        let chair = product("42");
        let token = created(&engine.editor("anna"), &chair).await;
        let other = file.builder(&text).on_changed_registry(OnChangedRegistry::Activate);
        let other = other.activation_delay(Duration::ZERO).build().await.unwrap();

        let save = engine.editor("anna").save(&chair).token(token).set("name", "Stool");
        let outcome = save.send().await.unwrap();

        assert_eq!(outcome.code(), code, "{outcome:?}");
        assert!(outcome.token().is_some());
        let kind = EntityType::new("Product").unwrap();
        let rules = [engine, other].map(|engine| engine.rules(&kind).unwrap().generation);
        assert_eq!(rules[0], rules[1], "the first engine follows");
        let name = if code == "applied" { "Stool" } else { "Chair" };
        assert_eq!(file.value(&chair, "name").await, json!(name));
    }
}

#[tokio::test]
async fn a_claim_under_former_rules_follows_the_new_ones() {
    let file = File::new();
    let engine = file.engine().await;
    let chair = product("42");
    created(&engine.editor("anna"), &chair).await;
    let other = file.builder(&with_more()).on_changed_registry(OnChangedRegistry::Activate);
    other.activation_delay(Duration::ZERO).build().await.unwrap();

    let worker = engine.worker("thumbnailer");
    let fieldlease::engine::Claiming::Claimed(claim) =
        worker.claim(&chair, ["media"]).send().await.unwrap()
    else {
        panic!("not claimed")
    };

    saved(claim.save().set("thumbnail", "t").send().await.unwrap());
}

#[tokio::test]
async fn the_store_keeps_of_each_type_its_own_section_and_those_it_extends() {
    let file = File::new();
    let text = format!("{PRODUCT}  Book:\n    extends: Product\n    editor_owned: [isbn]\n");
    file.builder(&text).build().await.unwrap();

    let active = |kind: &str| {
        let (kind, store) = (EntityType::new(kind).unwrap(), file.store.clone());
        async move { store.active(&kind).await.unwrap().unwrap().1 }
    };

    assert_eq!(active("Product").await, PRODUCT);
    let book = active("Book").await;
    assert!(book.contains("isbn") && book.contains("thumbnail"), "{book}");
}

#[tokio::test]
async fn what_the_registry_declares_and_this_version_does_not_do_is_said() {
    let file = File::new();
    let text = PRODUCT.replace("  Product:\n", "  Product:\n    enforcement: observe\n");
    let engine = file.builder(&text).build().await.unwrap();

    let save = engine.editor("anna").create(&product("42")).set("name", "x").send().await;

    assert_eq!(save.unwrap_err().code(), "not_yet");
    let loaded = engine.editor("anna").load(&product("42")).await.unwrap();
    assert!(loaded.is_none());
    assert_eq!(refused_count(&file).await, 0);
}

async fn refused_count(file: &File) -> usize {
    let counts = file.counts(&product("42")).await;
    counts.0 + counts.1
}

#[tokio::test]
async fn a_process_without_the_text_in_the_store_says_that_it_cannot_follow() {
    let file = File::new();
    let registry = super::support::registry_of(PRODUCT);
    let silent = fieldlease::engine::Engine::builder(registry).store(file.store.clone());
    let silent = silent.build().await.unwrap();
    created(&silent.editor("anna"), &product("42")).await;

    let follow = file.builder(&with_more()).on_changed_registry(OnChangedRegistry::Follow);
    let error = follow.build().await.err().unwrap();

    assert_eq!(error.code(), "stale_registry");
    let save = silent.editor("ben").save(&product("42")).set("name", "x").send().await.unwrap();
    assert_eq!(refused(save).why.code(), "conflict");
}
