/// Defines an enum whose values have names, for metrics, JSON and logs. Each value is followed by its number, if it has
/// one, and by its name.
#[macro_export]
macro_rules! named_enum {
    (
        $(#[$attribute:meta])*
        pub enum $Enum:ident {
            $($(#[$doc:meta])* $name:ident $(= $number:literal)? => $text:literal,)*
        }
    ) => {
        $(#[$attribute])*
        pub enum $Enum {
            $($(#[$doc])* $name $(= $number)?,)*
        }

        impl $Enum {
            /// All values, in their order.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Name of the value.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            /// The value of this name.
            #[must_use]
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|one| one.as_str() == name)
            }
        }

        impl core::fmt::Display for $Enum {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
