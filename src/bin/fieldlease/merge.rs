//! `merge`: one strategy at work, line by line.

use std::io::{self, BufRead, Read};

use fieldlease::{
    entity::{Change, Value, Writer, WriterKind},
    json,
    strategy::{MergeInput, Merged, Strategies, Strategy, merge},
};
use serde_json::{Map, Value as Json, json};

use crate::{
    exit::Exit,
    output::{Failure, Output, Result},
};

/// Longest line read.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// Merge values with a strategy: JSON lines in, JSON lines out
///
/// Each line is {"base":..,"ours":..,"theirs":..,"our_writer":{"kind","name"},"their_writer":{..}}. A missing value
/// is absent, a missing writer is a worker. Each answer is {"merged":..}, {"absent":true}, or
/// {"conflict":[paths]} with "" for the value itself. A bad line is answered {"error":..,"line":..}; the others are
/// still merged, and the exit is not 0.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    echo '{\"base\":[1],\"ours\":[1,2],\"theirs\":[1,3]}' | fieldlease merge --strategy set_merge\n  \
    fieldlease merge --strategy counter --option min=0 < cases.jsonl")]
pub(crate) struct Args {
    /// The strategy's name, as in the registry
    #[arg(long)]
    strategy: String,
    /// An option of the strategy; the value is JSON, or else text
    #[arg(long = "option", value_name = "KEY=VALUE")]
    options: Vec<String>,
}

pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    let strategies = Strategies::standard();
    let strategy =
        strategies.find(&args.strategy).ok_or_else(|| no_strategy(&strategies, &args.strategy))?;
    let options = options(strategy.as_ref(), &args.options)?;
    let mut reader = io::stdin().lock();
    let mut exit = Exit::Ok;
    let mut number: u64 = 0;
    while let Some(line) = next_line(&mut reader)? {
        number = number.saturating_add(1);
        let answer = match line {
            Input::Line(line) if line.iter().all(u8::is_ascii_whitespace) => continue,
            Input::Line(line) => answer(strategy.as_ref(), &options, &line),
            Input::TooLong => {
                Err(("too_large", format!("it is longer than {LINE_BYTES_MAX} bytes")))
            }
        };
        let answer = answer.unwrap_or_else(|(code, cause)| {
            exit = Exit::Findings;
            let message = format!("line {number}: {cause}");
            json!({"error": code, "line": number, "message": message})
        });
        if let Some(message) = answer.get("message").and_then(Json::as_str) {
            output.note(format_args!("error: {message}"));
        }
        output.json(&answer)?;
    }
    Ok(exit)
}

fn no_strategy(strategies: &Strategies, name: &str) -> Failure {
    let names: Vec<&str> = strategies.names().collect();
    let help = format!("one of: {}", names.join(", "));
    if strategies.later().contains(&name) {
        let message = format!("the strategy `{name}` is known, but not done by this version");
        return Failure::new("not_yet", message, help);
    }
    let message = format!("there is no strategy `{}`", name.escape_debug());
    Failure::new("unknown_strategy", message, help)
}

/// The options as the registry would hold them, checked by the strategy.
fn options(strategy: &dyn Strategy, texts: &[String]) -> Result<Json> {
    let mut options = Map::new();
    for text in texts {
        let Some((key, value)) = text.split_once('=') else {
            let message = format!("`{}` is not KEY=VALUE", text.escape_debug());
            return Err(Failure::new("bad_option", message, ""));
        };
        if !strategy.options().contains(&key) {
            let message = format!("strategy `{}` has no option `{key}`", strategy.name());
            let help = match strategy.options() {
                [] => "it has none".to_owned(),
                known => format!("one of: {}", known.join(", ")),
            };
            return Err(Failure::new("unknown_option", message, help));
        }
        let value = json::parse(value.as_bytes()).unwrap_or_else(|_| value.into());
        if options.insert(key.to_owned(), value).is_some() {
            return Err(Failure::new("bad_option", format!("`{key}` is given twice"), ""));
        }
    }
    let options = Json::Object(options);
    match strategy.check(&options).as_slice() {
        [] => Ok(options),
        [(key, fault), ..] => {
            Err(Failure::new("bad_option", format!("option `{key}`: {fault}"), ""))
        }
    }
}

/// One line of the input.
enum Input {
    Line(Vec<u8>),
    /// Longer than [`LINE_BYTES_MAX`].
    TooLong,
}

/// The next line; `None` at the end of the input.
fn next_line(reader: &mut impl BufRead) -> Result<Option<Input>> {
    let unreadable = |error: io::Error| {
        Failure::new("unreadable", format!("cannot read the input: {error}"), "")
    };
    let mut line = Vec::new();
    let read = reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
    if read.map_err(unreadable)? == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') {
        return Ok(Some(Input::Line(line)));
    }
    let left_out = reader.skip_until(b'\n').map_err(unreadable)?;
    // The last line may lack its end, and one that just fits has it behind the bound.
    Ok(Some(if left_out > 1 { Input::TooLong } else { Input::Line(line) }))
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    #[serde(default, deserialize_with = "present")]
    base: Option<Json>,
    #[serde(default, deserialize_with = "present")]
    ours: Option<Json>,
    #[serde(default, deserialize_with = "present")]
    theirs: Option<Json>,
    our_writer: Option<WriterText>,
    their_writer: Option<WriterText>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct WriterText {
    kind: WriterKind,
    #[serde(default)]
    name: String,
}

/// `null` is a value; only a missing member is absent.
fn present<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<Option<Json>, D::Error> {
    serde::Deserialize::deserialize(deserializer).map(Some)
}

fn writer(text: Option<WriterText>) -> Writer {
    match text {
        Some(WriterText { kind: WriterKind::Editor, name }) => Writer::editor(&name),
        Some(WriterText { kind: WriterKind::Worker, name }) => Writer::worker(&name),
        None => Writer::worker(""),
    }
}

fn answer(
    strategy: &dyn Strategy,
    options: &Json,
    line: &[u8],
) -> std::result::Result<Json, (&'static str, String)> {
    let json = json::parse(line).map_err(|fault| (fault.code, fault.message))?;
    if !json.is_object() {
        return Err(("bad_line", "a line is an object with `base`, `ours`, `theirs`".to_owned()));
    }
    let line: Line =
        serde_json::from_value(json).map_err(|error| ("bad_line", error.to_string()))?;
    let (base, theirs) = (Value::from(line.base), Value::from(line.theirs));
    let ours = line.ours.map_or(Change::Unset, Change::Set);
    let (our_writer, their_writer) = (writer(line.our_writer), writer(line.their_writer));
    let merged = merge(
        strategy,
        MergeInput {
            base: Some(&base),
            ours: &ours,
            theirs: &theirs,
            our_writer: &our_writer,
            their_writer: Some(&their_writer),
            options,
        },
    );
    let value = match merged {
        Merged::Take { value, .. } => value,
        Merged::Keep { .. } => theirs,
        Merged::Conflict { at, .. } => return Ok(json!({"conflict": at})),
    };
    Ok(match value {
        Value::Present(value) => json!({"merged": value}),
        Value::Absent => json!({"absent": true}),
    })
}
