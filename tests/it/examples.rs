//! The examples print what their readers are told.

#[path = "../../examples/editor.rs"]
mod editor;
#[path = "../../examples/quickstart.rs"]
mod quickstart;
#[path = "../../examples/worker.rs"]
mod worker;

fn file() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    (folder, path)
}

#[tokio::test]
async fn quickstart() {
    let (_folder, path) = file();

    let text = quickstart::run(&path).await.unwrap();

    let expected = "\
create: applied, thumbnail: applied
images = [\"a.jpg\"]
name = \"Chair\"
thumbnail = \"small-a.jpg\"
versions: 1
";
    assert_eq!(text, expected);
}

#[tokio::test]
async fn worker() {
    let (_folder, path) = file();

    let text = worker::run(&path).await.unwrap();

    let expected = "\
under the claim: applied
beside it: skipped
and with `fail`: busy
the editor: applied
new images: applied
a preview of the old ones: stale_input
";
    assert_eq!(text, expected);
}

#[tokio::test]
async fn editor() {
    let (_folder, path) = file();

    let text = editor::run(&path).await.unwrap();

    let expected = "\
Ben: applied
Anna: conflict
  name: it was \"Chair\"; ben made it \"Armchair\"; you typed \"Comfy chair\"
  new: categories = [\"seats\",\"new\"]
  new: name = \"Armchair\"
Anna, having seen it: applied
categories = [\"seats\",\"new\",\"sale\"]
description = \"Red\"
name = \"Comfy chair\"
";
    assert_eq!(text, expected);
}
