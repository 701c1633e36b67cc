//! What can be shown of an address that may hold a password.

/// Scheme, hosts and path, if they are certain to be no more than that.
pub(super) fn shown(text: &str) -> String {
    let Some((scheme, rest)) = scheme(text) else { return "[redacted]".to_owned() };
    // A password may hold any character, unescaped: only what follows the last `@` is certain to be no part of it.
    let rest = rest.rsplit_once('@').map_or(rest, |(_, hosts)| hosts);
    let end = rest.find(['?', '#']).unwrap_or(rest.len());
    let rest = rest.get(..end).unwrap_or_default();
    let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
    let socket = hosts.is_empty() && scheme.ends_with("unix");
    let sound = (socket || hosts.split(',').all(is_host)) && path.chars().all(is_plain);
    match (sound, path) {
        (false, _) => format!("{scheme}://[redacted]"),
        (true, "") => format!("{scheme}://{hosts}"),
        (true, path) => format!("{scheme}://{hosts}/{path}"),
    }
}

/// The scheme and what follows it.
pub(super) fn scheme(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once("://")?;
    let letters =
        |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || c == '+');
    letters(scheme).then_some((scheme, rest))
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/')
}

/// A name or number, and perhaps a port: `:secret` alone is none.
fn is_host(text: &str) -> bool {
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
        _ => (text, None),
    };
    let inner = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let named = match inner {
        Some(number) => number.chars().all(|c| c.is_ascii_hexdigit() || c == ':'),
        None => name.chars().all(|c| is_plain(c) && c != '/'),
    };
    !name.is_empty() && named && port.is_none_or(|port| port.parse::<u16>().is_ok())
}
