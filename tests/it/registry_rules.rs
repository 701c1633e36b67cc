//! What resolved rules answer: pieces of a written map, inputs of a computed field, generations and differences.

use std::collections::BTreeSet;

use fieldlease::{
    entity::Writer,
    path::Path,
    record::Record,
    registry::{self, Difference, Limits, Registry},
    strategy::Strategies,
};
use serde_json::{Value as Json, json};

fn load(text: &str) -> Registry {
    let (registry, found) =
        registry::load(text.as_bytes(), &Strategies::standard(), &Limits::default());
    registry.unwrap_or_else(|| panic!("{text}\n{found:#?}"))
}

fn product(entries: &str) -> Registry {
    load(&format!("field_ownership:\n  Product:\n{entries}"))
}

fn path(text: &str) -> Path {
    Path::parse(text).unwrap()
}

const PRODUCT: &str = "
    axes: {locale: any}
    collections: {gallery: uid, 'sections': [kind, id]}
    editor_owned: [name@locale, price, meta.**, gallery.#keys, gallery.#order, gallery.*.caption, sections.**]
    system_owned:
      erp: {fields: [price.cost, meta.erp]}
      media: [gallery.*.thumb, gallery.*.size, blocks.*.html]
    shared: {tags: set_merge}
";

#[test]
fn a_written_map_is_split_into_what_has_an_owner_of_its_own() {
    let registry = product(PRODUCT);
    let rules = registry.entity("Product").unwrap();
    let cases = [
        // One value, also when it is a map or lies inside a unit.
        ("tags", json!({"a": {"b": 1}}), json!({"tags": {"a": {"b": 1}}})),
        ("price.tax", json!({"rate": 19}), json!({"price.tax": {"rate": 19}})),
        // What an inner rule owns leaves the unit; the rest stays together.
        (
            "price",
            json!({"amount": 5, "cost": 3, "tax": {"rate": 19}}),
            json!({"price": {"amount": 5, "tax": {"rate": 19}}, "price.cost": 3}),
        ),
        ("price", json!({"cost": 3}), json!({"price": {}, "price.cost": 3})),
        ("price", json!({}), json!({"price": {}})),
        // One value per leaf.
        (
            "meta",
            json!({"a": {"b": 1, "c": [2]}, "erp": {"x": 1}, "d": {}}),
            json!({"meta.a.b": 1, "meta.a.c": [2], "meta.erp": {"x": 1}, "meta.d": {}}),
        ),
        // A map of items above units.
        (
            "gallery",
            json!({"a": {"caption": "x", "thumb": "y"}, "b": {"size": 1}}),
            json!({"gallery.a.caption": "x", "gallery.a.thumb": "y", "gallery.b.size": 1}),
        ),
        // A list of items with a declared key.
        (
            "gallery",
            json!([{"uid": "b", "caption": "x"}, {"uid": 7}]),
            json!({"gallery.#keys": ["7", "b"], "gallery.#order": ["b", "7"], "gallery.b.caption": "x", "gallery.b.uid": "b", "gallery.7.uid": 7}),
        ),
        (
            "sections",
            json!([{"kind": "hero", "id": 1}]),
            json!({"sections.#keys": ["hero,1"], "sections.#order": ["hero,1"], "sections.hero,1.id": 1, "sections.hero,1.kind": "hero"}),
        ),
        // Markers and scalars above units are left as they are.
        ("gallery.#keys", json!(["a"]), json!({"gallery.#keys": ["a"]})),
        ("gallery", json!(null), json!({"gallery": null})),
        ("gallery", json!(7), json!({"gallery": 7})),
        ("name@locale=de", json!({"x": 1}), json!({"name@locale=de": {"x": 1}})),
        ("a\\.b", json!({"c.d": {"e": 1}}), json!({"a\\.b.c\\.d.e": 1})),
    ];
    for (at, value, expected) in cases {
        let pieces = rules.split(&path(at), &value).unwrap();
        let got: serde_json::Map<String, Json> =
            pieces.iter().map(|(path, json)| (path.to_string(), json.clone())).collect();
        assert_eq!(Json::Object(got), expected, "{at} {value}");
        for (piece, _) in &pieces {
            let unit = rules.resolve(piece).unwrap().unit;
            assert!(piece.is_within(&unit), "{piece} in {unit}");
        }
    }
}

#[test]
fn what_cannot_be_split_says_why() {
    let registry = product(PRODUCT);
    let rules = registry.entity("Product").unwrap();
    for (at, value, code) in [
        ("name", json!("x"), "axis_required"),
        ("gallery", json!([{"caption": "x"}]), "item_without_key"),
        ("gallery", json!([{"uid": 1}, {"uid": "1"}]), "item_key_twice"),
        ("blocks", json!([{"html": "x"}]), "list_without_keys"),
        ("gallery", json!({"k".repeat(300): {"caption": 1}}), "path_too_deep"),
    ] {
        let got = rules.split(&path(at), &value).and_then(|pieces| {
            pieces.iter().try_for_each(|(path, _)| rules.resolve(path).map(|_| ()))
        });
        assert_eq!(got.unwrap_err().code, code, "{at} {value}");
    }
}

#[test]
fn stored_leaves_below_a_unit_are_told_apart() {
    let registry = product(PRODUCT);
    let rules = registry.entity("Product").unwrap();
    let value = json!({"amount": 5, "cost": 3, "tax": {"rate": 19}});
    let record: Record = [(path("price"), value), (path("sku"), json!(1))].into_iter().collect();

    let leaves = rules.leaves(&path("price"), &record).unwrap();

    assert_eq!(leaves.own, ["price", "price.amount", "price.tax", "price.tax.rate"].map(path));
    assert_eq!(leaves.inner, [path("price.cost")]);
    let price = path("price");
    let below: Vec<&str> = rules.rules_below(&price).map(|rule| rule.pattern.as_str()).collect();
    assert_eq!(below, ["price.cost"]);
    assert!(rules.has_inner(&price) && !rules.has_inner(&path("tags")));
}

#[test]
fn inputs_are_bound_to_the_keys_and_values_of_the_field() {
    let registry = product(
        "
    editor_owned: [g.#keys, g.*.file, g.*.alt@locale, logo, watermark.*]
    system_owned: {m: {fields: [g.*.thumb, g.*.text@locale], derived_from: [g.*.file, g.*.alt@locale, logo, 'watermark.*']}}
",
    );
    let rules = registry.entity("Product").unwrap();
    let inputs = |at: &str| -> Vec<String> {
        rules.inputs(&path(at)).iter().map(ToString::to_string).collect()
    };

    assert_eq!(inputs("g.a.thumb"), ["g.a.file", "g.a.alt@locale", "logo", "watermark.*"]);
    assert_eq!(
        inputs("g.a.text@locale=de"),
        ["g.a.file", "g.a.alt@locale=de", "logo", "watermark.*"]
    );
    assert_eq!(inputs("logo"), Vec::<String>::new());
}

#[test]
fn a_group_is_written_by_the_writers_it_names() {
    let registry = product(
        "
    editor_owned: {texts: [a]}
    system_owned: {m: {fields: [b], writers: [w]}, n: {fields: [c]}, o: {fields: [d], writers: []}}
    shared: {e: set_merge}
",
    );
    let rules = registry.entity("Product").unwrap();
    for (group, writer, may) in [
        ("texts", Writer::editor("anna"), true),
        ("texts", Writer::worker("w"), false),
        ("m", Writer::worker("w"), true),
        ("m", Writer::worker("x"), false),
        ("m", Writer::editor("w"), false),
        ("n", Writer::worker("x"), true),
        ("o", Writer::worker("x"), false),
        ("shared", Writer::editor("anna"), true),
        ("shared", Writer::worker("w"), true),
    ] {
        assert_eq!(rules.group(group).unwrap().may_write(&writer), may, "{group} {writer}");
    }
}

#[test]
fn axes_that_are_declared_are_the_only_ones() {
    let registry = product("    axes: {locale: [de, en]}\n    editor_owned: [name@locale, sku]\n");
    let rules = registry.entity("Product").unwrap();
    let code = |at: &str| rules.resolve(&path(at)).map_or_else(|error| error.code, |_| "");

    assert_eq!(code("name@locale=de"), "");
    assert_eq!(code("name@locale=fr"), "unknown_axis_value");
    assert_eq!(code("sku@channel=web"), "unknown_axis");
    assert_eq!(code("name"), "axis_required");
}

fn generation(text: &str) -> String {
    load(text).entity("Product").unwrap().generation.to_string()
}

#[test]
fn a_generation_is_the_meaning_and_not_the_spelling() {
    let plain = "field_ownership:\n  Product:\n    editor_owned: [a, 'b@l+m']\n    system_owned: {m: {fields: [c], ttl: 30s, writers: [x, y]}}\n    shared: {d: {strategy: counter, min: 0, max: 9}}\n";
    let same = [
        // Order, comments, quotes, escapes, defaults written out, other types beside it.
        "# text\nfield_ownership:\n  Other: {editor_owned: [z]}\n  Product:\n    shared: {d: {max: 9, min: 0, strategy: counter}}\n    default_owner: deny\n    enforcement: enforce\n    lifecycle: {create: [editor]}\n    system_owned:\n      m:\n        writers: [y, x, x]\n        fields: [\"\\x63\"]   # c\n        ttl: 30000ms\n        locking: lease\n        on_busy: wait 5s\n        max_hold: 10m\n    editor_owned:\n      - b@m+l\n      - a\n",
        // Taken over from a base.
        "field_ownership:\n  Product: {extends: B, drop: [x], system_owned: {m: {ttl: 30s}}}\n  B:\n    editor_owned: [a, b@l+m, x]\n    system_owned: {m: {fields: [c], ttl: 9s, writers: [x, y]}}\n    shared: {d: {strategy: counter, min: 0, max: 9}}\n",
    ];
    for text in same {
        assert_eq!(generation(text), generation(plain), "{text}");
    }
    let changes = [
        ("[a,", "[a2,"),
        ("[a,", "[a.**,"),
        ("b@l+m", "b@l"),
        ("editor_owned:", "editor_owned: &x"),
        ("fields: [c]", "fields: [c, e]"),
        ("ttl: 30s", "ttl: 31s"),
        ("ttl: 30s", "max_hold: 11m"),
        ("ttl: 30s", "on_busy: skip"),
        ("ttl: 30s", "locking: optimistic"),
        ("ttl: 30s", "derived_from: [a]"),
        ("writers: [x, y]", "writers: [x]"),
        (", writers: [x, y]", ", writers: []"),
        (", writers: [x, y]", ""),
        ("{m:", "{n:"),
        ("counter", "max"),
        ("min: 0", "min: 1"),
        ("min: 0", "group: s"),
        ("  Product:\n", "  Product:\n    default_owner: editor\n"),
        ("  Product:\n", "  Product:\n    enforcement: warn\n"),
        ("  Product:\n", "  Product:\n    lifecycle: {create: [editor, m]}\n"),
        ("  Product:\n", "  Product:\n    lifecycle: {delete: []}\n"),
        ("  Product:\n", "  Product:\n    axes: {l: any, m: any}\n"),
        ("  Product:\n", "  Product:\n    axes: {l: [x], m: any}\n"),
        ("  Product:\n", "  Product:\n    collections: {a: id}\n"),
        ("  Product:\n", "  Product:\n    coupled: [[a, q]]\n    default_owner: editor\n"),
        ("  Product:\n", "  Product:\n    history: {values: none}\n"),
        ("  Product:\n", "  Product:\n    select: {x: 1}\n"),
    ];
    let mut seen = BTreeSet::from([generation(plain)]);
    for (from, to) in changes {
        let changed = plain.replacen(from, to, 1);
        assert_ne!(changed, plain);
        if to.contains('&') {
            continue;
        }
        let changed =
            changed.replace("min: 0, max: 9", if to == "max" { "" } else { "min: 0, max: 9" });
        assert!(seen.insert(generation(&changed)), "{from} -> {to} changes nothing\n{changed}");
    }
}

#[test]
fn order_in_the_file_counts_only_where_it_decides_what_is_one_value() {
    let rules = |list: &str| format!("field_ownership:\n  Product: {{editor_owned: [{list}]}}\n");
    assert_eq!(
        generation(&rules("'#keys', 'a.*', '*.b'")),
        generation(&rules("'*.b', 'a.*', '#keys'"))
    );
    let (one, other) = (rules("'#keys', 'a.*', '*.b.**'"), rules("'#keys', '*.b.**', 'a.*'"));
    assert_ne!(generation(&one), generation(&other));
    let unit = |text: &str| {
        let registry = load(text);
        registry.entity("Product").unwrap().resolve(&path("a.b.c")).unwrap().unit.to_string()
    };
    assert_eq!((unit(&one).as_str(), unit(&other).as_str()), ("a.b", "a.b.c"));
}

#[test]
fn a_difference_names_the_field_and_what_changes() {
    let lines = |old: &str, new: &str| -> Vec<String> {
        registry::diff(&load(old), &load(new)).iter().map(Difference::to_string).collect()
    };
    let old = "field_ownership:\n  A: {editor_owned: [x]}\n  Product: {editor_owned: [name, price, tags], system_owned: {m: {fields: [thumb], ttl: 30s}, n: [cost]}}\n";
    let new = "field_ownership:\n  B: {editor_owned: [x]}\n  Product: {editor_owned: [name, price.**], system_owned: {m: {fields: [thumb, price.net], ttl: 45s}, o: [cost]}, shared: {tags: set_merge}}\n";
    assert_eq!(
        lines(old, new),
        [
            "A: removed",
            "B: added",
            "Product: `cost`: group n -> o",
            "Product: `price`: unit one value -> every leaf",
            "Product: `price.**`: unit one value -> every leaf",
            "Product: `price.net`: owner editor -> system",
            "Product: `price.net`: group editor -> m",
            "Product: `tags`: owner editor -> shared",
            "Product: `tags`: group editor -> shared",
            "Product: `tags`: strategy (none) -> set_merge {}",
            "Product: ttl of `m` 30000ms -> 45000ms",
        ]
    );
    assert_eq!(lines(new, new), Vec::<String>::new());
    let owner = "field_ownership:\n  Product: {default_owner: editor, editor_owned: [name]}\n";
    let without = "field_ownership:\n  Product: {editor_owned: [name]}\n";
    assert_eq!(lines(owner, without), ["Product: default_owner editor -> (none)"]);
    let json = serde_json::to_value(registry::diff(&load(owner), &load(without))).unwrap();
    assert_eq!(
        json,
        json!([{"entity": "Product", "what": "default_owner", "before": "editor", "after": null}])
    );
}
