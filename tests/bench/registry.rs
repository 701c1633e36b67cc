//! Reading a large registry. Targets: 10,000 types of 50 fields load under 2 s, a lookup takes under 100 ns.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a benchmark that cannot be prepared stops")]

use std::{fmt::Write, sync::OnceLock};

use divan::{Bencher, black_box};
use fieldlease::{
    path::Path,
    registry::{self, Limits, Registry},
    strategy::Strategies,
};

fn main() {
    divan::main();
}

/// Types with 50 fields each: people's, two groups of workers', shared ones, axes and a collection.
fn text(types: usize) -> String {
    let mut text = "field_ownership:\n".to_owned();
    for number in 0..types {
        write!(
            text,
            "  Product{number}:\n    axes: {{locale: any}}\n    collections: {{gallery: uid}}\n"
        )
        .unwrap();
        text.push_str(
            "    editor_owned:\n      - gallery.#keys\n      - gallery.*.caption@locale\n",
        );
        for field in 0..28 {
            writeln!(text, "      - editorial.field_{field:02}").unwrap();
        }
        text.push_str(
            "    system_owned:\n      media:\n        fields:\n          - gallery.*.thumb\n",
        );
        for field in 0..9 {
            writeln!(text, "          - media.field_{field:02}").unwrap();
        }
        text.push_str("        ttl: 45s\n      search:\n        fields:\n");
        for field in 0..6 {
            writeln!(text, "          - search.field_{field:02}").unwrap();
        }
        text.push_str("    shared:\n      categories: {strategy: set_merge}\n");
        for field in 0..3 {
            writeln!(text, "      counters.field_{field:02}: {{strategy: counter, min: 0}}")
                .unwrap();
        }
    }
    text
}

fn load(text: &str) -> Registry {
    let (rules, found) =
        registry::load(text.as_bytes(), &Strategies::standard(), &Limits::default());
    rules.unwrap_or_else(|| panic!("{:?}", found.first()))
}

fn large() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| text(10_000))
}

fn loaded() -> &'static Registry {
    static LOADED: OnceLock<Registry> = OnceLock::new();
    LOADED.get_or_init(|| load(large()))
}

#[divan::bench(sample_count = 3, sample_size = 1)]
fn load_10_000_types_of_50_fields(bencher: Bencher<'_, '_>) {
    bencher
        .counter(divan::counter::BytesCount::of_str(large()))
        .bench_local(|| load(black_box(large())));
}

/// A path that was asked for before.
#[divan::bench(args = ["editorial.field_17", "gallery.a1.caption@locale=de"])]
fn lookup(bencher: Bencher<'_, '_>, path: &str) {
    let path = Path::parse(path).unwrap();
    let rules = loaded().entity("Product5000").unwrap();
    rules.resolve(&path).unwrap();

    bencher.bench_local(|| rules.resolve(black_box(&path)).unwrap());
}

/// The type and a path that was asked for before.
#[divan::bench]
fn lookup_by_type(bencher: Bencher<'_, '_>) {
    let path = Path::parse("editorial.field_17").unwrap();
    let rules = loaded();

    bencher.bench_local(|| {
        rules.entity(black_box("Product5000")).unwrap().resolve(black_box(&path)).unwrap()
    });
}

/// Each path is asked for the first time.
#[divan::bench(sample_size = 50)]
fn first_lookup(bencher: Bencher<'_, '_>) {
    let rules = loaded().entity("Product6000").unwrap();
    let mut number = 0_u64;

    bencher
        .with_inputs(|| {
            number += 1;
            Path::parse(&format!("gallery.k{number}.thumb")).unwrap()
        })
        .bench_local_values(|path| rules.resolve(&path).unwrap());
}
