//! Base64 with padding (RFC 4648 section 4): how bytes travel in JSON and between a statement and its rows.

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub(super) fn encode(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0_u32, |word, byte| (word << 8) | u32::from(*byte));
        let word = word << (8 * (3 - chunk.len()));
        for digit in 0..4 {
            if digit > chunk.len() {
                out.push('=');
                continue;
            }
            let index = usize::try_from((word >> (18 - 6 * digit)) & 0x3f);
            let symbol = index.ok().and_then(|index| DIGITS.get(index));
            out.push(symbol.map_or('A', |symbol| char::from(*symbol)));
        }
    }
    out
}

/// `None`: not base64.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let bare = text.trim_end_matches('=');
    if !text.len().is_multiple_of(4) || text.len() - bare.len() > 2 {
        return None;
    }
    let mut out = Vec::with_capacity(bare.len() * 3 / 4);
    for chunk in bare.as_bytes().chunks(4) {
        let mut word = 0_u32;
        for symbol in chunk {
            let digit = DIGITS.iter().position(|digit| digit == symbol)?;
            word = (word << 6) | u32::try_from(digit).ok()?;
        }
        word <<= 6 * (4 - chunk.len());
        let [_, a, b, c] = word.to_be_bytes();
        match chunk.len() {
            4 => out.extend([a, b, c]),
            3 if c == 0 => out.extend([a, b]),
            2 if b == 0 && c == 0 => out.push(a),
            _ => return None,
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back() {
        for text in ["", "f", "fo", "foo", "foob", "\u{0}\u{ff}"] {
            let encoded = encode(text.as_bytes());
            assert_eq!(decode(&encoded).as_deref(), Some(text.as_bytes()), "{encoded}");
        }
        assert_eq!(encode(b"foob"), "Zm9vYg==");
        for text in ["Zm9vYg=", "Zm9vYg", "Zh==", "Zm9v!g=="] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
