//! Tests of truncation and of image artifacts.

use toolcrib_config::model::units::Size;

use super::*;

fn text_of(raw: &RawJson) -> Vec<String> {
    let result = CallToolResult::read(raw.clone()).unwrap();
    result.content().map(|item| item.raw().text().to_owned()).collect()
}

#[test]
fn small_result_is_not_truncated() {
    let whole = result(r#"{ "content":[{"type":"text","text":"hi"}] }"#);
    for max in [0, 43, 1000] {
        let cut = truncate_result(&whole, Size(max), || "7".to_owned());
        assert_eq!((&cut.delivered, &cut.stored), (whole.raw(), &None), "{max}");
    }
}

#[test]
fn truncation_keeps_whole_blocks_and_cuts_text_at_a_character() {
    let small = r#"{"type":"text","text":"one"}"#;
    let long = "é".repeat(500);
    let text = format!(
        r#"{{"content":[{small},{{"type":"text","text":"{long}"}},{small}],"structuredContent":{{"t":"{long}"}},"isError":true,"_meta":{{"k":1}}}}"#
    );
    let whole = result(&text);
    let cut = truncate_result(&whole, Size(128), || "7".to_owned());
    let stored = cut.stored.unwrap();
    assert_eq!((stored.uri.as_str(), &stored.full_result), ("toolcrib://results/7", whole.raw()));
    let items = text_of(&cut.delivered);
    assert_eq!(items[0], small);
    // The remaining size is odd, and half an é cannot be kept.
    let left = 128 - small.len();
    assert_eq!(items[1], format!(r#"{{"type":"text","text":"{}"}}"#, "é".repeat(left / 2)));
    let note = format!(
        "[cut: {} bytes are over the limit of 128; read toolcrib://results/7 for the whole result]",
        text.len()
    );
    assert!(items[2].contains(&note), "{}", items[2]);
    assert!(items[3].contains(r#""type":"resource_link","uri":"toolcrib://results/7""#));
    assert_eq!(items.len(), 4, "no block follows the cut");
    let delivered = CallToolResult::read(cut.delivered).unwrap();
    assert!(delivered.is_error() && delivered.structured_content().is_none());
}

#[test]
fn blocks_that_cannot_be_cut_are_omitted_and_stored() {
    let image = format!(
        r#"{{"content":[{{"type":"image","data":"{}","mimeType":"image/png"}}]}}"#,
        "A".repeat(4000)
    );
    let cut = truncate_result(&result(&image), Size(100), || "x".to_owned());
    assert_eq!(text_of(&cut.delivered).len(), 2, "the note and the link");
    assert_eq!(cut.stored.unwrap().full_result.text(), image);
    let structured =
        format!(r#"{{"content":[],"structuredContent":"{}","_meta":{{}}}}"#, "a".repeat(400));
    let cut = super::truncate_result(&result(&structured), Size(100), || "x".to_owned());
    assert_eq!(cut.delivered.get("structuredContent"), None);
    assert_eq!(cut.delivered.get("_meta").unwrap().text(), "{}", "members that fit stay");
}

#[test]
fn ext_06_supported_images_become_artifacts() {
    let image = |mime: &str, data: &str| {
        format!(r#"{{"type":"image","data":"{data}","mimeType":"{mime}"}}"#)
    };
    for (mime, taken) in [
        ("image/jpeg", true),
        ("image/png", true),
        ("image/gif", true),
        ("IMAGE/WEBP", true),
        ("image/bmp", false),
        ("image/svg+xml", false),
    ] {
        let made =
            model_items(&result(&format!(r#"{{"content":[{}]}}"#, image(mime, "AQID"))), "c1");
        match &made[0] {
            ModelItem::Image(artifact) => {
                assert!(taken, "{mime}");
                assert_eq!(
                    (artifact.bytes.as_slice(), artifact.uri.as_str()),
                    (&[1, 2, 3][..], "toolcrib://artifacts/c1/0")
                );
                let mime = mime.to_ascii_lowercase();
                let reference = format!("[image: {mime}, 3 bytes, toolcrib://artifacts/c1/0]");
                assert_eq!(artifact.reference(), reference);
            }
            ModelItem::Text(text) => {
                assert!(!taken, "{mime}");
                assert_eq!(text, &format!("[image: {mime}, 3 bytes]"));
            }
        }
    }
    let mixed = format!(
        r#"{{"content":[{{"type":"text","text":"see"}},{},{}]}}"#,
        image("image/png", "AQID"),
        image("image/png", "not base64")
    );
    let made: Vec<String> = model_items(&result(&mixed), "c1")
        .iter()
        .map(|item| item.to_json().text().to_owned())
        .collect();
    assert_eq!(
        made,
        [
            r#"{"type":"input_text","text":"see"}"#,
            r#"{"type":"input_image","mimeType":"image/png","byteLength":3,"uri":"toolcrib://artifacts/c1/1"}"#,
            r#"{"type":"input_text","text":"[image: image/png, 6 bytes]"}"#,
        ]
    );
}
