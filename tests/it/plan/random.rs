//! Saves at random: nothing is lost unseen.

use proptest::prelude::*;

use super::*;

const MIXED: &str = "
editor_owned: [name, size, 'seo.**', 'gallery.#keys', 'gallery.*.caption', 'alt@locale']
system_owned: {erp: [size.weight, sku, 'gallery.*.thumb']}
shared: {tags: set_merge, stock: counter}
";

fn scalar() -> impl Strategy<Value = Json> {
    prop_oneof![Just(json!(null)), Just(json!("x")), (0..4).prop_map(|n| json!(n))]
}

fn one() -> impl Strategy<Value = (&'static str, Change)> {
    let scalars = prop::sample::select(vec![
        "name",
        "size.w",
        "size.h",
        "size.weight",
        "sku",
        "seo.a",
        "seo.b.c",
        "alt@locale=de",
        "gallery.a.caption",
        "gallery.b.caption",
        "gallery.a.thumb",
        "gallery.b.thumb",
    ]);
    let maps = prop::sample::select(vec!["size", "seo", "gallery.a", "gallery.c"]);
    let map = prop::collection::btree_map("[abwh]|weight|caption|thumb", scalar(), 0..3);
    let keys = prop::sample::subsequence(vec![json!("a"), json!("b"), json!("c")], 0..=3);
    let all = prop::sample::select(vec![
        "name",
        "size",
        "seo",
        "seo.b",
        "gallery.a",
        "gallery.b",
        "tags",
    ]);
    prop_oneof![
        4 => (scalars, scalar()).prop_map(|(at, json)| (at, Change::Set(json))),
        2 => (maps, map).prop_map(|(at, map)| (at, Change::Set(json!(map)))),
        1 => keys.clone().prop_map(|list| ("gallery.#keys", Change::Set(json!(list)))),
        1 => keys.prop_map(|list| ("tags", Change::Set(json!(list)))),
        1 => (0..5).prop_map(|n| ("stock", Change::Set(json!(n)))),
        1 => (-2_i64..3).prop_map(|n| ("stock", Change::Add(n))),
        1 => all.prop_map(|at| (at, Change::Unset)),
    ]
}

/// Who saves, whether with the token of the last answer, and what.
type Saves = Vec<(u8, bool, Vec<(&'static str, Change)>)>;

fn saves() -> impl Strategy<Value = Saves> {
    prop::collection::vec((0_u8..3, any::<bool>(), prop::collection::vec(one(), 1..4)), 1..8)
}

/// What the record looks like without what a plan says it changes.
fn rest(world: &World, plan: &Plan) -> BTreeMap<Path, Json> {
    let touched = |at: &Path| {
        let unit = world.rules().resolve(at).map_or_else(|_| at.clone(), |r| r.unit);
        plan.changed.iter().any(|changed| changed.path == unit)
            || plan.removed_items.iter().any(|item| at.is_part_of(item))
    };
    let leaves = world.snapshot.record.iter();
    let leaves = leaves.filter(|(at, leaf)| **leaf != json!({}) && !touched(at));
    leaves.map(|(at, leaf)| (at.clone(), leaf.clone())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn whatever_people_and_workers_send_nothing_is_lost_unseen(saves in saves()) {
        let mut world = World::with(MIXED, [
            ("size", json!({"w": 1, "weight": 2})),
            ("gallery", json!({"a": {"caption": "a", "thumb": "t"}, "b": {"thumb": "u"}})),
            ("stock", json!(3)),
        ]);
        let mut tokens = vec![world.token(); 3];
        for (who, fresh, list) in saves {
            let (index, name) = (usize::from(who), ["anna", "ben", "erp"][usize::from(who)]);
            let list: BTreeMap<_, _> = list.into_iter().map(|(at, c)| (path(at), c)).collect();
            if fresh {
                tokens[index] = world.token();
            }
            let before = world.snapshot.clone();
            let token = tokens[index].clone();
            let writer = if who == 2 { Writer::worker(name) } else { Writer::editor(name) };
            let base = input(&world, &writer, Seen::Token(&token), &list);

            let plan = world.plan(base.clone());

            let again = world.plan(base);
            prop_assert_eq!(report_json(&plan), report_json(&again));
            if plan.verdict != Verdict::Apply {
                world.apply(&plan);
                continue;
            }
            let outside = rest(&world, &plan);
            world.apply(&plan);
            prop_assert_eq!(outside, rest(&world, &plan), "others' values moved: {:?}", plan);
            // Stored nodes are complete: the patch left a record that `set` could have made.
            let leaves: Vec<_> = world.snapshot.record.iter().map(|(a, l)| (a.clone(), l.clone())).collect();
            let rebuilt: fieldlease::record::Record = leaves.into_iter().collect();
            prop_assert_eq!(&rebuilt, &world.snapshot.record, "{:?}", plan.patch);
            for changed in &plan.changed {
                let resolved = world.rules().resolve(&changed.path).unwrap();
                let group = resolved.group.unwrap();
                prop_assert!(group.may_write(&writer), "{} wrote {}", writer, changed.path);
                // A value with one owner that somebody changed unseen is never replaced.
                let unseen = before.stamps.get(&changed.path).is_some_and(|stamp| {
                    token.versions.get(&stamp.scope).is_none_or(|v| stamp.version > *v)
                });
                let structure = changed.path.marker().is_some();
                if unseen && resolved.strategy.is_none() && !structure {
                    let written = plan.decision(&changed.path).unwrap().written().unwrap();
                    let base = world_base(&before, &token, &changed.path, &world);
                    prop_assert!(base.is_some_and(|base| base.same(&written.old)), "{:?}", plan);
                }
            }
            // Sending the same again, having seen the outcome, changes nothing; deltas aside.
            let now = world.token();
            let stated: BTreeMap<_, _> = list.into_iter().filter(|(_, c)| !matches!(c, Change::Add(_))).collect();
            let stated = world.plan(input(&world, &writer, Seen::Token(&now), &stated));
            let left: Vec<_> = stated.changed.iter().map(|c| &c.path).filter(|at| {
                // A merged value differs from what was sent.
                plan.decision(at).is_none_or(|d| matches!(d, Decision::Write(_)) && at.marker().is_none())
            }).collect();
            prop_assert!(left.is_empty(), "{:?}", left);
        }
    }
}

/// The value a unit had when the token was made: equal again although it moved.
fn world_base(
    before: &Snapshot,
    token: &fieldlease::snapshot::EditToken,
    at: &Path,
    world: &World,
) -> Option<Value> {
    let scope = &before.stamps[at].scope;
    let version = token.versions.get(scope).copied().unwrap_or_default();
    world.value_at(at, version)
}
