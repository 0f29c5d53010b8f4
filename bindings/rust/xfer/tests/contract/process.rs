// SPDX-License-Identifier: Apache-2.0
//! A test in a process of its own.

use std::process::Command;

const ALONE: &str = "XFER_TEST_ALONE";

/// Runs `test`, of that full name, in another process, where nothing runs beside it.
pub fn alone(name: &str, test: impl FnOnce()) {
    if std::env::var(ALONE).is_ok_and(|asked| asked == name) {
        return test();
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(ALONE, name)
        .output()
        .unwrap();
    let (out, error) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}: {out}{error}", output.status);
    assert!(out.contains("1 passed"), "{name} names no test: {out}");
}
