//! Texts of a place with placeholders: filled from a path, and read back from names and rows.

/// One piece of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    /// `$1`, `$locale`: what the path gives.
    Var(String),
}

/// A text with placeholders. `$$` is a dollar sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template(Vec<Piece>);

/// What placeholders stand for.
pub(crate) type Vars = std::collections::BTreeMap<String, String>;

impl Template {
    pub(crate) fn parse(text: &str) -> Self {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            if c != '$' || chars.next_if(|c| *c == '$').is_some() {
                plain.push(c);
                continue;
            }
            let mut name = String::new();
            // A number ends where its digits do: `$1_b` is `$1` and `_b`.
            let numbered = chars.peek().is_some_and(char::is_ascii_digit);
            let belongs = |c: &char| match numbered {
                true => c.is_ascii_digit(),
                false => c.is_alphanumeric() || *c == '_',
            };
            while let Some(c) = chars.next_if(belongs) {
                name.push(c);
            }
            if !plain.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut plain)));
            }
            pieces.push(Piece::Var(name));
        }
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Self(pieces)
    }

    /// The names it needs.
    pub(crate) fn vars(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Var(name) => Some(name.as_str()),
            Piece::Text(_) => None,
        })
    }

    /// Whether it is `$rest` and nothing else.
    pub(crate) fn is_rest(&self) -> bool {
        matches!(self.0.as_slice(), [Piece::Var(name)] if name == "rest")
    }

    /// The text; `None` when a name has no value.
    pub(crate) fn fill(&self, vars: &Vars) -> Option<String> {
        let mut text = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(plain) => text.push_str(plain),
                Piece::Var(name) => text.push_str(vars.get(name)?),
            }
        }
        Some(text)
    }

    /// The names with these values put in; others stay open.
    pub(crate) fn with(&self, vars: &Vars) -> Self {
        let mut pieces: Vec<Piece> = Vec::new();
        for piece in &self.0 {
            let piece = match piece {
                Piece::Var(name) => {
                    vars.get(name).map_or_else(|| piece.clone(), |value| Piece::Text(value.clone()))
                }
                Piece::Text(_) => piece.clone(),
            };
            match (pieces.last_mut(), piece) {
                (Some(Piece::Text(before)), Piece::Text(more)) => before.push_str(&more),
                (_, piece) => pieces.push(piece),
            }
        }
        Self(pieces)
    }

    /// The values that make this text of it, added to `vars`; those known already must agree. A placeholder takes
    /// at least one character, and as few as the text behind it allows.
    pub(crate) fn read(&self, text: &str, vars: &mut Vars) -> bool {
        let mut rest = text;
        let mut pieces = self.0.iter().peekable();
        while let Some(piece) = pieces.next() {
            match piece {
                Piece::Text(plain) => match rest.strip_prefix(plain.as_str()) {
                    Some(behind) => rest = behind,
                    None => return false,
                },
                Piece::Var(name) => {
                    let end = match pieces.peek() {
                        Some(Piece::Text(next)) => {
                            rest.char_indices().skip(1).find_map(|(at, _)| {
                                rest.get(at..)?.starts_with(next.as_str()).then_some(at)
                            })
                        }
                        _ => Some(rest.len()),
                    };
                    let Some((value, behind)) = end.and_then(|end| rest.split_at_checked(end))
                    else {
                        return false;
                    };
                    let known = vars.entry(name.clone()).or_insert_with(|| value.to_owned());
                    if value.is_empty() || known != value {
                        return false;
                    }
                    rest = behind;
                }
            }
        }
        rest.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_filled_in_is_read_back() {
        let cases = [
            ("$1", "1=sku", "sku"),
            ("name_$locale", "locale=de", "name_de"),
            ("a_$1_b", "1=x_y", "a_x_y_b"),
            ("$$1", "", "$1"),
        ];
        for (template, vars, text) in cases {
            let template = Template::parse(template);
            let vars: Vars = vars
                .split_once('=')
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into_iter()
                .collect();
            assert_eq!(template.fill(&vars).as_deref(), Some(text));
            let mut read = Vars::new();
            assert!(template.read(text, &mut read), "{text}");
            assert_eq!(read, vars);
        }
    }

    #[test]
    fn another_text_is_not_read() {
        let template = Template::parse("name_$locale");
        for text in ["name_", "names_de", "title_de"] {
            assert!(!template.read(text, &mut Vars::new()), "{text}");
        }
        let mut known = Vars::from([("locale".to_owned(), "fr".to_owned())]);
        assert!(!template.read("name_de", &mut known));
    }
}
