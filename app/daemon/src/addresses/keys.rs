use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use anyhow::Context as _;
use moorline_addr::{Error, generate_key, read_key, write_key};
use moorline_cga::{KeyFile, PublicKey, Signer};

use crate::config::{AddressSettings, KeySource};

/// Keys of our addresses, by name. Only this type holds private keys, and wipes them on drop.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    files: BTreeMap<String, KeyFile>,
    public: BTreeMap<String, PublicKey>,
}

impl Keys {
    /// Reads the keys that the configuration uses. If an own key does not exist, the function makes it.
    pub(crate) fn open(settings: &AddressSettings, folder: &Path) -> anyhow::Result<Self> {
        let mut keys = Self::default();
        for name in settings.policy.keys_in_use() {
            let source = settings.keys.get(&name).context("a key without a source")?;
            let file = open(source, &name, folder).with_context(|| format!("key \"{name}\""))?;
            keys.public.insert(name.clone(), file.public_key().clone());
            keys.files.insert(name, file);
        }
        Ok(keys)
    }

    pub(crate) fn public(&self) -> &BTreeMap<String, PublicKey> {
        &self.public
    }

    /// Returns the keys that can sign.
    pub(crate) fn signers(&self) -> Vec<&dyn Signer> {
        let signers = self.files.values().filter_map(|file| file.signer().ok());
        signers.map(|key| key as &dyn Signer).collect()
    }

    /// Returns the warnings about keys.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let cannot = |(name, file): (&String, &KeyFile)| {
            let error = file.signer().err()?;
            Some(format!(
                "key \"{name}\" cannot sign, so peers are told of no address but those of one HBA \
                 set: {error}"
            ))
        };
        self.files.iter().filter_map(cannot).collect()
    }
}

fn open(source: &KeySource, name: &str, folder: &Path) -> anyhow::Result<KeyFile> {
    let bits = match source {
        KeySource::File(path) => return Ok(read_key(path)?),
        KeySource::Own { bits } => *bits,
    };
    let path = folder.join(format!("{name}.pem"));
    match read_key(&path) {
        Err(Error::Read { error, .. }) if error.kind() == io::ErrorKind::NotFound => {}
        read => return Ok(read?),
    }
    let key = generate_key(bits)?;
    write_key(&path, &key)?;
    tracing::info!(key = name, bits, path = %path.display(), "made a key");
    Ok(KeyFile::Rsa(key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use moorline_addresses::AddressMode;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_key_is_made_once_for_its_owner_alone_and_shown_to_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let settings = AddressSettings::of(AddressMode::HbaCompatible);
        let made = Keys::open(&settings, folder.path()).unwrap();
        let path = folder.path().join("default.pem");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
        let again = Keys::open(&settings, folder.path()).unwrap();
        assert_eq!(made.public(), again.public());
        assert_eq!(made.signers().len(), 1);
        assert_eq!(made.public()["default"].rsa_bits(), Ok(2048));
        // Longest line of the file, which an error could quote by mistake.
        let pem = fs::read_to_string(&path).unwrap();
        let shown = format!("{made:?}");
        assert!(pem.lines().all(|line| line.starts_with('-') || !shown.contains(line)));
        assert!(shown.contains("bits: 2048"), "{shown}");
    }

    #[test]
    fn no_key_is_made_where_none_is_used() {
        let folder = tempfile::tempdir().unwrap();
        for mode in [AddressMode::Off, AddressMode::Hba] {
            let keys = Keys::open(&AddressSettings::of(mode), folder.path()).unwrap();
            assert!(keys.public().is_empty());
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_is_wrong_with_a_key_file_is_one_sentence_and_nothing_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("default.pem");
        let settings = AddressSettings::of(AddressMode::Cga);
        let said = || format!("{:#}", Keys::open(&settings, folder.path()).unwrap_err());
        fs::write(&path, "hello").unwrap();
        assert_eq!(said(), format!("key \"default\": {}: the key is malformed", path.display()));
        assert_eq!(fs::read_to_string(&path).unwrap(), "hello", "it may be somebody's key");
        fs::remove_file(&path).unwrap();
        let missing = folder.path().join("none");
        let error = format!("{:#}", Keys::open(&settings, &missing).unwrap_err());
        let place = missing.join("default.pem");
        assert_eq!(
            error,
            format!(
                "key \"default\": cannot write {}: No such file or directory (os error 2)",
                place.display()
            )
        );
    }
}
