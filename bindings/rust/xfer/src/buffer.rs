// SPDX-License-Identifier: Apache-2.0

use std::ffi::c_void;
use std::mem::size_of_val;
use std::sync::Arc;

/// Memory that an operation may be lent to be read: it moves into the operation, and comes back.
///
/// # Safety
/// `start` and `length` are those of initialized bytes, or of memory of a device, which the CPU need
/// not reach; and stay so while nobody touches the value, also when it is moved.
pub unsafe trait Lend: Send + 'static {
    /// Of the first byte.
    fn start(&self) -> *const u8;
    /// In bytes.
    fn length(&self) -> usize;
}

/// Memory that an operation may be lent to be written.
///
/// # Safety
/// As [`Lend`]; whatever bytes are written there make a valid value, and nobody has a reference to
/// them who has not the value.
pub unsafe trait LendMut: Lend {
    /// Of the first byte.
    fn start_mut(&mut self) -> *mut u8;
}

/// Memory that a [`Memory`](crate::Memory) may be made of.
///
/// # Safety
/// As [`LendMut`]; the bytes are initialized ones of the host, and are reached by this value alone.
pub unsafe trait Own: LendMut {}

/// Numbers: types without padding, of which any bytes are a value.
///
/// # Safety
/// It is such a type.
pub unsafe trait Number: Copy + Send + Sync + 'static {}

macro_rules! numbers {
    ($($type:ty),+) => {
        // SAFETY: each is plain bytes.
        $(unsafe impl Number for $type {})+
    };
}
numbers!(u8, i8, u16, i16, u32, i32, u64, i64, u128, i128, usize, isize, f32, f64);

macro_rules! lend {
    ($type:ty $(, $number:ident)?) => {
        // SAFETY: it owns its bytes on the heap, shares them for good, or borrows them for ever.
        unsafe impl $(<$number: Number>)? Lend for $type {
            fn start(&self) -> *const u8 {
                self.as_ptr().cast()
            }
            fn length(&self) -> usize {
                size_of_val::<[_]>(self.as_ref())
            }
        }
    };
}

macro_rules! lend_mut {
    ($type:ty) => {
        lend!($type, T);
        // SAFETY: nobody else has it.
        unsafe impl<T: Number> LendMut for $type {
            fn start_mut(&mut self) -> *mut u8 {
                self.as_mut_ptr().cast()
            }
        }
        // SAFETY: as above.
        unsafe impl<T: Number> Own for $type {}
    };
}

lend_mut!(Vec<T>);
lend_mut!(Box<[T]>);
lend_mut!(&'static mut [T]);
lend!(&'static [T], T);

// SAFETY: what is shared stays where it is.
unsafe impl<T: Number> Lend for Arc<[T]> {
    fn start(&self) -> *const u8 {
        self.as_ptr().cast()
    }
    fn length(&self) -> usize {
        size_of_val::<[T]>(self)
    }
}

// SAFETY: as of its bytes.
unsafe impl Lend for String {
    fn start(&self) -> *const u8 {
        self.as_ptr()
    }
    fn length(&self) -> usize {
        self.len()
    }
}

// SAFETY: as of its bytes.
unsafe impl Lend for &'static str {
    fn start(&self) -> *const u8 {
        self.as_ptr()
    }
    fn length(&self) -> usize {
        self.len()
    }
}

/// What is lent, at its last place, where the pointer is taken.
pub(crate) fn lend<B: Lend>(data: B) -> (Box<B>, *const c_void, u64) {
    let data = Box::new(data);
    let (start, length) = (data.start().cast(), data.length() as u64);
    (data, start, length)
}

pub(crate) fn lend_mut<B: LendMut>(buffer: B) -> (Box<B>, *mut c_void, u64) {
    let mut buffer = Box::new(buffer);
    let (start, length) = (buffer.start_mut().cast(), buffer.length() as u64);
    (buffer, start, length)
}
