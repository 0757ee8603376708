//! Enumerations whose values have numbers and names.

/// Defines an enumeration with a list of all values and their names, which are those of the variants.
macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($(#[$value_doc:meta])* $value:ident,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$value_doc])* $value,)*
        }

        impl $name {
            /// All of them, each at the place of its number.
            pub const ALL: &[$name] = &[$($name::$value,)*];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self {
                    $($name::$value => stringify!($value),)*
                }
            }
        }
    };
}
