//! Results that are too large, and images that are set aside.

use toolcrib_config::model::units::Size;

use super::*;

fn text_of(raw: &Raw) -> Vec<String> {
    let result = CallToolResult::read(raw.clone()).unwrap();
    result.content().map(|item| item.raw().text().to_owned()).collect()
}

#[test]
fn what_fits_is_untouched() {
    let whole = result(r#"{ "content":[{"type":"text","text":"hi"}] }"#);
    for max in [0, 43, 1000] {
        let cut = cut(&whole, Size(max), || "7".to_owned());
        assert_eq!((&cut.handed_on, &cut.kept), (whole.raw(), &None), "{max}");
    }
}

#[test]
fn items_stay_whole_while_they_fit_and_the_next_is_cut_between_characters() {
    let small = r#"{"type":"text","text":"one"}"#;
    let long = "é".repeat(500);
    let text = format!(
        r#"{{"content":[{small},{{"type":"text","text":"{long}"}},{small}],"structuredContent":{{"t":"{long}"}},"isError":true,"_meta":{{"k":1}}}}"#
    );
    let whole = result(&text);
    let cut = cut(&whole, Size(128), || "7".to_owned());
    let kept = cut.kept.unwrap();
    assert_eq!((kept.uri.as_str(), &kept.whole), ("toolcrib://results/7", whole.raw()));
    let items = text_of(&cut.handed_on);
    assert_eq!(items[0], small);
    // An odd number of bytes is left, and half an é is none.
    let left = 128 - small.len();
    assert_eq!(items[1], format!(r#"{{"type":"text","text":"{}"}}"#, "é".repeat(left / 2)));
    let note = format!(
        "[cut: {} bytes are over the limit of 128; read toolcrib://results/7 for the whole result]",
        text.len()
    );
    assert!(items[2].contains(&note), "{}", items[2]);
    assert!(items[3].contains(r#""type":"resource_link","uri":"toolcrib://results/7""#));
    assert_eq!(items.len(), 4, "nothing after the edge");
    let handed = CallToolResult::read(cut.handed_on).unwrap();
    assert!(handed.is_error() && handed.structured_content().is_none());
}

#[test]
fn what_cannot_be_cut_is_left_out_and_still_kept() {
    let image = format!(
        r#"{{"content":[{{"type":"image","data":"{}","mimeType":"image/png"}}]}}"#,
        "A".repeat(4000)
    );
    let cut = cut(&result(&image), Size(100), || "x".to_owned());
    assert_eq!(text_of(&cut.handed_on).len(), 2, "the note and the link");
    assert_eq!(cut.kept.unwrap().whole.text(), image);
    let structured =
        format!(r#"{{"content":[],"structuredContent":"{}","_meta":{{}}}}"#, "a".repeat(400));
    let cut = super::cut(&result(&structured), Size(100), || "x".to_owned());
    assert_eq!(cut.handed_on.get("structuredContent"), None);
    assert_eq!(cut.handed_on.get("_meta").unwrap().text(), "{}", "what fits stays");
}

#[test]
fn ext_06_images_that_models_take_are_set_aside() {
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
        let made = items(&result(&format!(r#"{{"content":[{}]}}"#, image(mime, "AQID"))), "c1");
        match &made[0] {
            Item::Image(artifact) => {
                assert!(taken, "{mime}");
                assert_eq!(
                    (artifact.bytes.as_slice(), artifact.uri.as_str()),
                    (&[1, 2, 3][..], "toolcrib://artifacts/c1/0")
                );
                let mime = mime.to_ascii_lowercase();
                let reference = format!("[image: {mime}, 3 bytes, toolcrib://artifacts/c1/0]");
                assert_eq!(artifact.reference(), reference);
            }
            Item::Text(text) => {
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
    let made: Vec<String> =
        items(&result(&mixed), "c1").iter().map(|item| item.to_json().text().to_owned()).collect();
    assert_eq!(
        made,
        [
            r#"{"type":"input_text","text":"see"}"#,
            r#"{"type":"input_image","mimeType":"image/png","byteLength":3,"uri":"toolcrib://artifacts/c1/1"}"#,
            r#"{"type":"input_text","text":"[image: image/png, 6 bytes]"}"#,
        ]
    );
}
