//! Programs in Python: what applications do, one line of output for each step.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use moorline_lab::Lab;

/// Ends with the test.
pub(crate) struct Script {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Script {
    /// Starts a file of this directory's parent on a host.
    pub(crate) fn start(lab: &Lab, host: &str, file: &str, arguments: &[&str]) -> Self {
        let mut command: Command = lab.namespace(host).unwrap().command("python3");
        command.arg(format!("{}/tests/{file}", env!("CARGO_MANIFEST_DIR"))).args(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, input, output }
    }

    /// Its next line, empty if it has ended.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Lets it take its next step, and gives what it says then.
    pub(crate) fn step(&mut self) -> String {
        self.ask("go")
    }

    /// Gives it a word, and gives what it says then.
    pub(crate) fn ask(&mut self, word: &str) -> String {
        self.input.write_all(format!("{word}\n").as_bytes()).unwrap();
        self.line()
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
