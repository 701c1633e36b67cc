//! Faults and lints of meaning: one line per registry, the code and place of everything that is said about it.

use fieldlease::{
    diagnostic::{Diagnostic, Level},
    registry::{self, Limits},
    strategy::Strategies,
};

/// What is said about the entries of `Product`: `code line:column`, warnings with a `?`.
fn said(entries: &str) -> (Vec<String>, Vec<Diagnostic>) {
    let text = if entries.starts_with("field_ownership") {
        entries.to_owned()
    } else {
        format!("field_ownership:\n  Product:\n{entries}")
    };
    let (_, found) = registry::load(text.as_bytes(), &Strategies::standard(), &Limits::default());
    let line = |d: &Diagnostic| {
        let mark = if d.level == Level::Warning { "?" } else { "" };
        format!("{}{mark} {}:{}", d.code, d.span.line, d.span.column)
    };
    (found.iter().map(line).collect(), found)
}

/// Entries of `Product` from line 3 on, what is said, and words that must be in it.
const CASES: &[(&str, &[&str], &str)] = &[
    // Quotes.
    (
        "    editor_owned: [a, '', \"\"]\n",
        &["path_empty 3:23", "path_empty 3:27"],
        "a path is empty",
    ),
    (
        "    editor_owned:\n    - \"n\":o\n    - a..b\n",
        &["quote_needed 4:7", "empty_segment 5:9"],
        "goes on behind the closing quote",
    ),
    // Two owners.
    (
        "    editor_owned: [a, b, a]\n",
        &["owned_twice 3:26"],
        "listed twice in editor; first in 3:20",
    ),
    (
        "    editor_owned: [a]\n    shared: {a: reject}\n",
        &["owned_twice 4:14"],
        "both editor and shared; first in 3:20",
    ),
    (
        "    shared: {a: reject}\n    editor_owned: [a]\n",
        &["owned_twice 4:20"],
        "both shared and editor; first in 3:14",
    ),
    (
        "    editor_owned: {x: [a], y: [a]}\n",
        &["owned_twice 3:32"],
        "both editor `x` and editor `y`",
    ),
    (
        "    editor_owned: [p]\n    system_owned: {m: [p.**]}\n",
        &["owned_twice 4:24"],
        "`p` and `p.**` of `Product` are the same fields",
    ),
    ("    editor_owned: ['p@b+a', 'p@a+b']\n", &["owned_twice 3:29"], "listed twice"),
    ("    editor_owned: ['p@a', 'p@a=*']\n", &["owned_twice 3:27"], "listed twice"),
    (
        "    shared: {a: {strategy: counter, group: s}}\n    system_owned: [a]\n",
        &["owned_twice 4:20"],
        "both shared `s` and system",
    ),
    // Crossings.
    (
        "    editor_owned: [g.*.t, g.#keys]\n    system_owned: {m: [g.hero.*]}\n",
        &["ambiguous 4:24"],
        "both match `g.hero.t`: add `g.hero.t` to the one that owns it",
    ),
    (
        "    editor_owned: [name]\n    system_owned: {t: ['*@locale']}\n",
        &["ambiguous 4:24"],
        "add `name@locale`",
    ),
    ("    shared: {'a.*': reject, '*.b': last_write_wins}\n", &["ambiguous 3:29"], "`a.b`"),
    (
        "    editor_owned: ['ab*.*', '**']\n    system_owned: {m: ['*.x']}\n",
        &["ambiguous 4:24"],
        "`ab*.x`",
    ),
    ("    editor_owned: ['a.*', '#keys']\n    system_owned: {m: ['*.b', a.b]}\n", &[], ""),
    ("    system_owned: {m: ['a.*'], n: ['*.b']}\n    editor_owned: [a.b, '#keys']\n", &[], ""),
    ("    editor_owned: ['x@l=d*']\n    system_owned: {m: ['x@c'], n: ['x@l=d*+c']}\n", &[], ""),
    // Groups.
    (
        "    default_owner: nobody\n    editor_owned: [a]\n",
        &["unknown_group 3:20"],
        "`nobody` is not a group of `Product`",
    ),
    (
        "    default_owner: system\n    editor_owned: [a]\n",
        &["unknown_group 3:20"],
        "known: `editor`",
    ),
    (
        "    default_owner: s\n    shared: {a: {strategy: counter, group: s}}\n",
        &["unknown_group 3:20"],
        "is a shared group",
    ),
    (
        "    lifecycle: {create: [editr], delete: [m]}\n    system_owned: {m: [a]}\n",
        &["unknown_group 3:26"],
        "did you mean `editor`",
    ),
    (
        "    lifecycle: {create: [wrker]}\n    editor_owned: [a]\n",
        &["unknown_group 3:26"],
        "known: `editor`\n",
    ),
    ("    system_owned: {shared: [a]}\n", &["group_name 3:20"], "the word is taken"),
    ("    editor_owned: {deny: [a]}\n", &["group_name 3:20"], "the word is taken"),
    ("    system_owned: {'a b': [a]}\n", &["group_name 3:20"], "not a name"),
    (
        "    system_owned: {'name@locale': [a]}\n",
        &["group_name 3:20"],
        "a path is an item of a list",
    ),
    (
        "    editor_owned: {m: [a]}\n    system_owned: {m: [b]}\n",
        &["group_name 4:20"],
        "never changes side",
    ),
    (
        "    system_owned: {m: [a]}\n    shared: {b: {strategy: counter, group: m}}\n",
        &["group_name 4:44"],
        "is a system group already",
    ),
    (
        "    shared: {b: {strategy: counter, group: editor}}\n",
        &["group_name 3:44"],
        "the word is taken",
    ),
    (
        "    system_owned: {m: {fields: []}}\n    editor_owned: [a]\n",
        &["empty_group 3:20"],
        "`m` has no fields",
    ),
    ("    system_owned: {m: {fields: []}}\n    default_owner: m\n", &[], ""),
    (
        "    system_owned: {m: {fields: [a], writers: []}}\n",
        &["nobody_writes? 3:20"],
        "nobody may write",
    ),
    (
        "    system_owned: {m: {fields: [a], ttl: 60s, max_hold: 30s}}\n",
        &["max_hold_below_ttl? 3:57"],
        "below its `ttl`",
    ),
    (
        "    shared: {a: {strategy: counter, group: s, locking: lease}, b: {strategy: max, group: s, locking: optimistic}}\n",
        &["group_disagrees 3:102"],
        "different `locking`",
    ),
    (
        "    shared: {a: {strategy: counter, locking: lease}}\n",
        &["group_needed 3:46"],
        "needs a `group`",
    ),
    (
        "    system_owned: {m: {fields: [a], ttl: 25h, max_hold: 5s}}\n",
        &["out_of_range 3:42"],
        "outside 100ms to 24h",
    ),
    // Strategies.
    ("    shared: {a: counterr}\n", &["unknown_strategy 3:17"], "did you mean `counter`"),
    ("    shared: [a]\n", &["no_strategy? 3:14"], "shared without a strategy"),
    (
        "    shared: {a: null, b: ~, c: }\n",
        &["no_strategy? 3:14", "no_strategy? 3:23", "no_strategy? 3:29"],
        "",
    ),
    ("    shared: {a: {group: s}}\n", &["no_strategy? 3:14"], "shared without a strategy"),
    (
        "    shared: {a: {strategy: reject, min: 0}}\n",
        &["unknown_key 3:36"],
        "`reject` has no `min`",
    ),
    ("    shared: {a: {strategy: counter, mni: 0}}\n", &["unknown_key 3:37"], "did you mean `min`"),
    (
        "    shared: {a: {strategy: counter, locing: lease}}\n",
        &["unknown_key 3:37"],
        "did you mean `locking`",
    ),
    (
        "    shared: {a: {strategy: keyed_merge}}\n",
        &["strategy_needs 3:28"],
        "`keyed_merge` needs `key`",
    ),
    ("    shared: {a: transition}\n", &["strategy_needs 3:17"], "`transition` needs `allowed`"),
    // Axes.
    (
        "    axes: {locale: any}\n    editor_owned: ['a@locale', 'b@chanel']\n",
        &["unknown_axis 4:34"],
        "`chanel` is not declared",
    ),
    (
        "    axes: {locale: any, channel: any}\n    editor_owned: [b@locale+chanel]\n",
        &["unknown_axis 4:28"],
        "did you mean `channel`",
    ),
    (
        "    axes: {locale: [de, en]}\n    editor_owned: [b@locale=dee]\n",
        &["unknown_axis_value 4:21"],
        "did you mean `de`",
    ),
    (
        "    axes: {locale: any}\n    system_owned: {t: {fields: [a@locale], split_by: [locle]}}\n",
        &["split_axis_missing 4:33", "unknown_axis 4:55"],
        "",
    ),
    (
        "    system_owned: {t: {fields: [a@l, b, c@m=x], split_by: [l, m]}}\n",
        &["split_axis_missing 3:33", "split_axis_missing 3:38", "split_axis_missing 3:41"],
        "write `a@l+m`",
    ),
    (
        "    default_owner: t\n    system_owned: {t: {fields: [a@l], split_by: [l]}}\n",
        &["split_axis_missing 3:20"],
        "names no axis",
    ),
    // Coupled.
    (
        "    editor_owned: [a]\n    system_owned: {m: [b]}\n    coupled: [[a, b]]\n",
        &["coupled_split 5:19"],
        "`b` is system `m`, but `a` is editor",
    ),
    (
        "    shared: {a: counter, b: max}\n    coupled: [[a, b]]\n",
        &["coupled_split 4:19"],
        "by `max`",
    ),
    (
        "    editor_owned: [a, b]\n    system_owned: {m: [b.c]}\n    coupled: [[a, b]]\n",
        &["coupled_split 5:19"],
        "part of `b`",
    ),
    (
        "    editor_owned: ['v.*.a', b, v.#keys]\n    coupled: [['v.*.a', b]]\n",
        &["coupled_binding 4:25"],
        "same wildcards and axes",
    ),
    (
        "    editor_owned: [a@l, b@c]\n    coupled: [[a@l, b@c]]\n",
        &["coupled_binding 4:21"],
        "same wildcards and axes",
    ),
    (
        "    editor_owned: [a, b]\n    coupled: [[a, b]]\n",
        &["not_yet? 4:15"],
        "no effect in this version",
    ),
    (
        "    editor_owned: [a, b]\n    coupled: [[a, b], [a, a]]\n",
        &["coupled_binding 4:27"],
        "`a` is coupled with itself",
    ),
    // Places in the database.
    (
        "    editor_owned: [a, b]\n    storage: {table: t, places: {a: x}}\n",
        &["place_missing 3:23"],
        "`b` has no place in `storage`",
    ),
    (
        "    editor_owned: [a, b]\n    storage: {table: t, places: {a: x, b: x}}\n",
        &["place_twice 4:40"],
        "`a` and `b` lie in one place",
    ),
    (
        "    editor_owned: [a, b]\n    storage: {table: t, places: {a: x, b: {column: x, keys: [k]}}}\n",
        &[],
        "",
    ),
    (
        "    editor_owned: ['a.*', b.x, c]\n    storage: {table: t, places: {'a.*': '$1', b.x: y, '*': '$1'}}\n",
        &[],
        "",
    ),
    (
        "    editor_owned: [x, y]\n    storage: {table: t, places: {'*': '$1', y: x}}\n",
        &["place_twice 4:45"],
        "`x` and `y` lie in one place",
    ),
    (
        "    editor_owned: ['a.*']\n    storage: {table: t, places: {'a.*': x}}\n",
        &["place_twice 4:34"],
        "it has no `$1`",
    ),
    (
        "    editor_owned: [a@l]\n    storage: {table: t, places: {a: x}}\n",
        &["place_twice 4:34"],
        "every path of `a@l` lies in one place: it has no `$l`",
    ),
    (
        "    editor_owned: [a@l=de, a@l=en]\n    storage: {table: t, places: {a@l: {table: u, where: {l: '$l'}, column: x}}}\n",
        &[],
        "",
    ),
    (
        "    editor_owned: [a.**]\n    storage: {table: t, places: {a.**: {column: x}}}\n",
        &["place_twice 4:34"],
        "it has no `$rest`",
    ),
    (
        "    editor_owned: ['g.*.c', g.#keys, s.#keys]\n    storage: {table: t, places: {'g.*.c': {table: u, where: {k: '$1'}, column: c}}}\n",
        &["place_missing 3:38"],
        "`s.#keys` has no place",
    ),
    ("    editor_owned: [a]\n    storage: {places: {a: x}}\n", &["missing_key 4:5"], "`table`"),
    ("    editor_owned: [a]\n    storage: {places: {a: {table: t, column: x}}}\n", &[], ""),
    ("    editor_owned: [a]\n    storage: {table: t}\n", &["missing_key 4:5"], "`places`"),
    (
        "    axes: {l: any}\n    editor_owned: [a@l]\n    storage: {table: t, places: {a@m: {table: u, where: {m: '$m'}, column: x}}}\n",
        &["place_missing 4:20", "unknown_axis 5:35"],
        "`m` is not declared",
    ),
    (
        "    extends: B\n    system_owned: {m: [b]}\n  B:\n    editor_owned: [a]\n    storage: {table: t, places: {a: x}}\n",
        &["place_missing 4:24"],
        "`b` has no place",
    ),
    // Taking over.
    (
        "    extends: Produkt\n    editor_owned: [a]\n",
        &["unknown_entity 3:14"],
        "did you mean `Product`",
    ),
    ("    extends: Product\n", &["extends_cycle 3:14"], "Product -> Product"),
    ("    drop: [a]\n    editor_owned: [a]\n", &["drop_unknown 3:12"], "`a` is no rule of no base"),
    (
        "    extends: B\n    drop: [prise]\n  B: {editor_owned: [price]}\n",
        &["drop_unknown 4:12"],
        "did you mean `price`",
    ),
    (
        "    extends: B\n    editor_owned: [p.**]\n  B: {system_owned: {m: [p]}}\n",
        &["owned_twice 4:20"],
        "the same fields; first in 5:26",
    ),
    (
        "    extends: B\n    system_owned: {m: [q]}\n  B: {editor_owned: {m: [p]}}\n",
        &["group_name 4:20"],
        "never changes side",
    ),
    ("    extends: B\n    system_owned: {m: [p]}\n  B: {editor_owned: [p]}\n", &[], ""),
    (
        "    extends: B\n    system_owned: {m: {ttl: 5s}}\n  B: {system_owned: {m: [p]}, editor_owned: [q]}\n",
        &[],
        "",
    ),
    ("    extends: B\n  B: {shared: {p: unknwn}}\n", &["unknown_strategy 4:19"], ""),
    // Names that look alike.
    ("    editor_owned: [searchIndex, searchindex]\n", &["case_twins 3:33"], "differ only in case"),
    (
        "    editor_owned: [a.B.c]\n    system_owned: {m: [a.b.d]}\n",
        &["case_twins 4:24"],
        "`b` and `B`",
    ),
    ("    editor_owned: [ab*]\n    system_owned: {m: [AB]}\n", &[], ""),
    (
        "    system_owned: {media: [a], Media: [b]}\n",
        &["case_twins 3:32"],
        "the groups `Media` and `media`",
    ),
    (
        "field_ownership:\n  Product: {editor_owned: [a]}\n  product: {editor_owned: [a]}\n",
        &["case_twins 3:3"],
        "entity types",
    ),
    ("    editor_owned: [n\u{430}me]\n", &["homoglyph 3:20"], "looks like `a`"),
    (
        "    editor_owned: [cop]\n    system_owned: {m: [\u{441}\u{43e}\u{440}]}\n",
        &["homoglyph 4:24"],
        "look alike",
    ),
    ("    editor_owned: [\u{446}\u{435}\u{43d}\u{430}]\n", &[], ""),
    ("    editor_owned: [cafe\u{301}]\n", &["not_nfc? 3:20"], "composed form"),
    // Lints.
    (
        "    editor_owned: ['s.*.b.*.t', s.#keys]\n",
        &["structure_unowned? 3:20"],
        "`s.*.b.#keys` has no owner",
    ),
    (
        "    editor_owned: ['s.*.t', 's.*.u', 't.*.u']\n",
        &["structure_unowned? 3:20", "structure_unowned? 3:38"],
        "",
    ),
    ("    editor_owned: ['s.*.t', s.#keys@locale]\n", &[], ""),
    ("    editor_owned: ['s.*.t']\n    default_owner: editor\n", &[], ""),
    ("    editor_owned: ['s.*.t', 's.**']\n", &[], ""),
    ("    editor_owned: ['s.*', 'p_*']\n", &[], ""),
    (
        "    editor_owned: [image]\n    system_owned: {m: {fields: [thumb], derived_from: [imgae]}}\n",
        &["unknown_input? 4:56"],
        "did you mean `image`",
    ),
    (
        "    editor_owned: [image]\n    system_owned: {m: {fields: [thumb], derived_from: [image.file]}}\n",
        &[],
        "",
    ),
    (
        "    editor_owned: [p.**, p.q.**]\n",
        &["shadowed? 3:26"],
        "`p.q.**` changes nothing: `p.**` gives the same",
    ),
    ("    editor_owned: [p@l, p@l=de]\n", &["shadowed? 3:25"], "changes nothing"),
    ("    editor_owned: [p.**, p.q]\n", &[], ""),
    ("    editor_owned: ['a.*', a.b, '#keys']\n    system_owned: {m: ['*.b']}\n", &[], ""),
    (
        "    axes: {l: [de, en]}\n    editor_owned: [p@l=de, p@l=en]\n    system_owned: {m: [p@l, q], n: [r]}\n",
        &["shadowed? 5:24"],
        "every value of `l`",
    ),
    ("    system_owned: {m: [a, b]}\n", &["one_group? 2:3"], "every field"),
    ("    editor_owned: [a, b]\n", &[], ""),
    (
        "    shared: {a: set_merge}\n    history: {values: hash_only}\n",
        &["base_not_kept? 3:17", "not_yet? 4:23"],
        "needs the value a form showed",
    ),
    // Not yet.
    ("    shared: {a: editor_pin}\n", &["not_yet? 3:17"], "strategy `editor_pin` of `a`"),
    (
        "    enforcement: observe\n    editor_owned: [a]\n",
        &["not_yet? 3:18"],
        "enforcement: observe",
    ),
    ("    system_owned: {m: {fields: [a], on_busy: enqueue}}\n", &[], ""),
    (
        "    system_owned: {m: {fields: [a], derived_from: [b], on_stale: drop_and_requeue}}\n    editor_owned: [b]\n",
        &[],
        "",
    ),
];

#[test]
fn every_fault_of_meaning_is_named_with_its_place() {
    let mut wrong = Vec::new();
    for (entries, expected, words) in CASES {
        let (said, found) = said(entries);
        let texts: Vec<String> =
            found.iter().map(|d| format!("{}; {}\n", d.message, d.help)).collect();
        if said != *expected || !texts.join("\n").contains(words) {
            wrong.push(format!(
                "{entries}  said {said:?}\n  not  {expected:?} with {words:?}\n  {texts:#?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn messages_are_one_line_in_lower_case_without_a_full_stop() {
    for (entries, _, _) in CASES {
        for d in said(entries).1 {
            assert!(!d.message.contains('\n') && !d.message.ends_with('.'), "{}", d.message);
            assert!(d.message.starts_with(|c: char| !c.is_uppercase()), "{}", d.message);
            assert!(d.span.line > 0 && d.span.column > 0 && d.span.length > 0, "{d:?}");
        }
    }
}

#[test]
fn a_chain_of_nine_is_too_long_and_one_of_eight_is_not() {
    let chain = |links: usize| {
        let mut text = String::from("field_ownership:\n");
        for n in 0..links {
            text += &format!("  T{n}: {{extends: T{}, editor_owned: [f{n}]}}\n", n + 1);
        }
        text + &format!("  T{links}: {{editor_owned: [f{links}]}}\n")
    };
    assert_eq!(said(&chain(8)).0, Vec::<String>::new());
    assert_eq!(said(&chain(9)).0, ["extends_too_deep 2:17"]);
}

#[test]
fn a_flood_of_crossings_ends_with_a_word_about_the_others() {
    let stars: Vec<String> = (0..20).map(|n| format!("'*.f{n}'")).collect();
    let names: Vec<String> = (0..20).map(|n| format!("'g{n}.*'")).collect();
    let rules = |names: &[String]| {
        let (stars, names) = (stars.join(", "), names.join(", "));
        said(&format!("    editor_owned: [{stars}]\n    system_owned: {{m: [{names}]}}\n")).0
    };

    let (all, some) = (rules(&names), rules(&names[..5]));

    assert_eq!(all.iter().filter(|said| said.starts_with("ambiguous ")).count(), 100);
    assert_eq!(all.iter().filter(|said| said.starts_with("too_many_problems ")).count(), 1);
    assert_eq!(some.len(), 100, "{some:?}");
}
