//! Edit tokens of long ago, of elsewhere, and made up.

use fieldlease::{
    engine::{OnChangedRegistry, Session},
    error::Error,
    plan::{TokenSecret, decode_token, encode_token},
    token::ScopeVersion,
};
use serde_json::json;
use std::time::Duration;

use super::support::{File, PRODUCT, created, path, product, refused, saved};

async fn rename(anna: &Session, name: &str) {
    let token = anna.load(&product("42")).await.unwrap().unwrap().token;
    saved(anna.save(&product("42")).token(token).set("name", name).send().await.unwrap());
}

#[tokio::test]
async fn a_form_loaded_many_saves_ago_finds_what_it_showed_in_the_history() {
    let file = File::new();
    let engine = file.engine().await;
    let (anna, ben) = (engine.editor("anna"), engine.editor("ben"));
    let old = created(&anna, &product("42")).await;
    for name in ["Stool", "Bench", "Sofa"] {
        rename(&anna, name).await;
    }

    let save = |name: &str| ben.save(&product("42")).token(old.clone()).set("name", name).send();
    let as_shown = save("Chair").await.unwrap();
    let as_stored = save("Sofa").await.unwrap();
    let changed = refused(save("Table").await.unwrap());

    assert_eq!((as_shown.code(), as_stored.code()), ("unchanged", "unchanged"));
    let plan = changed.plan.unwrap();
    let (at, conflict) = plan.conflicts().next().unwrap();
    assert_eq!((at, &conflict.base), (&path("name"), &Some(json!("Chair").into())));
    assert_eq!(conflict.theirs, json!("Sofa").into());
    let again = ben.save(&product("42")).token(changed.token.unwrap()).set("name", "Table");
    saved(again.send().await.unwrap());
}

#[tokio::test]
async fn a_token_that_cannot_be_meant_is_a_fault_of_the_call() {
    let file = File::new();
    let engine = file.builder(PRODUCT).token_secret("secret").build().await.unwrap();
    let anna = engine.editor("anna");
    let token = created(&anna, &product("42")).await;
    let other = created(&anna, &product("43")).await;
    let secret = TokenSecret::new(b"secret");
    let forged = |change: &dyn Fn(&mut fieldlease::snapshot::EditToken)| {
        let mut read = decode_token(&token, Some(&secret)).unwrap();
        change(&mut read);
        encode_token(&read, Some(&secret))
    };
    let ahead = forged(&|token| {
        for version in token.versions.values_mut() {
            *version = ScopeVersion(version.0 + 1);
        }
    });
    let unborn = forged(&|token| token.incarnation = token.incarnation.next());
    let read = decode_token(&token, Some(&secret)).unwrap();
    let unsigned = encode_token(&read, None);
    let mut tampered = token.clone();
    let last = tampered.pop().unwrap();
    tampered.push(if last == 'A' { 'Q' } else { 'A' });
    let before = file.counts(&product("42")).await;

    let cases = [
        (other, "other_entity"),
        (ahead, "token_ahead"),
        (unborn, "token_ahead"),
        (unsigned, "token_signature"),
        (String::new(), "token_malformed"),
        ("x".repeat(100_000), "token_malformed"),
    ];
    for (token, code) in cases {
        for delete in [false, true] {
            let save = match delete {
                false => anna.save(&product("42")).set("name", "Stool"),
                true => anna.delete(&product("42")),
            };
            let error = save.token(token.clone()).send().await.unwrap_err();
            assert!(matches!(error, Error::Invalid { .. }), "{error:?}");
            assert_eq!(error.code(), code);
        }
    }
    let error = anna.save(&product("42")).token(tampered).set("name", "x").send().await;
    let code = error.unwrap_err().code();
    assert!(code == "token_signature" || code == "token_malformed", "{code}");
    assert_eq!(file.counts(&product("42")).await, before);
    assert_eq!(engine.leases(None, None, 10).await.unwrap().0, vec![]);
}

#[tokio::test]
async fn a_token_of_former_rules_stays_good_where_they_did_not_change() {
    let file = File::new();
    let former = file.engine().await;
    let token = created(&former.editor("anna"), &product("42")).await;
    let text = PRODUCT
        .replace("[name, description", "[description")
        .replace("      sync: [lastSync]\n", "      sync: [lastSync]\n      naming: [name]\n");
    let next = file.builder(&text).on_changed_registry(OnChangedRegistry::Activate);
    let next = next.activation_delay(Duration::ZERO).build().await.unwrap();

    let same = next.editor("anna").save(&product("42")).token(token.clone());
    saved(same.set("description", "Red").send().await.unwrap());
    // The name has another owner now: whatever the token says of its old scope counts for nothing.
    let moved = next.worker("namer").save(&product("42")).token(token).set("name", "Stool");
    let moved = refused(moved.send().await.unwrap());

    assert_eq!(moved.why.code(), "conflict");
    let plan = moved.plan.unwrap();
    assert_eq!(plan.conflicts().next().unwrap().1.rule, "base_unknown");
}
