//! Local addresses with sockets that are bound to an uplink, as the programs have learned them.

use libbpf_rs::Object;

use crate::error::Result;
use crate::skel::types;
use crate::tables::Table;

/// The table of these addresses, and the word that tells the programs whether the table has entries.
pub(crate) struct Bound {
    pub(crate) uplinks: Table<types::address, u32>,
    is_known: Table<u32, u32>,
}

impl Bound {
    pub(crate) fn of(object: &Object) -> Result<Self> {
        Ok(Self {
            uplinks: Table::of(object, "bound")?,
            is_known: Table::of(object, ".data.bound")?,
        })
    }

    /// Removes the addresses that the host no longer has. If none is left, the programs stop looking.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Table`].
    pub(crate) fn retain(
        &self,
        mut is_ours: impl FnMut(&types::address) -> Result<bool>,
    ) -> Result<()> {
        let mut is_empty = true;
        for address in self.uplinks.keys() {
            if is_ours(&address)? {
                is_empty = false;
            } else {
                self.uplinks.remove(&address)?;
            }
        }
        let is_known = u32::from(!is_empty);
        if self.is_known.lookup(&0)? != Some(is_known) {
            self.is_known.insert(&0, &is_known)?;
        }
        Ok(())
    }

    #[cfg(test)]
    pub(crate) fn is_known(&self) -> bool {
        self.is_known.lookup(&0).unwrap() == Some(1)
    }
}
