//! Registry files on the command line: read, reported, compared with the rules in force.

use crate::output::{Failure, Output, Result};
use fieldlease::{
    diagnostic::{
        Diagnostic, has_errors,
        render::{self, Colour},
    },
    engine::Store,
    registry::{self, Difference, Limits, Registry, diff},
    strategy::Strategies,
};

/// A registry and the text it came from.
pub(crate) struct Loaded {
    pub(crate) registry: Registry,
    pub(crate) text: String,
}

/// Reads a registry and everything there is to say about it.
pub(crate) fn read(bytes: &[u8]) -> (Option<Registry>, Vec<Diagnostic>) {
    registry::load(bytes, &Strategies::standard(), &Limits::default())
}

/// A registry that must load; warnings are told, and faults too.
pub(crate) fn must_load(name: &str, bytes: &[u8], output: Output) -> Result<Loaded> {
    let (registry, found) = read(bytes);
    tell(name, bytes, &found, output);
    match registry {
        Some(registry) if !has_errors(&found) => {
            Ok(Loaded { registry, text: String::from_utf8_lossy(bytes).into_owned() })
        }
        _ => {
            let message = format!("the registry `{name}` has faults");
            let help = "`fieldlease check FILE --json` lists them for programs";
            Err(Failure::new("registry_faulty", message, help))
        }
    }
}

/// Diagnostics as text on standard error.
fn tell(name: &str, bytes: &[u8], found: &[Diagnostic], output: Output) {
    if !found.is_empty() {
        let source = registry::readable(bytes);
        // Colours are taken out again where standard error is no terminal.
        output.note(render::text(name, &source, found, Colour::Always).trim_end());
    }
}

/// Prints diagnostics: as JSON lines, or as text on standard error.
pub(crate) fn print(name: &str, bytes: &[u8], found: &[Diagnostic], output: Output) -> Result<()> {
    if output.json {
        return found.iter().try_for_each(|diagnostic| output.json(&render::json(diagnostic)));
    }
    tell(name, bytes, found, output);
    Ok(())
}

/// Prints how the rules differ from those in force, type by type. Silent at the first start.
pub(crate) async fn print_changes(
    store: &dyn Store,
    registry: &Registry,
    output: Output,
) -> Result<()> {
    for rules in registry.entities() {
        let Some((generation, text)) = store.active(&rules.kind).await? else { continue };
        if generation == rules.generation {
            continue;
        }
        let (Some(former), _) = read(text.as_bytes()) else {
            let message =
                format!("the rules of `{}` in force cannot be read by this version", rules.kind);
            output.note(format_args!("warning: {message}; they are replaced"));
            continue;
        };
        output.note(format_args!("the rules of `{}` change:", rules.kind));
        for difference in diff(&former, registry) {
            if difference.entity == rules.kind {
                output.note(format_args!("  {}", line(&difference)));
            }
        }
    }
    Ok(())
}

/// One difference on one line.
pub(crate) fn line(difference: &Difference) -> String {
    let place = difference.pattern.as_ref().map(|pattern| format!(" {pattern}"));
    let (none, place) = ("nothing".to_owned(), place.unwrap_or_default());
    format!(
        "{}{place}: {} {} -> {}",
        difference.entity,
        difference.what,
        difference.before.as_ref().unwrap_or(&none),
        difference.after.as_ref().unwrap_or(&none),
    )
}

/// A registry file that must load.
pub(crate) fn must_load_file(path: &std::path::Path, output: Output) -> Result<Registry> {
    let bytes = crate::output::read_input(path)?;
    must_load(&path.display().to_string(), &bytes, output).map(|loaded| loaded.registry)
}
