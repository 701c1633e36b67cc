//! Canonical JSON (RFC 8785), byte for byte: the published vectors, ours, and what is refused instead of hashed.

use fieldlease::key::{KeyKind, RequestHash, canonical, canonical_text};
use serde_json::Value as Json;
use sha2::{Digest, Sha256};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn text(json: &str) -> String {
    String::from_utf8(canonical_text(json.as_bytes()).unwrap()).unwrap()
}

/// The digests are of the canonical bytes of the files of these names in the reference repository; what the files say
/// is written down here.
#[test]
fn the_published_documents_have_their_digests() {
    let cases = [
        (
            "arrays",
            r#"[ 56, { "d": true, "10": null, "1": [ ] } ]"#,
            "099601b171cafed97c333f8878d68e7f8c8f795412adb34b2fdcf0e7c7beac42",
        ),
        (
            "french",
            "{ \"peach\": \"This sorting order\", \"p\u{e9}ch\u{e9}\": \"is wrong according to French\", \"p\u{ea}che\": \"but canonicalization MUST\", \"sin\": \"ignore locale\" }",
            "d99d0ebdcb0033cb858cfa830ae46bc0fb3309413b271f1da828c89901a27ed5",
        ),
        (
            "structures",
            r#"{ "1": {"f": {"f": "hi", "F": 5}, "\n": 56.0}, "10": { }, "": "empty", "a": { }, "111": [ {"e": "yes", "E": "no"} ], "A": { } }"#,
            "605f65004ec2db7692522a0852c22f1c989e036d547e88963d1a3143cf3195d5",
        ),
        (
            "unicode",
            "{ \"Unnormalized Unicode\": \"A\u{30a}\" }",
            "0d99aad92a125196ff887876643fd3206786a84ddce2cee52ba4ad256d2381d3",
        ),
        (
            "values",
            r#"{ "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001], "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/", "literals": [null, true, false] }"#,
            "2d5e01a318d0f0879ab568c4be289c8b1f64ef8921a53c6277d5e069978baacb",
        ),
        (
            "weird",
            r#"{ "\u20ac": "Euro Sign", "\r": "Carriage Return", "\u000a": "Newline", "1": "One", "\u0080": "Control\u007f", "\ud83d\ude02": "Smiley", "\u00f6": "Latin Small Letter O With Diaeresis", "\ufb33": "Hebrew Letter Dalet With Dagesh", "</script>": "Browser Challenge" }"#,
            "6af595a9aa80110b964b4de3f82a05fa6ae7423005019bacfa2620dddc4e94d1",
        ),
    ];

    let wrong: Vec<_> = cases
        .iter()
        .filter(|(_, input, wanted)| digest(text(input).as_bytes()) != *wanted)
        .map(|(name, input, _)| (name, text(input).len(), text(input)))
        .collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn numbers_are_printed_as_the_appendix_prints_them() {
    let cases: [(u64, &str); 25] = [
        (0x0000_0000_0000_0000, "0"),
        (0x8000_0000_0000_0000, "0"),
        (0x0000_0000_0000_0001, "5e-324"),
        (0x8000_0000_0000_0001, "-5e-324"),
        (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
        (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
        (0x4340_0000_0000_0000, "9007199254740992"),
        (0xc340_0000_0000_0000, "-9007199254740992"),
        (0x4430_0000_0000_0000, "295147905179352830000"),
        (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
        (0x44b5_2d02_c7e1_4af6, "1e+23"),
        (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
        (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
        (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
        (0x444b_1ae4_d6e2_ef50, "1e+21"),
        (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
        (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
        (0x41b3_de43_5555_5553, "333333333.3333332"),
        (0x41b3_de43_5555_5554, "333333333.33333325"),
        (0x41b3_de43_5555_5555, "333333333.3333333"),
        (0x41b3_de43_5555_5556, "333333333.3333334"),
        (0x4340_0000_0000_0001, "9007199254740994"),
        (0x4340_0000_0000_0002, "9007199254740996"),
        (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
        (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
    ];

    for (bits, expected) in cases {
        assert_eq!(number(bits), expected, "{bits:x}");
    }
    assert_eq!(number(0x41b3_de43_5555_5557), "333333333.33333343");
}

fn number(bits: u64) -> String {
    let value = Json::from(f64::from_bits(bits));
    String::from_utf8(canonical(&value).unwrap()).unwrap()
}

/// The sequence is published with the digests of its beginnings; it reaches every branch of a number formatter.
#[test]
fn ten_thousand_numbers_of_the_published_sequence_have_its_digest() {
    let mut lines = String::new();
    let mut checked = Vec::new();
    for (index, bits) in sequence().take(10_000).enumerate() {
        lines.push_str(&format!("{bits:x},{}\n", number(bits)));
        if index + 1 == 1_000 || index + 1 == 10_000 {
            checked.push((lines.len(), digest(lines.as_bytes())));
        }
    }

    let wanted = [
        (37_967, "be18b62b6f69cdab33a7e0dae0d9cfa869fda80ddc712221570f9f40a5878687"),
        (399_022, "b9f7a8e75ef22a835685a52ccba7f7d6bdc99e34b010992cbc5864cd12be6892"),
    ];
    assert_eq!(checked, wanted.map(|(bytes, digest)| (bytes, digest.to_owned())));
}

fn sequence() -> impl Iterator<Item = u64> {
    let text = include_str!("../data/number_bits.txt");
    let text: String = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .fold(String::new(), |all, line| all + line + "\n");
    let blocks: Vec<Vec<u64>> = text
        .trim()
        .split("\n\n")
        .map(|block| {
            block.split_whitespace().map(|bits| u64::from_str_radix(bits, 16).unwrap()).collect()
        })
        .collect();
    let first = [0, 1 << 63, 1, 1 << 63 | 1];
    let unsigned: Vec<u64> = blocks[0].iter().map(|bits| bits & !(1 << 63)).collect();
    let fixed = first.into_iter().chain(blocks[0].clone()).chain(unsigned).chain(blocks[1].clone());
    let fixed: Vec<u64> = fixed.collect();
    assert_eq!(fixed.len(), 168);
    let serial = (0..2_000).map(|offset| 0x0010_0000_0000_0000 + offset);
    let blocks =
        std::iter::successors(Some([0_u8; 32]), |block| Some(Sha256::digest(block).into()));
    let random = blocks.skip(1).flat_map(|block| {
        let parts = block.as_chunks::<8>().0.to_vec();
        parts.into_iter().map(u64::from_le_bytes)
    });
    let finite = |bits: &u64| f64::from_bits(*bits).is_finite() && f64::from_bits(*bits) != 0.0;
    fixed.into_iter().chain(serial).chain(random.filter(finite))
}

#[test]
fn our_own_documents_have_their_forms() {
    let cases = [
        (
            "keys in the order of UTF-16",
            r#"{"\ud83d\ude00":1,"\ufb33":2,"\u00e9":3,"Z":4,"a":5}"#,
            "{\"Z\":4,\"a\":5,\"\u{e9}\":3,\"\u{1f600}\":1,\"\u{fb33}\":2}",
            "2afa090d95c1090f",
        ),
        ("zeros", "[-0.0, 0.0, 1.0, 1e0, 100]", "[0,0,1,1,100]", "b92a1516ee85ecd4"),
        ("minus zero as an integer", "[-0, 0, 1, 1, 100]", "[0,0,1,1,100]", "b92a1516ee85ecd4"),
        (
            "no normalisation",
            r#"["\u00e9","e\u0301"]"#,
            "[\"\u{e9}\",\"e\u{301}\"]",
            "4f9aefe2a56dde33",
        ),
        (
            "nested",
            r#"{"b":[{"y":1,"x":[3,2,1]}],"a":{}}"#,
            r#"{"a":{},"b":[{"x":[3,2,1],"y":1}]}"#,
            "7fbe69f1597f7ada",
        ),
        (
            "controls",
            r#""\u0000\u001F\u007f\u0008\u000c\t\/\"\\""#,
            "\"\\u0000\\u001f\u{7f}\\b\\f\\t/\\\"\\\\\"",
            "107df11792530c04",
        ),
        (
            "a date is a text",
            r#"{ "at" : "2024-01-01T00:00:00Z" }"#,
            r#"{"at":"2024-01-01T00:00:00Z"}"#,
            "472f20daafaa99d9",
        ),
    ];

    for (name, input, form, start) in cases {
        assert_eq!(text(input), form, "{name}");
        assert!(digest(form.as_bytes()).starts_with(start), "{name}");
    }
}

#[test]
fn what_two_readers_take_differently_is_refused_with_its_place() {
    let deep = "[".repeat(65) + &"]".repeat(65);
    let cases: Vec<(&[u8], &str, &str)> = vec![
        (b"[NaN]", "not_json", "line 1"),
        (b"[Infinity]", "not_json", "line 1"),
        (br#"["\ud83d"]"#, "not_json", "line 1"),
        (br#"["\ude00\ud83d"]"#, "not_json", "line 1"),
        (b"[\"\xff\"]", "not_json", "UTF-8"),
        (b"[\"\xed\xa0\x80\"]", "not_json", "UTF-8"),
        (br#"{"a":1,"b":{"c":1,"\u0063":2}}"#, "duplicate_name", "`c`"),
        (deep.as_bytes(), "too_deep", "64"),
        (b"[1e400]", "not_json", "line 1"),
        (br#"{"changes":{"ean":9007199254740993}}"#, "number_not_exact", "`/changes/ean`"),
        (br#"{"changes":[{"ean":-9007199254740992}]}"#, "number_not_exact", "`/changes/*/ean`"),
        (b"18446744073709551615", "number_not_exact", "`/`"),
        (b"18446744073709551616", "number_not_exact", "18446744073709551616"),
        (b"-99999999999999999999", "number_not_exact", "-99999999999999999999"),
    ];

    for (input, code, says) in cases {
        let error = canonical_text(input).unwrap_err();
        let shown = String::from_utf8_lossy(input);
        assert_eq!(error.code(), code, "{shown}");
        assert!(error.to_string().contains(says), "{shown}: {error}");
    }
    for good in ["9007199254740991", "-9007199254740991", "9007199254740993.0", "1e300"] {
        assert!(canonical_text(good.as_bytes()).is_ok(), "{good}");
    }
}

#[test]
fn a_request_is_its_meaning_and_nothing_of_its_spelling() {
    let hash = |kind, operation: &str, target: &str, text: &str| {
        let body = serde_json::from_str(text).unwrap();
        RequestHash::of_json(kind, operation, target, &body).unwrap()
    };
    let body = r#"{"changes":{"name":"caf\u00e9","price":1.0},"reason":null}"#;
    let first = hash(KeyKind::Api, "save", "Product/42", body);

    let spelled = "{ \"reason\" : null, \"changes\":{\"price\":1e0,\"n\\u0061me\":\"caf\u{e9}\"} }";
    assert_eq!(hash(KeyKind::Api, "save", "Product/42", spelled), first);
    let others = [
        hash(KeyKind::Job, "save", "Product/42", body),
        hash(KeyKind::Api, "create", "Product/42", body),
        hash(KeyKind::Api, "save", "Product/43", body),
        // The same bytes, cut elsewhere.
        hash(KeyKind::Api, "savePro", "duct/42", body),
        hash(KeyKind::Api, "save", "Product/42", r#"{"changes":{"name":"caf\u00e9","price":2}}"#),
        RequestHash::of_bytes(KeyKind::Api, "save", "Product/42", body.as_bytes()),
    ];
    for (index, other) in others.iter().enumerate() {
        assert_ne!(*other, first, "{index}");
    }
}
