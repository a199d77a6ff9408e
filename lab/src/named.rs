//! Enums whose values have names for people: on the command line, in results, in sentences.

/// Makes an enum with a word for each value. [`std::str::FromStr`] parses the words, and JSON uses them. The
/// documentation of a value is also its description for people.
macro_rules! named {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident { $($(#[doc = $about:literal])* $value:ident = $word:literal,)+ }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        $vis enum $name { $($(#[doc = $about])* $value,)+ }

        impl $name {
            /// All values, in the order in which people see them.
            $vis const ALL: &'static [Self] = &[$(Self::$value),+];

            /// The word of the value.
            #[must_use]
            $vis const fn name(self) -> &'static str {
                match self { $(Self::$value => $word,)+ }
            }

            /// The description of the value: its documentation.
            #[allow(dead_code, reason = "most are shown by their names alone")]
            #[must_use]
            $vis const fn about(self) -> &'static str {
                match self { $(Self::$value => concat!("", $($about),*).trim_ascii_start(),)+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(word: &str) -> Result<Self, String> {
                let found = Self::ALL.iter().copied().find(|one| one.name() == word);
                found.ok_or_else(|| format!("one of {}", [$($word),+].join(", ")))
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }
    };
}
pub(crate) use named;

#[cfg(test)]
mod tests {
    named! {
        /// Two of many.
        enum Fruit {
            /// green, or red
            Apple = "apple",
            BlackCherry = "black-cherry",
        }
    }

    #[test]
    fn a_word_leads_to_its_value_and_back_and_another_one_is_told_which_there_are() {
        for fruit in Fruit::ALL {
            assert_eq!(fruit.name().parse(), Ok(*fruit));
            assert_eq!(serde_json::to_value(fruit).unwrap(), fruit.to_string());
        }
        assert_eq!((Fruit::Apple.about(), Fruit::BlackCherry.about()), ("green, or red", ""));
        assert_eq!("pear".parse::<Fruit>(), Err("one of apple, black-cherry".to_owned()));
    }
}
