//! Tests of `moorline demo`, `sim` and `lab`. This program has no other test: a fork of another test could hold a script of
//! this test open for writing, and the kernel would not execute it.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

#[test]
fn the_lab_is_a_program_of_its_own_that_takes_its_arguments_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let moorline = dir.path().join("moorline");
    std::fs::copy(env!("CARGO_BIN_EXE_moorline"), &moorline).unwrap();
    let run = |args: &[&str]| {
        Command::new(&moorline).args(args).env("PATH", dir.path()).output().unwrap()
    };
    let output = run(&["demo"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("make install-lab"),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );

    let lab = dir.path().join("moorline-lab");
    std::fs::write(&lab, "#!/bin/sh\necho \"$@\"\nexit 3\n").unwrap();
    std::fs::set_permissions(&lab, PermissionsExt::from_mode(0o755)).unwrap();
    for (args, given) in [
        (&["demo", "--json"] as &[_], "demo --json\n"),
        (&["sim", "--help"], "sim --help\n"),
        (&["lab", "run", "rough", "--out", "here"], "run rough --out here\n"),
    ] {
        let output = run(args);
        assert_eq!(
            (String::from_utf8_lossy(&output.stdout).as_ref(), output.status.code()),
            (given, Some(3))
        );
    }
}
