use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::types::Context;

/// Query of `GET /v1/contexts`: one page of the list, which is in order of [`Place`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextsQuery {
    /// Largest number of entries: 1 at least, [`MAX_PAGE`] by default and at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// Place of the last entry of the page before. None: the first page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Place>,
}

impl ContextsQuery {
    /// Largest number of entries in the answer.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit.unwrap_or(MAX_PAGE).clamp(1, MAX_PAGE)
    }

    /// Path and query of the request.
    #[must_use]
    pub fn to_path(&self) -> String {
        let limit = self.limit.map(|limit| format!("limit={limit}"));
        let after = self.after.map(|after| format!("after={after}"));
        let query = [limit, after].into_iter().flatten().collect::<Vec<_>>().join("&");
        let separator = if query.is_empty() { "" } else { "?" };
        format!("{}{separator}{query}", crate::paths::CONTEXTS)
    }
}

/// Query of `GET /v1/paths`, of `GET /v1/ilcc`, and of each `POST` about paths: one page of a list in order of the
/// numbers of its entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumbersQuery {
    /// Largest number of entries: 1 at least, [`MAX_PAGE`] by default and at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// Number of the last entry of the page before. None: the first page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<u32>,
}

impl NumbersQuery {
    /// Largest number of entries in the answer.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit.unwrap_or(MAX_PAGE).clamp(1, MAX_PAGE)
    }

    /// Request of this page of the list at `path`.
    #[must_use]
    pub fn to_path(&self, path: &str) -> String {
        let limit = self.limit.map(|limit| format!("limit={limit}"));
        let after = self.after.map(|after| format!("after={after}"));
        let query = [limit, after].into_iter().flatten().collect::<Vec<_>>().join("&");
        let separator = if query.is_empty() { "" } else { "?" };
        format!("{path}{separator}{query}")
    }
}

/// Place of an entry in the list of contexts: `ID,ULID,ULID`, our ULID first. Entries without a number come last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Place {
    /// [`Context::id`].
    pub id: u32,
    /// [`Context::ulid_local`].
    pub ulid_local: Ipv6Addr,
    /// [`Context::ulid_peer`].
    pub ulid_peer: Ipv6Addr,
}

impl Place {
    /// Returns the place of an entry.
    #[must_use]
    pub const fn of(context: &Context) -> Self {
        Self { id: context.id, ulid_local: context.ulid_local, ulid_peer: context.ulid_peer }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{},{}", self.id, self.ulid_local, self.ulid_peer)
    }
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text} is not ID,ULID,ULID");
        let [id, local, peer] = *text.split(',').collect::<Vec<_>>() else { return Err(wrong()) };
        Ok(Self {
            id: id.parse().map_err(|_| wrong())?,
            ulid_local: local.parse().map_err(|_| wrong())?,
            ulid_peer: peer.parse().map_err(|_| wrong())?,
        })
    }
}

impl TryFrom<String> for Place {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Place> for String {
    fn from(place: Place) -> Self {
        place.to_string()
    }
}

/// Largest number of entries in one answer to `GET /v1/contexts`, `/v1/paths` and `/v1/ilcc`, and of contexts that one
/// `POST` about paths reaches; about 1 MB.
pub const MAX_PAGE: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_is_written_and_nothing_else_is_a_place() {
        let place: Place = "7,2001:db8::1,2001:db8::2".parse().unwrap();
        assert_eq!((place.id, place.to_string().as_str()), (7, "7,2001:db8::1,2001:db8::2"));
        for wrong in ["", "7", "7,2001:db8::1", "x,::1,::2", "7,::1,::2,::3"] {
            wrong.parse::<Place>().unwrap_err();
        }
    }

    #[test]
    fn no_answer_is_longer_than_a_page() {
        let asked = |limit| ContextsQuery { limit, after: None }.limit();
        assert_eq!([None, Some(5), Some(1 << 20)].map(asked), [MAX_PAGE, 5, MAX_PAGE]);
        let asked = |limit| NumbersQuery { limit, after: None }.limit();
        assert_eq!([None, Some(0), Some(1 << 20)].map(asked), [MAX_PAGE, 1, MAX_PAGE]);
    }

    #[test]
    fn a_page_by_numbers_is_asked_for_by_its_path() {
        let asked = |limit, after| NumbersQuery { limit, after }.to_path("/v1/paths");
        assert_eq!(asked(None, None), "/v1/paths");
        assert_eq!(asked(Some(5), Some(7)), "/v1/paths?limit=5&after=7");
    }
}
