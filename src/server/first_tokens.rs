//! Tokens for the first start, so that a new user has a working service with identities and no settings.

use std::{
    fs::OpenOptions,
    io::Write,
    path::{Path as FilePath, PathBuf},
};

use crate::{
    error::{Error, Result},
    server::principals::hash,
    token::Entropy,
};

/// Shortest text taken for a token: 16 random bytes in hexadecimal.
const TOKEN_BYTES_MIN: usize = 32;

/// Where the first tokens are.
#[derive(Clone, Debug)]
pub struct FirstTokens {
    /// The token file: hashes, and who they stand for.
    pub file: PathBuf,
    /// The token of the editor `demo`, readable for its owner only.
    pub editor: PathBuf,
    /// The token of the worker `thumbnailer`, readable for its owner only.
    pub worker: PathBuf,
}

/// Finds the first tokens in a directory, or makes them.
///
/// # Errors
/// When a file cannot be read or made.
pub fn first_tokens(dir: &FilePath, entropy: &dyn Entropy) -> Result<FirstTokens> {
    let first = FirstTokens {
        file: dir.join("tokens.yaml"),
        editor: dir.join("editor.token"),
        worker: dir.join("worker.token"),
    };
    if first.file.symlink_metadata().is_ok() {
        return Ok(first);
    }
    let editor = token(&first.editor, entropy)?;
    let worker = token(&first.worker, entropy)?;
    let text = format!(
        "# Who may use the service. Each token is kept as its SHA-256: `printf %s TOKEN | sha256sum`.\n\
         # Changes take effect at once.\n\
         tokens:\n  \
           - sha256: {}\n    kind: editor\n    name: demo\n    permissions: [force, break_lease, metrics]\n  \
           - sha256: {}\n    kind: worker\n    name: thumbnailer\n",
        hex(&hash(&editor)),
        hex(&hash(&worker)),
    );
    write_new(&first.file, &text)?;
    Ok(first)
}

/// The token of an earlier start that was cut short, or a new one.
fn token(path: &FilePath, entropy: &dyn Entropy) -> Result<String> {
    if path.symlink_metadata().is_ok() {
        let text = std::fs::read_to_string(path).map_err(|error| fault(path, &error))?;
        let text = text.trim();
        // An empty or cut token would be one that anybody can guess.
        if text.len() < TOKEN_BYTES_MIN {
            let message = format!("`{}` holds no token", path.display());
            return Err(Error::invalid("token_file", message, "remove it, and start again"));
        }
        return Ok(text.to_owned());
    }
    let token = format!("fl_{}{}", hex(&entropy.bytes()), hex(&entropy.bytes()));
    write_new(path, &token)?;
    Ok(token)
}

/// Makes a file for its owner only, whole or not at all; never writes through a link. The caller has looked that
/// nothing is there, and holds the store's lock.
fn write_new(path: &FilePath, text: &str) -> Result<()> {
    let part = path.with_extension("part");
    // Left behind by a start that was cut short.
    let _ = std::fs::remove_file(&part);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&part).map_err(|error| fault(path, &error))?;
    file.write_all(text.as_bytes()).map_err(|error| fault(path, &error))?;
    file.sync_all().map_err(|error| fault(path, &error))?;
    std::fs::rename(&part, path).map_err(|error| fault(path, &error))
}

fn fault(path: &FilePath, error: &std::io::Error) -> Error {
    Error::unavailable(format!("`{}` cannot be used: {error}", path.display()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        clock::SystemClock, entity::Writer, server::principals::TokenFile, token::SystemEntropy,
    };

    #[test]
    fn the_first_tokens_work_and_stay_and_only_their_owner_reads_them() {
        let dir = tempfile::tempdir().unwrap();

        let first = first_tokens(dir.path(), &SystemEntropy).unwrap();
        let editor = std::fs::read_to_string(&first.editor).unwrap();
        let again = first_tokens(dir.path(), &SystemEntropy).unwrap();

        assert_eq!(std::fs::read_to_string(&again.editor).unwrap(), editor);
        let tokens = TokenFile::open(&first.file, Arc::new(SystemClock)).unwrap();
        assert_eq!(tokens.find(&editor).unwrap().writer, Writer::editor("demo"));
        let hashes = std::fs::read_to_string(&first.file).unwrap();
        assert!(!hashes.contains(editor.trim_start_matches("fl_")));
        #[cfg(unix)]
        for path in [&first.file, &first.editor, &first.worker] {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{}", path.display());
        }
    }

    #[test]
    fn a_start_that_was_cut_short_goes_on_and_never_takes_an_empty_token() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("editor.part"), "fl_").unwrap();
        std::fs::write(dir.path().join("worker.token"), "x".repeat(40)).unwrap();

        let first = first_tokens(dir.path(), &SystemEntropy).unwrap();

        assert_eq!(std::fs::read_to_string(&first.worker).unwrap(), "x".repeat(40));
        assert!(std::fs::read_to_string(&first.editor).unwrap().len() > 60);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 3, "no part is left");
        for text in ["", "\n", "fl_123"] {
            let dir = tempfile::tempdir().unwrap();
            std::fs::write(dir.path().join("editor.token"), text).unwrap();
            let refused = first_tokens(dir.path(), &SystemEntropy).unwrap_err();
            assert_eq!(refused.code(), "token_file", "{text:?}");
            assert!(!dir.path().join("tokens.yaml").exists());
        }
    }

    #[test]
    #[cfg(unix)]
    fn a_link_in_the_place_of_a_token_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("target");
        std::os::unix::fs::symlink(&target, dir.path().join("editor.token")).unwrap();

        assert!(first_tokens(dir.path(), &SystemEntropy).is_err());
        assert!(!target.exists());
    }
}
