//! Fixed structures, declared field by field in the order of the wire.

use crate::codec::{Malformed, Reader, Writer};

/// A field of fixed length.
pub(crate) trait Field: Sized {
    /// Its length in bytes.
    const LENGTH: usize;

    /// Reads it.
    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed>;

    /// Writes it.
    fn write(&self, writer: &mut Writer<'_>);
}

macro_rules! integer_field {
    ($($type:ident),*) => {
        $(impl Field for $type {
            const LENGTH: usize = size_of::<$type>();

            fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
                reader.$type()
            }

            fn write(&self, writer: &mut Writer<'_>) {
                writer.$type(*self);
            }
        })*
    };
}

integer_field!(u8, u16, u32, u64);

/// MS-FSCC 2.1.8: zero is false, every other value true.
impl Field for bool {
    const LENGTH: usize = 1;

    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(reader.u8()? != 0)
    }

    fn write(&self, writer: &mut Writer<'_>) {
        writer.u8(u8::from(*self));
    }
}

impl<const N: usize> Field for [u8; N] {
    const LENGTH: usize = N;

    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        reader.array()
    }

    fn write(&self, writer: &mut Writer<'_>) {
        writer.bytes(self);
    }
}

/// Makes an open newtype over an integer usable as a field.
macro_rules! newtype_field {
    ($($type:ty => $inner:ty),* $(,)?) => {
        $(impl $crate::fscc::layout::Field for $type {
            const LENGTH: usize = size_of::<$inner>();

            fn read(reader: &mut $crate::codec::Reader<'_>) -> Result<Self, $crate::Malformed> {
                Ok(Self(<$inner as $crate::fscc::layout::Field>::read(reader)?))
            }

            fn write(&self, writer: &mut $crate::codec::Writer<'_>) {
                <$inner as $crate::fscc::layout::Field>::write(&self.0, writer);
            }
        })*
    };
}

newtype_field!(
    crate::fscc::FileAttributes => u32,
    crate::ids::FileTime => u64,
    crate::ids::Guid => [u8; 16],
    crate::ids::Dialect => u16,
);

impl Field for crate::ids::FileId {
    const LENGTH: usize = Self::LENGTH;

    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Self::decode(reader)
    }

    fn write(&self, writer: &mut Writer<'_>) {
        self.encode(writer);
    }
}

/// Declares a structure of fixed length. `reserved n` after a field stands for bytes that are zero when written and
/// passed over when read.
macro_rules! layout {
    ($(
        $(#[$meta:meta])*
        pub struct $name:ident {
            $($(#[$field_meta:meta])* pub $field:ident: $type:ty $(, reserved $reserved:literal)?;)*
        }
    )*) => {
        $(
            $(#[$meta])*
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
            pub struct $name {
                $($(#[$field_meta])* pub $field: $type,)*
            }

            impl $name {
                /// Its length on the wire, in bytes.
                pub const LENGTH: usize =
                    0 $(+ <$type as $crate::fscc::layout::Field>::LENGTH $(+ $reserved)?)*;

                /// Reads it from the start of `bytes`; what follows is ignored.
                pub fn decode(bytes: &[u8]) -> Result<Self, $crate::Malformed> {
                    <Self as $crate::fscc::layout::Field>::read(&mut $crate::codec::Reader::new(bytes))
                }

                /// Appends it to `out`.
                pub fn encode(&self, out: &mut Vec<u8>) {
                    <Self as $crate::fscc::layout::Field>::write(self, &mut $crate::codec::Writer::new(out));
                }
            }

            impl $crate::fscc::layout::Field for $name {
                const LENGTH: usize = Self::LENGTH;

                fn read(reader: &mut $crate::codec::Reader<'_>) -> Result<Self, $crate::Malformed> {
                    Ok(Self {
                        $($field: {
                            let value = <$type as $crate::fscc::layout::Field>::read(reader)?;
                            $(reader.skip($reserved)?;)?
                            value
                        },)*
                    })
                }

                fn write(&self, writer: &mut $crate::codec::Writer<'_>) {
                    $(
                        <$type as $crate::fscc::layout::Field>::write(&self.$field, writer);
                        $(writer.zeros($reserved);)?
                    )*
                }
            }
        )*
    };
}
