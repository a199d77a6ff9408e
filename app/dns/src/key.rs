use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use base64ct::{Base64, Encoding as _};
use hickory_proto::rr::TSigner;
use hickory_proto::rr::rdata::tsig::TsigAlgorithm;
use moorline_wire::ilnp::DomainName;
use zeroize::Zeroizing;

use crate::KeyError;
use crate::name::{parse_name, to_name};

/// Secret shared with a name server, and the name of that secret (RFC 8945).
#[derive(Clone)]
pub struct Key {
    name: DomainName,
    signer: TSigner,
}

impl Key {
    /// Reads the format of `tsig-keygen`, which is also the format of BIND's configuration.
    ///
    /// # Errors
    /// The file cannot be read, other users may read it, or its format is wrong.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let failed = |error| KeyError::Read { path: path.to_owned(), error };
        let file = File::open(path).map_err(failed)?;
        if file.metadata().map_err(failed)?.permissions().mode() & OF_OTHERS != 0 {
            return Err(KeyError::Mode { path: path.to_owned() });
        }
        // Reserve the maximum: growth would leave copies of the secret in memory.
        let mut text = Zeroizing::new(String::with_capacity(MAX_OCTETS + 1));
        file.take(MAX_OCTETS as u64 + 1).read_to_string(&mut text).map_err(failed)?;
        if text.len() > MAX_OCTETS {
            let what = format!("longer than {MAX_OCTETS} octets");
            return Err(KeyError::Format { path: path.to_owned(), what });
        }
        Self::parse(&text, path)
    }

    /// Returns the name by which the server selects the key.
    #[must_use]
    pub const fn name(&self) -> &DomainName {
        &self.name
    }

    pub(crate) const fn signer(&self) -> &TSigner {
        &self.signer
    }

    fn parse(text: &str, path: &Path) -> Result<Self, KeyError> {
        let wrong = |what: String| KeyError::Format { path: path.to_owned(), what };
        let statement = Statement::parse(text).map_err(|what| wrong(what.to_owned()))?;
        let name = parse_name(statement.name).map_err(|error| wrong(error.to_string()))?;
        let algorithm =
            match statement.algorithm.trim_end_matches('.').to_ascii_lowercase().as_str() {
                "hmac-sha256" => TsigAlgorithm::HmacSha256,
                "hmac-sha384" => TsigAlgorithm::HmacSha384,
                "hmac-sha512" => TsigAlgorithm::HmacSha512,
                other => {
                    let algorithm = other.to_owned();
                    return Err(KeyError::Algorithm { path: path.to_owned(), algorithm });
                }
            };
        let secret = Base64::decode_vec(statement.secret)
            .map_err(|_| wrong("the secret is no base64".to_owned()))?;
        if secret.is_empty() {
            return Err(wrong("the secret is empty".to_owned()));
        }
        let signer = TSigner::new(secret, algorithm, to_name(&name), FUDGE_S);
        let signer = signer.map_err(|error| wrong(error.to_string()))?;
        Ok(Self { name, signer })
    }
}

/// Hides the secret.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("name", &self.name).finish_non_exhaustive()
    }
}

/// `key NAME { algorithm NAME; secret TEXT; };`: the only statement of a file, beside comments.
struct Statement<'a> {
    name: &'a str,
    algorithm: &'a str,
    secret: &'a str,
}

impl<'a> Statement<'a> {
    fn parse(text: &'a str) -> Result<Self, &'static str> {
        let mut words = Words(text);
        let mut next = || words.next().ok_or("it ends too early");
        if next()? != "key" {
            return Err("it does not begin with `key`");
        }
        let name = next()?;
        if next()? != "{" {
            return Err("`{` lacks behind the name");
        }
        let (mut algorithm, mut secret) = (None, None);
        loop {
            let place = match next()? {
                "algorithm" => &mut algorithm,
                "secret" => &mut secret,
                "}" => break,
                _ => return Err("a key has an algorithm and a secret and nothing else"),
            };
            if place.replace(next()?).is_some() || next()? != ";" {
                return Err("a `;` lacks, or something stands twice");
            }
        }
        let rest = [words.next(), words.next()];
        if !matches!(rest, [None | Some(";"), None]) {
            return Err("there is more than one key in it");
        }
        Ok(Self {
            name,
            algorithm: algorithm.ok_or("the algorithm lacks")?,
            secret: secret.ok_or("the secret lacks")?,
        })
    }
}

/// Iterator over tokens: words, strings without their quotes, and `{`, `}`, `;`.
struct Words<'a>(&'a str);

impl<'a> Iterator for Words<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        self.0 = after_space(self.0);
        let first = self.0.chars().next()?;
        if first == '"' {
            let (word, rest) = self.0[1..].split_once('"')?;
            self.0 = rest;
            return Some(word);
        }
        let is_end = |c: char| c.is_whitespace() || "{};\"#".contains(c);
        let len = match self.0.find(is_end) {
            Some(0) => first.len_utf8(),
            Some(len) => len,
            None => self.0.len(),
        };
        let (word, rest) = self.0.split_at(len);
        self.0 = rest;
        Some(word)
    }
}

/// Skips white space and comments: `#`, `//` and `/* */`.
fn after_space(mut text: &str) -> &str {
    loop {
        text = text.trim_start();
        text = if text.starts_with('#') || text.starts_with("//") {
            text.split_once('\n').map_or("", |(_, rest)| rest)
        } else if let Some(comment) = text.strip_prefix("/*") {
            comment.split_once("*/").map_or("", |(_, rest)| rest)
        } else {
            return text;
        };
    }
}

/// Seconds by which the two clocks may differ (RFC 8945 s10).
const FUDGE_S: u16 = 300;
/// Largest key file. A key of 512 bits takes some 200 octets, and the file may have comments.
const MAX_OCTETS: usize = 64 * 1024;
/// Permission bits that a file with a secret must not have.
const OF_OTHERS: u32 = 0o077;

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Output of `tsig-keygen moorline`.
    const WRITTEN: &str = "key \"moorline\" {\n\talgorithm hmac-sha256;\n\tsecret \"MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTI=\";\n};\n";

    fn parse(text: &str) -> Result<Key, KeyError> {
        Key::parse(text, Path::new("k"))
    }

    #[test]
    fn what_tsig_keygen_writes_is_read() {
        let key = parse(WRITTEN).expect("a key");
        assert_eq!(key.name().to_string(), "moorline.");
        assert_eq!(key.signer().key(), b"12345678901234567890123456789012");
        assert_eq!(*key.signer().algorithm(), TsigAlgorithm::HmacSha256);
        assert!(!format!("{key:?}").contains("1234"));
    }

    #[test]
    fn comments_and_other_spellings_of_it_are_read_as_well() {
        let text = "# mine\n// or /* not\n/* ; } */ key host1.example.com.{secret aGVsbG8=;algorithm \"HMAC-SHA512.\";}";
        let key = parse(text).expect("a key");
        assert_eq!(key.name().to_string(), "host1.example.com.");
        assert_eq!(*key.signer().algorithm(), TsigAlgorithm::HmacSha512);
    }

    #[test]
    fn what_is_wrong_is_told_without_the_secret() {
        for (text, says) in [
            ("", "ends too early"),
            ("-----BEGIN PRIVATE KEY-----", "begin with `key`"),
            ("key a { algorithm hmac-sha256; };", "secret lacks"),
            ("key a { secret aGVsbG8=; };", "algorithm lacks"),
            ("key a { algorithm hmac-sha256; secret aGVsbG8=;", "ends too early"),
            ("key a { algorithm hmac-sha256; secret aGVsbG8; };", "base64"),
            ("key a { algorithm hmac-sha256; secret \"\"; };", "empty"),
            ("key a { algorithm hmac-sha256; secret \"aGVsbG8=; };", "ends too early"),
            ("key a { algorithm hmac-md5; secret aGVsbG8=; };", "hmac-md5 is not supported"),
            ("key a { algorithm x; algorithm y; secret aGVsbG8=; };", "twice"),
            ("key a { server 1.2.3.4; };", "nothing else"),
            ("key \"\" { algorithm hmac-sha256; secret aGVsbG8=; };", "domain name"),
        ] {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.contains(says) && !error.contains("aGVsbG8"), "{text}: {error}");
        }
        let two = format!("{WRITTEN}{WRITTEN}");
        assert!(parse(&two).expect_err("two").to_string().contains("more than one"));
    }

    #[test]
    fn a_key_that_others_may_read_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("key");
        fs::write(&path, WRITTEN).expect("written");
        for mode in [0o644, 0o640, 0o604, 0o620] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("mode");
            let error = Key::read(&path).expect_err("open").to_string();
            assert!(error.ends_with(&format!("chmod 600 {}", path.display())), "{error}");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("mode");
        assert!(Key::read(&path).is_ok());
        assert!(matches!(
            Key::read(folder.path()),
            Err(KeyError::Mode { .. } | KeyError::Read { .. })
        ));
        assert!(matches!(Key::read(&folder.path().join("no")), Err(KeyError::Read { .. })));
    }
}
