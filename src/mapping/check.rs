//! What must fit between the rules and the places they got: said at start, with lines of the registry.

use super::{
    Kind,
    bind::{Binding, Mapping},
    expand::{self, Expanded},
    place::{Place, Source},
};
use crate::{
    diagnostic::{Diagnostic, Span},
    path::{AxisMatch, Marker, Pattern, Tail},
    registry::{Rule, inside, meet},
};

/// Every rule has a place the database knows.
pub(super) fn rules(mapping: &Mapping, expanded: &[Expanded], faults: &mut Vec<Diagnostic>) {
    let rules = mapping.rules.rules().iter().zip(&mapping.rules.rules_at);
    for (rule, at) in rules {
        let pattern = &rule.pattern;
        if pattern.marker() == Some(Marker::Keys) {
            continue;
        }
        let near = expanded.iter().filter(|place| meet(&place.pattern, pattern).is_some());
        if pattern.marker() == Some(Marker::Order) {
            if !near.clone().any(|place| place.pattern.marker() == Some(Marker::Order)) {
                let message = format!("`{pattern}` has no place of its own in `storage`");
                let help = "give the order a JSON column, or leave `#order` out";
                faults.push(Diagnostic::error("place_missing", *at, message, help));
            }
            continue;
        }
        if near.clone().next().is_none() {
            faults.push(missing(mapping, pattern, *at));
        }
        // An axis that a place does not tell apart would put all its values into one.
        let around = expanded.iter().filter(|place| inside(pattern, &place.pattern));
        let around = around
            .reduce(|best, place| if inside(&place.pattern, &best.pattern) { place } else { best });
        let Some(place) = around else { continue };
        let open = pattern.axes().iter().find(|(axis, value)| {
            place.pattern.axis(axis).is_none() && !matches!(value, AxisMatch::Exact(_))
        });
        if let Some((axis, _)) = open {
            let message = format!(
                "every value of `{axis}` of `{pattern}` lies in one place, that of `{}`",
                place.pattern
            );
            let help = format!("give `{pattern}` a place that names `${axis}`");
            faults.push(Diagnostic::error("place_twice", *at, message, help));
        }
    }
}

fn missing(mapping: &Mapping, pattern: &Pattern, at: Span) -> Diagnostic {
    let place = expand::closest(mapping, pattern).map(|spec| spec.pattern.to_string());
    let message = match place {
        Some(place) if place != pattern.to_string() => {
            format!(
                "`{pattern}` lies in `{place}`, for which the database has no column of its name"
            )
        }
        _ => format!("`{pattern}` has no column in the database"),
    };
    let help = "check the name of the column, or give the path a place of its own";
    Diagnostic::error("column_missing", at, message, help)
}

/// Types fit what the rules do with the fields, and no two paths share a place.
pub(super) fn places(
    mapping: &Mapping,
    sources: &[Source],
    places: &[Place],
    faults: &mut Vec<Diagnostic>,
) {
    for (rule, at) in mapping.rules.rules().iter().zip(&mapping.rules.rules_at) {
        for place in places.iter().filter(|p| meet(&p.pattern, &rule.pattern).is_some()) {
            let wins = places.iter().all(|other| {
                !inside(&rule.pattern, &other.pattern) || inside(&place.pattern, &other.pattern)
            });
            if let Some(field) = kind_of(sources, place).filter(|_| wins) {
                faults.extend(fits(rule, *at, place, field.0, field.1));
            }
        }
    }
    for (index, place) in places.iter().enumerate() {
        let others = places.get(index + 1..).unwrap_or_default();
        let twin = others.iter().find(|other| {
            place.targets().any(|a| {
                other
                    .targets()
                    .any(|b| a.source == b.source && a.column == b.column && a.keys == b.keys)
            }) && !inside(&other.pattern, &place.pattern)
                && !inside(&place.pattern, &other.pattern)
        });
        if let Some(twin) = twin {
            let message = format!("`{}` and `{}` lie in one place", place.pattern, twin.pattern);
            let help = "give each a column, a key or a row of its own";
            faults.push(Diagnostic::error("place_twice", twin.at, message, help));
        }
    }
}

fn kind_of<'s>(sources: &'s [Source], place: &Place) -> Option<(&'s Kind, &'s str)> {
    let field = sources.get(place.target.source)?.columns.get(place.target.column)?;
    Some((&field.kind, &field.name))
}

/// Why a column cannot hold what a rule says of its field.
fn fits(rule: &Rule, at: Span, place: &Place, kind: &Kind, column: &str) -> Option<Diagnostic> {
    if *kind == Kind::Json {
        return None;
    }
    let pattern = &rule.pattern;
    let deeper = pattern.segments().len() > place.pattern.segments().len()
        || pattern.tail() == Tail::Subtree;
    if deeper && inside(pattern, &place.pattern) {
        let message = format!(
            "`{pattern}` lies inside `{}`, whose column `{column}` holds {}",
            place.pattern,
            kind.describe()
        );
        let help = format!("give `{pattern}` a place of its own, or make the column JSON");
        return Some(Diagnostic::error("column_type", at, message, help));
    }
    let strategy = rule.strategy.as_ref()?.strategy.name().to_owned();
    let wanted = match strategy.as_str() {
        "counter" | "max" | "min" if !(kind.counts() || matches!(kind, Kind::Text { .. })) => {
            "whole numbers"
        }
        "set_merge" | "append_only" | "keyed_merge" if !matches!(kind, Kind::Array(_)) => "lists",
        "map_merge" => "maps",
        "text_merge" if !matches!(kind, Kind::Text { .. }) => "text",
        _ => return None,
    };
    let message = format!(
        "the strategy `{strategy}` of `{pattern}` needs {wanted}, the column `{column}` holds {}",
        kind.describe()
    );
    let help = "choose another strategy, or another column";
    Some(Diagnostic::error("column_type", at, message, help))
}

/// Rows can be told apart, made and removed as the places say.
pub(super) fn rows(binding: &mut Binding<'_>, expanded: &[Expanded], places: &[Place]) {
    let (catalogue, rules) = (binding.catalogue, &binding.mapping.rules);
    let creates = !rules.lifecycle.create.is_empty();
    let mut faults = Vec::new();
    for (index, source) in binding.sources.iter_mut().enumerate() {
        let Some(table) = catalogue.table(&source.table) else { continue };
        let keys: Vec<&str> = source
            .id
            .iter()
            .chain(source.fixed.iter().map(|(field, _)| field))
            .chain(source.open.iter().map(|(field, _)| field))
            .map(|field| field.name.as_str())
            .collect();
        let at = places
            .iter()
            .find(|place| place.targets().any(|target| target.source == index))
            .filter(|_| index > 0)
            .map_or(rules.storage_at, |place| place.at);
        let unique = index == 0
            || expanded.iter().all(|place| {
                let own = std::iter::once(&place.target).chain(&place.also);
                own.filter(|fixed| fixed.table == source.table).all(|fixed| fixed.unique)
            });
        let ids: Vec<&str> = source.id.iter().map(|field| field.name.as_str()).collect();
        let wanted = if index == 0 { &ids } else { &keys };
        if unique && !table.is_unique(wanted) {
            let message = format!(
                "no unique index of `{}` lies in `{}`: one record could have several rows",
                table.name,
                wanted.join("`, `")
            );
            let help = if index == 0 {
                "map the columns of the primary key as `id`"
            } else {
                "add the index, or say `unique: false`"
            };
            faults.push(Diagnostic::error("not_unique", at, message, help));
        }
        source.required = table
            .columns
            .iter()
            .filter(|c| !c.nullable && !c.defaulted && !c.generated)
            .filter(|c| !keys.contains(&c.name.as_str()))
            .map(|c| c.name.clone())
            .collect();
        let unmapped = source
            .required
            .iter()
            .find(|name| !source.columns.iter().any(|field| field.name == **name));
        // Where the CMS makes the rows, a save into a missing one is refused when it comes.
        if let Some(name) = unmapped.filter(|_| creates) {
            let message = format!(
                "no row can be added to `{}`: its column `{name}` must have a value, has no \
                 default and no path",
                table.name
            );
            let help = "give it a path or a default, or say `lifecycle: {create: []}`";
            faults.push(Diagnostic::error("column_required", at, message, help));
        }
        for place in places.iter().filter(|p| p.delete && p.target.source == index) {
            let field = source.columns.get(place.target.column);
            let lost = table.columns.iter().find(|c| {
                !keys.contains(&c.name.as_str())
                    && field.is_none_or(|field| field.name != c.name)
                    && !c.generated
                    && !table.unique.contains(&vec![c.name.clone()])
            });
            let lost = lost.map(|column| column.name.as_str());
            if let Some(lost) = lost.or((index == 0).then_some("everything else")) {
                let message = format!(
                    "`absent: delete` of `{}` would remove `{lost}` of `{}` with it",
                    place.pattern, table.name
                );
                faults.push(Diagnostic::error(
                    "absent_deletes",
                    place.at,
                    message,
                    "say `absent: null`",
                ));
            }
        }
    }
    binding.faults.append(&mut faults);
}
