//! Modules only look down: `src/lib.rs` lists them from the ground floor up, and a module may name only those above
//! it in that list. So the file a newcomer opens first is the architecture, and an import circle cannot be committed.

use std::{
    fs,
    path::{Path, PathBuf},
};

#[test]
fn a_module_names_only_modules_listed_above_it() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let floors = floors(&fs::read_to_string(src.join("lib.rs")).unwrap());
    let mut files = Vec::new();
    collect(&src, &mut files);

    let mut faults = Vec::new();
    for file in files {
        let relative = file.strip_prefix(&src).unwrap();
        let top =
            relative.iter().next().unwrap().to_string_lossy().trim_end_matches(".rs").to_owned();
        let Some(own) = floors.iter().position(|floor| *floor == top) else { continue };
        faults.extend(
            faults_of(&fs::read_to_string(&file).unwrap(), own, &floors)
                .into_iter()
                .map(|fault| format!("{}: {fault}", relative.display())),
        );
    }

    assert!(floors.len() > 15, "the list of modules was not found in lib.rs");
    assert_eq!(faults, Vec::<String>::new());
}

#[test]
fn the_layer_test_sees_every_form_of_import() {
    let floors: Vec<String> = ["a", "b", "c"].map(str::to_owned).to_vec();
    let bad = [
        "use crate::c::X;",
        "use crate::{a::X, c};",
        "use crate::{\n    a::{X, Y},\n    c::Z,\n};",
        "fn f() -> crate::c::X {}",
        "use super::super::a;",
        "use crate::Root;",
    ];
    let good =
        ["use crate::a::X;", "use crate::{a::X, b};", "/// See [`crate::c`].", "// crate::c::X"];

    for text in bad {
        assert_eq!(faults_of(text, 1, &floors).len(), 1, "{text}");
    }
    for text in good {
        assert_eq!(faults_of(text, 1, &floors), Vec::<String>::new(), "{text}");
    }
}

fn floors(lib: &str) -> Vec<String> {
    let names =
        lib.lines().filter_map(|line| line.strip_prefix("pub mod ").or(line.strip_prefix("mod ")));
    names.filter_map(|rest| rest.strip_suffix(';')).map(str::to_owned).collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "bin") {
            collect(&path, files);
        } else if path.extension().is_some_and(|ext| ext == "rs") && !path.ends_with("lib.rs") {
            files.push(path);
        }
    }
}

fn faults_of(text: &str, own: usize, floors: &[String]) -> Vec<String> {
    let code: String = text
        .lines()
        .map(|line| line.split_once("//").map_or(line, |(before, _)| before))
        .collect::<Vec<_>>()
        .join("\n");
    let mut faults = Vec::new();
    if code.contains("super::super") {
        faults.push("`super::super`: name the module by its path".to_owned());
    }
    for rest in code.split("crate::").skip(1) {
        for name in named(rest) {
            match floors.iter().position(|floor| *floor == name) {
                Some(floor) if floor <= own => {}
                Some(_) => faults.push(format!("`{name}` is listed below `{}`", floors[own])),
                None => {
                    faults.push(format!("`crate::{name}` is not a module: name it by its module"))
                }
            }
        }
    }
    faults
}

/// The first names of `a::b` or of each part of `{a::b, c::{d, e}}`.
fn named(rest: &str) -> Vec<String> {
    let Some(inside) = rest.strip_prefix('{') else {
        return vec![rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()];
    };
    let (mut depth, mut current, mut names) = (0_usize, String::new(), Vec::new());
    for c in inside.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => names.push(std::mem::take(&mut current)),
            _ => {}
        }
        if depth == 0 && c != ',' {
            current.push(c);
        }
    }
    names.push(current);
    let first = |name: String| name.trim().split("::").next().unwrap_or_default().trim().to_owned();
    names.into_iter().map(first).filter(|name| !name.is_empty() && name != "self").collect()
}
