//! Python programs in the role of applications, with one line of output for each step.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use moorline_lab::Lab;

/// A running program, which ends with the test.
pub(crate) struct Script {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Script {
    /// Starts a file of `lab/tests` on a host.
    pub(crate) fn start(lab: &Lab, host: &str, file: &str, arguments: &[&str]) -> Self {
        let mut command: Command = lab.namespace(host).unwrap().command("python3");
        command.arg(format!("{}/tests/{file}", env!("CARGO_MANIFEST_DIR"))).args(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, input, output }
    }

    /// The next line of the program, empty if the program has ended.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Lets the program take its next step, and gives its next line.
    pub(crate) fn step(&mut self) -> String {
        self.ask("go")
    }

    /// Sends a word to the program, and gives its next line.
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
