//! What is stored comes back as it was, whatever it is.

use serde_json::{Value as Json, json};

use crate::{
    entity::{EntityRef, Value, Writer},
    testing::store_suite::{
        Stores, Verdict,
        build::{creation, path, same, save, text_of},
        promises,
    },
};

promises![
    any_id_is_an_id,
    every_value_comes_back_exactly,
    absent_null_and_empty_are_three_things,
    a_save_writes_its_own_leaves_and_no_sibling,
    a_value_too_deep_to_be_read_again_is_refused,
    a_record_of_four_kilobytes_comes_back,
];

async fn any_id_is_an_id(stores: Stores) -> Verdict {
    let long = "\u{1f980}".repeat(64);
    let ids =
        ["", "a", "a\0", "a\0b", "\0", "a\nb", "\u{1f980}", "a'b\"c`d", "A", "a ", "%", "_", &long];

    for (index, id) in ids.iter().enumerate() {
        stores.made(id, &[("editor.number", json!(index))]).await?;
    }
    for (index, id) in ids.iter().enumerate() {
        let entity = EntityRef::new("Product", id).map_err(text_of)?;
        let seen = stores.seen(&entity).await?;
        let got = seen.record.get(&path("editor.number")?);
        same(&format!("{id:?}"), got, Value::Present(json!(index)))?;
        same("its entries", stores.entries(&entity).await?.len(), 1)?;
    }
    let other = EntityRef::new("Article", "a").map_err(text_of)?;
    same("another type", stores.records.load(&other).await.map_err(text_of)?.is_none(), true)
}

async fn every_value_comes_back_exactly(stores: Stores) -> Verdict {
    let values: Vec<Json> = vec![
        json!(9_007_199_254_740_993_u64),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(0.1),
        json!(19.99),
        json!(1e300),
        json!(5e-324),
        json!(-0.0),
        json!(0.1 + 0.2),
        json!(7.038_531_e-26),
        json!("\0"),
        json!("line\nbreak\ttab \u{7f} \u{1f980} \u{feff}"),
        json!(""),
        json!(true),
        json!([1, [2, [3]], {"a": null}, "x"]),
        json!([]),
    ];
    let named: Vec<(String, Json)> = values
        .into_iter()
        .enumerate()
        .map(|(index, json)| (format!("editor.v{index}"), json))
        .collect();
    let named: Vec<(&str, Json)> =
        named.iter().map(|(text, json)| (text.as_str(), json.clone())).collect();

    let seen = stores.made("1", &named).await?;

    let entries = stores.entries(&seen.entity).await?;
    let changed = entries.first().map(|entry| entry.changed.clone()).unwrap_or_default();
    for ((text, json), change) in named.iter().zip(changed) {
        let wanted = Value::Present(json.clone());
        // By text too: equality of numbers would let `1` pass for `1.0`.
        let got = seen.record.get(&path(text)?);
        same(text, format!("{got:?}"), format!("{wanted:?}"))?;
        same("in history", format!("{:?}", change.new), format!("{wanted:?}"))?;
    }
    Ok(())
}

async fn absent_null_and_empty_are_three_things(stores: Stores) -> Verdict {
    let values =
        [("editor.null", json!(null)), ("editor.empty", json!({})), ("editor.text", json!(""))];
    let seen = stores.made("1", &values).await?;

    same("null", seen.record.get(&path("editor.null")?), Value::Present(json!(null)))?;
    same("empty", seen.record.get(&path("editor.empty")?), Value::Present(json!({})))?;
    same("absent", seen.record.get(&path("editor.absent")?), Value::Absent)?;

    let mut unset = save(&seen, &Writer::editor("anna"), &[("editor.null", json!(1))])?;
    unset.patch = [(path("editor.null")?, None)].into_iter().collect();
    for change in &mut unset.changed {
        change.new = Value::Absent;
    }
    stores.applied(&unset).await?;
    let after = stores.seen(&seen.entity).await?;
    same("after unset", after.record.get(&path("editor.null")?), Value::Absent)?;
    let entries = stores.entries(&seen.entity).await?;
    let change = entries.first().and_then(|entry| entry.changed.first()).ok_or("no change")?;
    same("old", &change.old, &Value::Present(json!(null)))?;
    same("new", &change.new, &Value::Absent)
}

async fn a_save_writes_its_own_leaves_and_no_sibling(stores: Stores) -> Verdict {
    let seen =
        stores.made("1", &[("data.a", json!(1)), ("data.b", json!({"c": 1, "d": 2}))]).await?;
    let mut first = save(&seen, &Writer::worker("w"), &[("data.b.c", json!(5))])?;
    let mut second = save(&seen, &Writer::worker("w"), &[("data.a", json!(6))])?;
    for commit in [&mut first, &mut second] {
        for expect in commit.scopes.values_mut() {
            *expect = crate::commit::Expect::Unread;
        }
    }

    stores.applied(&first).await?;
    stores.applied(&second).await?;

    let after = stores.seen(&seen.entity).await?;
    let got = after.record.get(&path("data")?);
    same("the node", got, Value::Present(json!({"a": 6, "b": {"c": 5, "d": 2}})))
}

async fn a_value_too_deep_to_be_read_again_is_refused(stores: Stores) -> Verdict {
    let nested = |depth: usize| (0..depth).fold(json!(1), |inner, _| json!([inner]));
    let entity = EntityRef::new("Product", "1").map_err(text_of)?;

    let deep = creation(&entity, None, &[("editor.deep", nested(500))])?;
    let code = stores.records.commit(&deep).await.err().map(|error| error.code());
    same("500 deep", code, Some("too_deep"))?;

    let seen = stores.made("1", &[("editor.deep", nested(100))]).await?;
    same("100 deep", seen.record.get(&path("editor.deep")?), Value::Present(nested(100)))
}

async fn a_record_of_four_kilobytes_comes_back(stores: Stores) -> Verdict {
    let named: Vec<(String, Json)> =
        (0..40).map(|index| (format!("editor.field{index}"), json!("x".repeat(100)))).collect();
    let named: Vec<(&str, Json)> =
        named.iter().map(|(text, json)| (text.as_str(), json.clone())).collect();

    let seen = stores.made("1", &named).await?;

    same("the leaves and the node above", seen.record.len(), 41)?;
    same("the stamps", seen.stamps.len(), 40)
}
