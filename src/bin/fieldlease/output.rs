//! What a command prints: text for people, or one JSON value per line.

use std::{
    fmt,
    io::{self, Read, Write},
    path::Path as FilePath,
};

use fieldlease::error::Error;
use serde_json::{Value as Json, json};

use crate::exit::{self, Exit};

/// Largest file or input a command reads, the registry's own bound.
const INPUT_BYTES_MAX: u64 = 64 << 20;

/// Where and how to print.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    /// One JSON value per line instead of text.
    pub(crate) json: bool,
}

/// Why a command gave up.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) help: String,
    /// More members for `--json`, as the service answered them.
    pub(crate) more: Option<Json>,
    /// Nobody reads any more: end without a word.
    quiet: bool,
}

pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub(crate) fn new(
        code: impl Into<String>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        let (code, message, help) = (code.into(), message.into(), help.into());
        Self { code, message, help, more: None, quiet: false }
    }

    /// Whether it only means that nobody reads any more.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// The exit of this failure's code.
    pub(crate) fn exit(&self) -> Exit {
        if self.quiet { Exit::Ok } else { exit::of(&self.code) }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let help = match &error {
            Error::Invalid { help, .. } => help.clone(),
            _ => String::new(),
        };
        Self::new(error.code(), error.to_string(), help)
    }
}

/// Printing failed.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        let mut failure = Self::new("unavailable", format!("cannot print: {error}"), "");
        failure.quiet = error.kind() == io::ErrorKind::BrokenPipe;
        failure
    }
}

impl Output {
    /// One line of JSON.
    pub(crate) fn json(self, value: &Json) -> Result<()> {
        let mut out = anstream::stdout().lock();
        Ok(writeln!(out, "{value}")?)
    }

    /// Text and a line end.
    pub(crate) fn text(self, text: impl fmt::Display) -> Result<()> {
        let mut out = anstream::stdout().lock();
        Ok(writeln!(out, "{text}")?)
    }

    /// A word to the person at the terminal that is no result.
    pub(crate) fn note(self, text: impl fmt::Display) {
        // There is nobody to tell when this fails.
        let _ = writeln!(anstream::stderr().lock(), "{text}");
    }

    /// Why the command gave up, and how it ends.
    pub(crate) fn fail(self, failure: &Failure) -> Exit {
        if failure.quiet {
            return failure.exit();
        }
        if self.json {
            let mut value = failure.more.clone().unwrap_or_else(|| json!({}));
            if let Some(members) = value.as_object_mut() {
                members.insert("error".to_owned(), failure.code.clone().into());
                members.insert("message".to_owned(), failure.message.clone().into());
                members.insert("help".to_owned(), failure.help.clone().into());
            }
            let _ = self.json(&value);
            return failure.exit();
        }
        let (red, cyan, end) = ("\u{1b}[1;31m", "\u{1b}[1;36m", "\u{1b}[0m");
        self.note(format_args!("{red}error[{}]{end}: {}", failure.code, failure.message));
        if !failure.help.is_empty() {
            self.note(format_args!("  {cyan}help{end}: {}", failure.help));
        }
        failure.exit()
    }
}

/// The whole of a file, or of standard input for `-`.
pub(crate) fn read_input(name: &FilePath) -> Result<Vec<u8>> {
    let fault = |error: &io::Error| {
        let code = match error.kind() {
            io::ErrorKind::NotFound => "no_such_file",
            _ => "unreadable",
        };
        Failure::new(code, format!("cannot read `{}`: {error}", name.display()), "")
    };
    let mut bytes = Vec::new();
    let read = if name == FilePath::new("-") {
        io::stdin().lock().take(INPUT_BYTES_MAX + 1).read_to_end(&mut bytes)
    } else {
        let file = std::fs::File::open(name).map_err(|error| fault(&error))?;
        file.take(INPUT_BYTES_MAX + 1).read_to_end(&mut bytes)
    };
    read.map_err(|error| fault(&error))?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > INPUT_BYTES_MAX {
        let message = format!("`{}` is larger than {INPUT_BYTES_MAX} bytes", name.display());
        return Err(Failure::new("too_large", message, ""));
    }
    Ok(bytes)
}
