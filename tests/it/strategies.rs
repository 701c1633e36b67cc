//! What each strategy does, as tables of cases, and what all of them promise, as properties.

use fieldlease::{
    entity::{Change, Value, Writer},
    strategy::{MergeInput, Merged, Settled, Strategies, merge, settled},
};
use proptest::prelude::*;
use serde_json::{Value as Json, json};

/// `{"set": v}`, `{"unset": true}`, `{"add": 1}`, `{"include": []}`, `{"exclude": []}`, anything else is set.
fn change(json: &Json) -> Change {
    let list = |json: &Json| json.as_array().unwrap().clone();
    match json.as_object().and_then(|object| object.iter().next()) {
        Some((key, json)) if key == "set" => Change::Set(json.clone()),
        Some((key, _)) if key == "unset" => Change::Unset,
        Some((key, json)) if key == "add" => Change::Add(json.as_i64().unwrap()),
        Some((key, json)) if key == "include" => Change::Include(list(json)),
        Some((key, json)) if key == "exclude" => Change::Exclude(list(json)),
        _ => Change::Set(json.clone()),
    }
}

/// `"-"` is absent.
fn value(json: &Json) -> Value {
    if *json == json!("-") { Value::Absent } else { Value::Present(json.clone()) }
}

fn writer(text: &str) -> Writer {
    match text {
        "e" => Writer::editor("anna"),
        "f" => Writer::editor("ben"),
        "w" => Writer::worker("erp"),
        _ => Writer::worker("import"),
    }
}

fn show(merged: &Merged) -> Json {
    let plain = |value: &Value| value.json().cloned().unwrap_or(json!("-"));
    match merged {
        Merged::Take { value, lost } if lost.is_empty() => json!({ "take": plain(value) }),
        Merged::Take { value, lost } => {
            json!({ "take": plain(value), "lost": lost.iter().map(plain).collect::<Vec<_>>() })
        }
        Merged::Keep { rule } => json!({ "keep": rule }),
        Merged::Conflict { rule, .. } => json!({ "conflict": rule }),
    }
}

/// Columns: base (`"?"` is unknown), ours, theirs, answer; then writers if they matter, `ours` and `theirs`.
fn check(
    strategy: &str,
    options: &Json,
    cases: &[(Json, Json, Json, Json)],
    writers: (&str, &str),
) {
    let strategies = Strategies::standard();
    let strategy = strategies.find(strategy).unwrap();
    let (our_writer, their_writer) = (writer(writers.0), writer(writers.1));
    for (base, ours, theirs, expected) in cases {
        let (known, theirs) = (value(base), value(theirs));
        let input = MergeInput {
            base: (*base != json!("?")).then_some(&known),
            ours: &change(ours),
            theirs: &theirs,
            our_writer: &our_writer,
            their_writer: (writers.1 != "?").then_some(&their_writer),
            options,
        };

        let merged = merge(&**strategy, input);

        let case = format!("{}: {base} / {ours} / {theirs:?}", strategy.name());
        assert_eq!(show(&merged), *expected, "{case}");
    }
}

macro_rules! cases {
    ($($base:tt, $ours:tt, $theirs:tt => $expected:tt;)*) => {
        &[$((json!($base), json!($ours), json!($theirs), json!($expected)),)*]
    };
}

#[test]
fn what_is_stored_or_shown_is_settled_before_any_strategy() {
    let cases = [
        (json!(1), json!(2), json!(2), Some(Settled::AsStored)),
        (json!(1), json!(2), json!(2.0), Some(Settled::AsStored)),
        (json!(1), json!(-0.0), json!(0), Some(Settled::AsStored)),
        // One more than 2^53, which no float can hold.
        (json!(1), json!(9_007_199_254_740_993_u64), json!(9_007_199_254_740_992.0), None),
        (json!(1), json!(u64::MAX), json!(18_446_744_073_709_551_616.0), None),
        (json!(1), json!(1u64 << 63), json!(9_223_372_036_854_775_808.0), Some(Settled::AsStored)),
        (json!(1), json!(1), json!(2), Some(Settled::AsShown)),
        (json!("-"), json!({"unset": 1}), json!(2), Some(Settled::AsShown)),
        (json!(1), json!({"unset": 1}), json!("-"), Some(Settled::AsStored)),
        (json!("?"), json!({"add": 0}), json!(2), Some(Settled::AsStored)),
        (json!("?"), json!({"include": ["a"]}), json!(["a"]), Some(Settled::AsStored)),
        (json!("?"), json!({"exclude": ["b"]}), json!(["a"]), Some(Settled::AsStored)),
        (json!("?"), json!({"exclude": ["b"]}), json!("-"), Some(Settled::AsStored)),
        (json!("?"), json!(1), json!(2), None),
        (json!(1), json!(null), json!("-"), None),
        (json!(null), json!({"unset": 1}), json!(null), None),
        (json!([1, 2]), json!([2, 1]), json!([1, 2]), None),
    ];
    for (base, ours, theirs, expected) in cases {
        let known = value(&base);
        let base = (base != json!("?")).then_some(&known);

        assert_eq!(settled(base, &change(&ours), &value(&theirs)), expected, "{ours} {theirs}");
    }
}

#[test]
fn reject_takes_one_change_and_refuses_two() {
    let cases = cases! {
        1, 2, 1 => {"take": 2};
        1, 2, 3 => {"conflict": "changed_since"};
        1, 2, "-" => {"conflict": "removed_since"};
        "-", 2, 3 => {"conflict": "created_since"};
        "?", 2, 3 => {"conflict": "base_unknown"};
        1, {"unset": 1}, 1 => {"take": "-"};
        1, {"unset": 1}, 3 => {"conflict": "changed_since"};
        1, null, 1 => {"take": null};
        null, 2, 1 => {"conflict": "changed_since"};
        1, 2, null => {"conflict": "changed_since"};
        [1], {"a": 1}, [1] => {"take": {"a": 1}};
        1, "1", 1 => {"take": "1"};
        "?", {"add": 2}, 3 => {"take": 5};
        "?", {"include": ["b"]}, ["a"] => {"take": ["a", "b"]};
        "?", {"add": 2}, "x" => {"conflict": "not_an_integer"};
        "?", {"include": ["b"]}, 3 => {"conflict": "not_a_list"};
    };
    check("reject", &json!({}), cases, ("e", "w"));
}

#[test]
fn last_write_wins_names_what_it_replaces_unseen() {
    let cases = cases! {
        1, 2, 1 => {"take": 2};
        1, 2, 3 => {"take": 2, "lost": [3]};
        1, 2, "-" => {"take": 2, "lost": ["-"]};
        "?", 2, 3 => {"take": 2, "lost": [3]};
        1, {"unset": 1}, 3 => {"take": "-", "lost": [3]};
        1, 1, 3 => {"take": 3};
        1, null, [3] => {"take": null, "lost": [[3]]};
    };
    check("last_write_wins", &json!({}), cases, ("w", "e"));
}

#[test]
fn keep_current_leaves_a_value_nobody_had_shown() {
    let cases = cases! {
        1, 2, 1 => {"take": 2};
        1, 2, 3 => {"keep": "keep_current"};
        1, 2, "-" => {"keep": "keep_current"};
        "?", 2, 3 => {"keep": "keep_current"};
        1, {"unset": 1}, 1 => {"take": "-"};
        1, {"unset": 1}, 3 => {"keep": "keep_current"};
    };
    check("keep_current", &json!({}), cases, ("w", "e"));
}

#[test]
fn editor_wins_and_system_wins_look_at_who_wrote() {
    let ours = cases! {
        1, 2, 1 => {"take": 2};
        1, 2, 3 => {"take": 2, "lost": [3]};
        "?", 2, 3 => {"take": 2, "lost": [3]};
        1, {"unset": 1}, 3 => {"take": "-", "lost": [3]};
    };
    let theirs = |rule: &str| {
        [
            (json!(1), json!(2), json!(1), json!({"take": 2})),
            (json!(1), json!(2), json!(3), json!({"keep": rule})),
            (json!("?"), json!(2), json!(3), json!({"keep": rule})),
            (json!(1), json!(2), json!("-"), json!({"keep": rule})),
        ]
    };
    let nobody = cases! {
        1, 2, 1 => {"take": 2};
        1, 2, 3 => {"conflict": "changed_since"};
        "?", 2, 3 => {"conflict": "base_unknown"};
    };
    check("editor_wins", &json!({}), ours, ("e", "w"));
    check("editor_wins", &json!({}), &theirs("editor_wins"), ("w", "e"));
    check("system_wins", &json!({}), ours, ("w", "e"));
    check("system_wins", &json!({}), &theirs("system_wins"), ("e", "w"));
    for strategy in ["editor_wins", "system_wins"] {
        for writers in [("e", "f"), ("w", "i"), ("e", "?"), ("w", "?")] {
            check(strategy, &json!({}), nobody, writers);
        }
    }
}

#[test]
fn fill_if_empty_gives_a_value_once() {
    let cases = cases! {
        "-", 2, "-" => {"take": 2};
        null, 2, null => {"take": 2};
        "", 2, "" => {"take": 2};
        [], [1], [] => {"take": [1]};
        {}, 2, {} => {"take": 2};
        0, 2, 0 => {"keep": "already_filled"};
        false, true, false => {"keep": "already_filled"};
        " ", "a", " " => {"keep": "already_filled"};
        "-", 2, 3 => {"keep": "already_filled"};
        "?", 2, 3 => {"keep": "already_filled"};
        "?", 2, "-" => {"take": 2};
        1, 2, "-" => {"take": 2, "lost": ["-"]};
        1, {"unset": 1}, 1 => {"take": "-"};
        1, "", 1 => {"take": ""};
        1, {"unset": 1}, 3 => {"conflict": "changed_since"};
        "?", {"unset": 1}, 3 => {"conflict": "base_unknown"};
        "?", {"add": 2}, "-" => {"take": 2};
    };
    check("fill_if_empty", &json!({}), cases, ("w", "e"));
}

#[test]
fn set_merge_adds_and_removes_of_both_sides() {
    let cases = cases! {
        ["a"], ["a", "b"], ["a"] => {"take": ["a", "b"]};
        ["a", "b"], ["b", "a"], ["a", "b"] => {"take": ["b", "a"]};
        ["carp", "old"], ["carp", "new"], ["carp", "old", "trout"] => {"take": ["carp", "trout", "new"]};
        ["a", "b"], ["a"], ["b", "a", "c"] => {"take": ["a", "c"]};
        ["a", "b"], ["a", "b", "c"], ["b"] => {"take": ["b", "c"]};
        ["a", "b"], ["b"], ["a"] => {"take": []};
        ["a"], ["a", "x"], ["a", "x", "y"] => {"take": ["a", "x", "y"]};
        [], ["x", "x", 1, 1.0], ["y"] => {"take": ["y", "x", 1]};
        ["a"], ["b"], ["a", "a", "c"] => {"take": ["c", "b"]};
        ["a"], ["a", "b"], ["a", "c", "c"] => {"take": ["a", "c", "c", "b"]};
        [{"k": 1, "l": 2}], [], [{"l": 2.0, "k": 1}, 7] => {"take": [7]};
        ["a"], {"unset": 1}, ["a", "b"] => {"take": ["b"]};
        ["a"], {"unset": 1}, ["a"] => {"take": "-"};
        ["a", "b"], {"unset": 1}, ["a"] => {"take": "-"};
        ["a", "b"], ["a", "b", "c"], "-" => {"take": ["c"]};
        ["a", "b"], ["a"], "-" => {"take": "-"};
        "-", ["a"], ["b"] => {"take": ["b", "a"]};
        "?", ["a"], ["b"] => {"conflict": "base_unknown"};
        ["a"], ["b"], null => {"conflict": "not_a_list"};
        ["a"], "b", ["a", "c"] => {"conflict": "not_a_list"};
        ["a"], "b", ["a"] => {"take": "b"};
        "x", ["b"], "x" => {"take": ["b"]};
        "x", ["b"], ["c"] => {"conflict": "not_a_list"};
        "?", {"include": ["b", "b", "a"]}, ["a"] => {"take": ["a", "b"]};
        "?", {"include": ["b"]}, "-" => {"take": ["b"]};
        "?", {"exclude": ["a"]}, ["a", "b", "a"] => {"take": ["b"]};
        "?", {"exclude": ["a"]}, ["a"] => {"take": []};
        "?", {"include": ["b"]}, null => {"conflict": "not_a_list"};
        "?", {"add": 1}, ["a"] => {"conflict": "not_an_integer"};
    };
    check("set_merge", &json!({}), cases, ("e", "w"));
}

#[test]
fn counter_adds_what_the_form_added() {
    let cases = cases! {
        5, 7, 4 => {"take": 6};
        2, 2, 1 => {"take": 1};
        0, 1, 2 => {"take": 3};
        5, 3, 5 => {"take": 3};
        5, 3.0, 4 => {"take": 2};
        "-", 1, 3 => {"conflict": "created_since"};
        "-", 1, "-" => {"take": 1};
        5, 7, "-" => {"conflict": "removed_since"};
        5, {"unset": 1}, 5 => {"take": "-"};
        5, {"unset": 1}, 4 => {"conflict": "changed_since"};
        "?", {"unset": 1}, 4 => {"conflict": "base_unknown"};
        "?", 7, 4 => {"conflict": "base_unknown"};
        5, 7.5, 4 => {"conflict": "not_an_integer"};
        "5", "7", "4" => {"conflict": "not_an_integer"};
        "12.50", "13.00", "12.50" => {"take": "13.00"};
        5, null, 4 => {"conflict": "not_an_integer"};
        null, 5, 4 => {"conflict": "not_an_integer"};
        5, [7], 4 => {"conflict": "not_an_integer"};
        "?", {"add": 2}, 4 => {"take": 6};
        "?", {"add": -2}, "-" => {"take": -2};
        "?", {"add": 2}, null => {"conflict": "not_an_integer"};
        "?", {"add": 2}, 1.5 => {"conflict": "not_an_integer"};
        0, 9223372036854775807i64, 9223372036854775807i64 => {"take": 9223372036854775807i64};
        0, 9223372036854775807i64, 5 => {"take": 9223372036854775812u64};
        0, 18446744073709551615u64, 5 => {"conflict": "out_of_range"};
        "?", {"add": 9223372036854775807i64}, 18446744073709551615u64 => {"conflict": "out_of_range"};
        1e300, 7, 4 => {"conflict": "not_an_integer"};
    };
    check("counter", &json!({}), cases, ("e", "w"));
}

#[test]
fn a_counter_never_leaves_its_bounds_and_never_clamps() {
    let cases = cases! {
        2, 0, 1 => {"conflict": "below_min"};
        2, 0, 2 => {"take": 0};
        2, {"set": (-1)}, 2 => {"conflict": "below_min"};
        2, 9, 4 => {"conflict": "above_max"};
        2, 8, 4 => {"take": 10};
        "?", {"add": -3}, 2 => {"conflict": "below_min"};
        "?", {"add": 1}, (-3) => {"take": -2};
        "?", {"add": -1}, (-3) => {"conflict": "below_min"};
        "?", {"add": -1}, 12 => {"take": 11};
        "-", {"set": (-1)}, "-" => {"conflict": "below_min"};
    };
    for options in [json!({"min": 0, "max": 10}), json!({"min": "0", "max": "10"})] {
        check("counter", &options, cases, ("w", "w"));
    }
}

#[test]
fn max_and_min_move_one_way() {
    let max = cases! {
        1, 3, 2 => {"take": 3, "lost": [2]};
        1, 3, 1 => {"take": 3};
        1, 2, 3 => {"keep": "not_greater"};
        3, 2, 3 => {"keep": "not_greater"};
        "?", 3, 2 => {"take": 3, "lost": [2]};
        1, 1.5, 1 => {"take": 1.5};
        "-", 1, "-" => {"take": 1};
        null, 1, null => {"take": 1};
        1, 2, "-" => {"take": 2, "lost": ["-"]};
        "a", "b", "a" => {"take": "b"};
        "2026-01-02", "2026-01-10", "2026-01-02" => {"take": "2026-01-10"};
        "9", "10", "9" => {"conflict": "not_comparable"};
        1, "2", 1 => {"conflict": "not_comparable"};
        1, [2], 1 => {"conflict": "not_comparable"};
        "-", [2], "-" => {"conflict": "not_comparable"};
        1, {"unset": 1}, 1 => {"take": "-"};
        1, {"unset": 1}, 2 => {"conflict": "changed_since"};
        "?", null, 2 => {"conflict": "base_unknown"};
        9007199254740993i64, 9007199254740992i64, 9007199254740993i64 => {"keep": "not_greater"};
    };
    check("max", &json!({}), max, ("w", "e"));
    let min = cases! {
        3, 1, 2 => {"take": 1, "lost": [2]};
        1, 3, 2 => {"keep": "not_smaller"};
        "-", 1, "-" => {"take": 1};
    };
    check("min", &json!({}), min, ("w", "e"));
    let order = cases! {
        "draft", "live", "draft" => {"take": "live"};
        "draft", "review", "live" => {"keep": "not_greater"};
        "draft", "gone", "draft" => {"conflict": "not_in_order"};
        "-", "gone", "-" => {"conflict": "not_in_order"};
        "gone", "live", "gone" => {"conflict": "not_in_order"};
        "-", "draft", "-" => {"take": "draft"};
    };
    check("max", &json!({"order": ["draft", "review", "live"]}), order, ("w", "e"));
    let numbers = cases! { 2, 10, 2 => {"take": 10}; };
    check("max", &json!({"order": ["1", "2", "10"]}), numbers, ("w", "e"));
}

#[test]
fn options_are_checked_in_the_users_words() {
    let cases = [
        ("counter", json!({"min": "a"}), vec!["min"]),
        ("counter", json!({"min": 1.5, "max": []}), vec!["min", "max"]),
        ("counter", json!({"min": 5, "max": "4"}), vec!["max"]),
        ("counter", json!({"min": "-5", "max": 4}), vec![]),
        ("max", json!({"order": "a"}), vec!["order"]),
        ("max", json!({"order": ["a"]}), vec!["order"]),
        ("min", json!({"order": ["a", "b", "a"]}), vec!["order"]),
        ("min", json!({"order": ["a", ["b"]]}), vec!["order"]),
        ("min", json!({"order": ["a", "b"]}), vec![]),
        ("reject", json!({}), vec![]),
    ];
    for (name, options, expected) in cases {
        let strategies = Strategies::standard();
        let problems = strategies.find(name).unwrap().check(&options);

        let keys: Vec<_> = problems.iter().map(|(key, _)| *key).collect();
        assert_eq!(keys, expected, "{name} {options}");
        assert!(problems.iter().all(|(_, text)| text.contains('`')), "{problems:?}");
    }
}

#[test]
fn later_strategies_are_known_words_and_no_strategies() {
    let strategies = Strategies::standard();

    assert_eq!(strategies.names().count(), 10);
    assert!(strategies.later().iter().all(|name| strategies.find(name).is_none()));
    assert!(strategies.later().contains(&"editor_pin"));
}

fn json_value() -> impl Strategy<Value = Json> {
    let scalar = prop_oneof![
        Just(json!(null)),
        Just(json!("a")),
        Just(json!("b")),
        Just(json!("")),
        (-3_i64..4).prop_map(Json::from),
        Just(json!(1.5)),
    ];
    prop_oneof![
        3 => scalar.clone(),
        1 => prop::collection::vec(scalar, 0..4).prop_map(Json::from),
    ]
}

fn three_state() -> impl Strategy<Value = Value> {
    prop_oneof![1 => Just(Value::Absent), 5 => json_value().prop_map(Value::Present)]
}

fn any_change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => json_value().prop_map(Change::Set),
        1 => Just(Change::Unset),
        1 => (-2_i64..3).prop_map(Change::Add),
        1 => prop::collection::vec(json_value(), 0..3).prop_map(Change::Include),
        1 => prop::collection::vec(json_value(), 0..3).prop_map(Change::Exclude),
    ]
}

fn parts(value: &Value) -> Vec<Json> {
    match value.json() {
        Some(Json::Array(list)) => list.clone(),
        Some(json) => vec![json.clone()],
        None => Vec::new(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn every_strategy_is_deterministic_stable_and_invents_nothing(
        base in prop::option::of(three_state()),
        ours in any_change(),
        theirs in three_state(),
        editor in any::<bool>(),
        theirs_editor in any::<bool>(),
    ) {
        let our_writer = writer(if editor { "e" } else { "w" });
        let their_writer = writer(if theirs_editor { "f" } else { "i" });
        let strategies = Strategies::standard();
        for name in strategies.names() {
            let strategy = strategies.find(name).unwrap();
            let input = MergeInput {
                base: base.as_ref(),
                ours: &ours,
                theirs: &theirs,
                our_writer: &our_writer,
                their_writer: Some(&their_writer),
                options: &Json::Null,
            };

            let merged = merge(&**strategy, input);

            prop_assert_eq!(&merged, &merge(&**strategy, input), "{} is not deterministic", name);
            let Merged::Take { value, lost } = merged else { continue };
            // Sending the result again changes nothing.
            if let Value::Present(json) = &value {
                let again = settled(Some(&theirs), &Change::Set(json.clone()), &value);
                prop_assert_eq!(again, Some(Settled::AsStored));
            }
            // Every part comes from somewhere, but for sums.
            if !matches!(ours, Change::Add(_)) && name != "counter" {
                let mut known = parts(&theirs);
                match &ours {
                    Change::Set(json) => known.extend(parts(&Value::Present(json.clone()))),
                    Change::Include(list) => known.extend(list.clone()),
                    _ => {}
                }
                for part in parts(&value) {
                    prop_assert!(known.contains(&part), "{name} invented {part}");
                }
            }
            // A foreign value the writer had not seen is still there, merged in, or named.
            let unseen = !base.as_ref().is_some_and(|base| base.same(&theirs));
            let replaced = matches!(ours, Change::Set(_) | Change::Unset) && !value.same(&theirs);
            let merges = matches!(name, "set_merge" | "counter" | "fill_if_empty");
            if unseen && replaced && !merges && !(base.is_none() && parts(&theirs).is_empty())
                && !matches!(theirs, Value::Present(Json::Null))
                && !(theirs.is_absent() && matches!(name, "max" | "min"))
            {
                prop_assert!(lost.contains(&theirs), "{name} lost {theirs:?} silently");
            }
        }
    }

    #[test]
    fn sets_counters_and_bounds_do_not_depend_on_who_was_first(
        base in prop::collection::vec(0_i64..6, 0..5),
        one in prop::collection::vec(0_i64..6, 0..5),
        two in prop::collection::vec(0_i64..6, 0..5),
    ) {
        let strategies = Strategies::standard();
        let (anna, erp) = (writer("e"), writer("w"));
        let number = |list: &[i64]| json!(list.iter().sum::<i64>());
        let run = |name: &str, base: Json, first: Json, second: Json| {
            let base = Value::Present(base);
            let strategy = strategies.find(name).unwrap();
            let step = |theirs: &Value, ours: Json| match merge(&**strategy, MergeInput {
                base: Some(&base),
                ours: &Change::Set(ours),
                theirs,
                our_writer: &anna,
                their_writer: Some(&erp),
                options: &Json::Null,
            }) {
                Merged::Take { value, .. } => value,
                Merged::Keep { .. } => theirs.clone(),
                Merged::Conflict { rule, .. } => panic!("{rule}"),
            };
            step(&step(&base, first), second)
        };
        let sorted = |value: Value| {
            let mut list: Vec<i64> = parts(&value).iter().map(|n| n.as_i64().unwrap()).collect();
            list.sort_unstable();
            list.dedup();
            list
        };

        let set = |a: &[i64], b: &[i64]| sorted(run("set_merge", json!(base), json!(a), json!(b)));
        prop_assert_eq!(set(&one, &two), set(&two, &one));
        for name in ["counter", "max", "min"] {
            let there = run(name, number(&base), number(&one), number(&two));
            let back = run(name, number(&base), number(&two), number(&one));
            prop_assert_eq!(there, back, "{}", name);
        }
    }
}
