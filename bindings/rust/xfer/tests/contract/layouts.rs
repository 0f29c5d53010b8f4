// SPDX-License-Identifier: Apache-2.0
//! What rustc has found true of the declarations, the C compiler finds true of the headers.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

/// One assertion of bindgen's as one of C: `Offset of field: xfer_id::bytes"][... - 0usize]`.
fn as_c(assertion: &str) -> Option<String> {
    let (text, rest) = assertion.split_once('"')?;
    let number = rest.split_once("usize]")?.0.rsplit_once("- ")?.1;
    let truth = if let Some(field) = text.strip_prefix("Offset of field: ") {
        let (of, field) = field.split_once("::")?;
        format!("offsetof(struct {of}, {field})")
    } else if let Some(of) = text.strip_prefix("Size of ") {
        format!("sizeof(struct {of})")
    } else {
        format!("_Alignof(struct {})", text.strip_prefix("Alignment of ")?)
    };
    Some(format!("_Static_assert({truth} == {number}, \"{text}\");"))
}

#[test]
fn layouts_match() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let bindings = std::fs::read_to_string(root.join("../xfer-sys/src/bindings.rs")).unwrap();
    let words: Vec<_> = bindings.split_whitespace().collect(); // the lines are broken anyhow
    let words = words.join(" ").replace("[ \"", "[\"");
    let asserts: Vec<_> = words.split("[\"").filter_map(as_c).collect();
    let opaque = bindings.matches("_unused: [u8; 0]").count();
    let structs = bindings.matches("pub struct ").count() - opaque;
    let of = |what: &str| asserts.iter().filter(|line| line.contains(what)).count();
    assert_eq!((of("sizeof"), of("_Alignof")), (structs, structs));
    assert_eq!(of("offsetof"), bindings.matches("Offset of field: ").count());

    let mut source =
        "#include <xfer/cuda.h>\n#include <xfer/rdma.h>\n#include <xfer/text.h>\n".to_owned();
    asserts.iter().for_each(|line| writeln!(source, "{line}").unwrap());
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("layouts.c");
    std::fs::write(&file, source).unwrap();
    let flags = Command::new("pkg-config").args(["--cflags", "xfer"]).output().unwrap();
    let output = Command::new("cc")
        .args(["-std=c11", "-fsyntax-only"])
        .args(String::from_utf8(flags.stdout).unwrap().split_whitespace())
        .arg(&file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
