//! Finds the item of a source file that a marker is about. The search works on lines and knows only the first words of
//! declarations, so it serves Rust and C.

/// The item that the marker on line `at` is about: the next item if a declaration follows, else the enclosing function.
pub(crate) fn around<'a>(lines: &[&'a str], at: usize) -> Option<Item<'a>> {
    let next = (at + 1..lines.len()).find(|&line| !is_passed_over(lines, line));
    if let Some(item) = next.and_then(|line| declared(lines, line)) {
        return Some(item);
    }
    let indent = indent(lines[at]);
    (0..at).rev().filter(|&line| self::indent(lines[line]) < indent).find_map(|line| {
        let item = declared(lines, line)?;
        matches!(item.kind, Kind::Function | Kind::Test).then_some(item)
    })
}

/// An item of a source file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Item<'a> {
    pub(crate) name: &'a str,
    pub(crate) kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A function that `cargo test` runs.
    Test,
    Function,
    Other,
}

fn declared<'a>(lines: &[&'a str], at: usize) -> Option<Item<'a>> {
    let c = c_function(lines[at]).map(|name| Item { name, kind: Kind::Function });
    if let Some((word, name)) = declaration(lines[at]) {
        // `static int f(` and `struct a *f(` start like declarations of Rust.
        if let (Some(item), "static" | "struct" | "enum") = (c, word) {
            return Some(item);
        }
        let kind = match word {
            "fn" if is_test(lines, at) => Kind::Test,
            "fn" => Kind::Function,
            _ => Kind::Other,
        };
        return Some(Item { name, kind });
    }
    c
}

/// Keyword and name of a Rust declaration: `fn` and `name` for `pub(crate) const fn name(`.
fn declaration(line: &str) -> Option<(&str, &str)> {
    let mut rest = line.trim_start();
    loop {
        let (word, behind) = rest.split_once(' ')?;
        match word {
            "fn" | "struct" | "enum" | "trait" | "mod" | "static" | "type" => {
                return Some((word, name(behind)?));
            }
            "const" if !behind.starts_with("fn ") && !behind.starts_with("unsafe ") => {
                return Some((word, name(behind)?));
            }
            "pub" | "pub(crate)" | "pub(super)" | "async" | "unsafe" | "const" => rest = behind,
            _ => return None,
        }
    }
}

/// Name of a C function. The definition starts in the first column and has its parameters on the same line.
fn c_function(line: &str) -> Option<&str> {
    let head = line.split_once('(')?.0;
    let is_one = head.starts_with(|first: char| first.is_ascii_lowercase() || first == '_')
        && head.contains(' ')
        && head.chars().all(|c| c.is_ascii_alphanumeric() || "_ *".contains(c))
        && !line.trim_end().ends_with(';');
    is_one.then(|| head.rsplit([' ', '*']).next()).flatten().filter(|name| !name.is_empty())
}

fn name(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(text.len());
    Some(&text[..end]).filter(|name| !name.is_empty())
}

/// Whether the function has `#[test]`, `#[tokio::test]` or the like above it, and no `#[ignore]`.
fn is_test(lines: &[&str], function: usize) -> bool {
    let mut test = false;
    for line in lines[..function].iter().rev().map(|line| line.trim()) {
        if line.starts_with("#[ignore") {
            return false;
        }
        if line == "#[test]" || line.starts_with("#[tokio::test") {
            test = true;
        } else if !is_comment(line) && !line.starts_with("#[") {
            break;
        }
    }
    test
}

fn is_passed_over(lines: &[&str], at: usize) -> bool {
    let line = lines[at].trim();
    line.is_empty() || is_comment(line) || line.starts_with("#[")
}

fn is_comment(line: &str) -> bool {
    line.starts_with("//") || line.starts_with("/*") || line.starts_with("* ")
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(source: &str) -> Option<(&str, Kind)> {
        let lines: Vec<&str> = source.lines().collect();
        let at = lines.iter().position(|line| line.trim().starts_with("//=")).unwrap();
        around(&lines, at).map(|item| (item.name, item.kind))
    }

    #[test]
    fn a_declaration_below_is_meant() {
        let source =
            "fn before() {}\n/// Doc.\n//= rfc1#1-1\n#[inline]\npub(crate) const fn here() {}";
        assert_eq!(item(source), Some(("here", Kind::Function)));
        assert_eq!(item("//= rfc1#1-1\npub const MAX: u8 = 1;"), Some(("MAX", Kind::Other)));
        assert_eq!(item("//= rfc1#1-1\npub struct Open<T>(T);"), Some(("Open", Kind::Other)));
    }

    #[test]
    fn inside_a_function_that_function_is_meant() {
        let source =
            "fn outer() {\n    let a = 1;\n    if a {\n        //= rfc1#1-1\n        b();\n";
        assert_eq!(item(source), Some(("outer", Kind::Function)));
    }

    #[test]
    fn tests_are_told_from_functions() {
        let test = "#[test]\nfn shows() {\n    //= rfc1#1-1 (test)\n    assert!(true);";
        assert_eq!(item(test), Some(("shows", Kind::Test)));
        let above = "//= rfc1#1-1 (test)\n#[test]\nfn shows() {";
        assert_eq!(item(above), Some(("shows", Kind::Test)));
        let ignored = "//= rfc1#1-1 (test)\n#[test]\n#[ignore = \"slow\"]\nfn shows() {";
        assert_eq!(item(ignored), Some(("shows", Kind::Function)));
        let between = "#[test]\nfn other() {}\n//= rfc1#1-1 (test)\nfn helper() {";
        assert_eq!(item(between), Some(("helper", Kind::Function)));
    }

    #[test]
    fn c_functions_are_found() {
        let c = "//= rfc1#1-1\nstatic __always_inline int strip_header(struct packet *p)\n{";
        assert_eq!(item(c), Some(("strip_header", Kind::Function)));
        let inside =
            "int other(int a);\nint strip(struct packet *p)\n{\n\t//= rfc1#1-1\n\tcall(p);";
        assert_eq!(item(inside), Some(("strip", Kind::Function)));
    }

    #[test]
    fn nothing_is_made_up() {
        assert_eq!(item("//= rfc1#1-1\nuse core::fmt;"), None);
    }
}
