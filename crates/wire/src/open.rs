//! How the numbers of the wire become types: a newtype that holds any value a peer may send, with constants for the
//! values the specification names.

/// Declares an open enumeration: a newtype over an integer with named constants. `name()` gives a constant's name.
macro_rules! numbers {
    ($(#[$meta:meta])* $name:ident($inner:ty) { $($(#[$doc:meta])* $constant:ident = $value:expr,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
        pub struct $name(pub $inner);

        impl $name {
            $(
                $(#[$doc])*
                #[doc = concat!("(`", stringify!($value), "`)")]
                pub const $constant: $name = $name($value);
            )*

            /// The constant's name, or `None` for a value the specification does not name.
            pub fn name(self) -> Option<&'static str> {
                match self {
                    $($name::$constant => Some(stringify!($constant)),)*
                    _ => None,
                }
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self.name() {
                    Some(name) => f.write_str(name),
                    None => write!(f, concat!(stringify!($name), "({:#x})"), self.0),
                }
            }
        }

        impl From<$inner> for $name {
            fn from(value: $inner) -> Self {
                $name(value)
            }
        }

        impl From<$name> for $inner {
            fn from(value: $name) -> Self {
                value.0
            }
        }
    };
}

/// Declares a set of flags: a newtype over an integer with named bits, `|`, `&`, `contains`, `intersects`, `without`.
macro_rules! flags {
    ($(#[$meta:meta])* $name:ident($inner:ty) { $($(#[$doc:meta])* $constant:ident = $value:expr,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
        pub struct $name(pub $inner);

        impl $name {
            /// No bit set.
            pub const NONE: $name = $name(0);
            $(
                $(#[$doc])*
                #[doc = concat!("(`", stringify!($value), "`)")]
                pub const $constant: $name = $name($value);
            )*

            /// True when every bit of `other` is set.
            pub const fn contains(self, other: $name) -> bool {
                self.0 & other.0 == other.0
            }

            /// True when any bit of `other` is set.
            pub const fn intersects(self, other: $name) -> bool {
                self.0 & other.0 != 0
            }

            /// True when no bit is set.
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }

            /// These bits and those of `other`; `|` for constants.
            pub const fn union(self, other: $name) -> $name {
                $name(self.0 | other.0)
            }

            /// These bits less those of `other`.
            pub const fn without(self, other: $name) -> $name {
                $name(self.0 & !other.0)
            }
        }

        impl std::ops::BitOr for $name {
            type Output = $name;

            fn bitor(self, other: $name) -> $name {
                $name(self.0 | other.0)
            }
        }

        impl std::ops::BitOrAssign for $name {
            fn bitor_assign(&mut self, other: $name) {
                self.0 |= other.0;
            }
        }

        impl std::ops::BitAnd for $name {
            type Output = $name;

            fn bitand(self, other: $name) -> $name {
                $name(self.0 & other.0)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!(stringify!($name), "({:#x})"), self.0)
            }
        }

        impl From<$inner> for $name {
            fn from(value: $inner) -> Self {
                $name(value)
            }
        }

        impl From<$name> for $inner {
            fn from(value: $name) -> Self {
                value.0
            }
        }
    };
}
