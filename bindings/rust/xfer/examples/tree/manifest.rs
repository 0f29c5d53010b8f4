// SPDX-License-Identifier: Apache-2.0
//! The list of what a tree consists of, and where in the data the bytes of each file are.
//!
//! On the wire, little-endian: "xfertre2", u64 entries, u64 bytes of data, u64 bytes on the disk,
//! then for each entry u64 offset, u64 size, i64 seconds, u32 nanoseconds, u16 kind, u16 mode, u32
//! bytes of the path with its NUL, u32 bytes of a link's target with its NUL, path, target.
//!
//! Directories come first, each behind the one that it lies in, by their bytes; then links; then
//! files, whose offsets rise and which do not overlap.

use std::collections::HashSet;

pub const MANIFEST: &str = "tree/manifest";
pub const DATA: &str = "tree/data";

const MAGIC: &[u8; 8] = b"xfertre2";
const PATH_LIMIT: usize = 4096; // with its NUL
const SECOND: u32 = 1_000_000_000; // in nanoseconds

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    Directory,
    Link,
    File,
}

/// In the order of a manifest.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Entry {
    pub kind: Kind,
    /// Relative to the root of the tree.
    pub path: Vec<u8>,
    /// Permission bits.
    pub mode: u32,
    /// Of the last modification, since 1970.
    pub seconds: i64,
    pub nanoseconds: u32,
    /// Of a file's bytes in the data.
    pub offset: u64,
    pub size: u64,
    /// Of a link; else empty.
    pub target: Vec<u8>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tree {
    pub entries: Vec<Entry>,
    /// Bytes of the data.
    pub length: u64,
    /// Bytes that the files take at the server.
    pub disk: u64,
}

impl Tree {
    pub fn files(&self) -> &[Entry] {
        let first = self.entries.partition_point(|entry| entry.kind < Kind::File);
        &self.entries[first..]
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        for number in [self.entries.len() as u64, self.length, self.disk] {
            out.extend(number.to_le_bytes());
        }
        for entry in &self.entries {
            out.extend(entry.offset.to_le_bytes());
            out.extend(entry.size.to_le_bytes());
            out.extend(entry.seconds.to_le_bytes());
            out.extend(entry.nanoseconds.to_le_bytes());
            out.extend((entry.kind as u16).to_le_bytes());
            out.extend((entry.mode as u16).to_le_bytes());
            let texts = [&entry.path, &entry.target].map(|text| match text.as_slice() {
                [] => Vec::new(),
                text => [text, b"\0"].concat(),
            });
            texts.iter().for_each(|text| out.extend((text.len() as u32).to_le_bytes()));
            texts.iter().for_each(|text| out.extend(text));
        }
        out
    }

    /// Reads a manifest that came from a peer, and believes nothing of it.
    ///
    /// # Errors
    /// Says what is wrong.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        let mut rest = bytes;
        let header = take(&mut rest).filter(|magic| magic == MAGIC).and_then(|_| {
            let mut number = || take(&mut rest).map(u64::from_le_bytes);
            Some((number()?, number()?, number()?))
        });
        let (count, length, disk) = header.ok_or("that is no manifest of this version")?;
        let mut tree = Tree { entries: Vec::new(), length, disk };
        let (mut directories, mut floor) = (HashSet::from([Vec::new()]), 0);
        for i in 0..count {
            let wrong = || format!("the manifest is malformed or has an unsafe path, at entry {i}");
            let entry = decode_entry(&mut rest).ok_or_else(wrong)?;
            let (parent, last) = (parent(&entry.path), tree.entries.last());
            if !directories.contains(parent) || !follows(last, &entry, floor, length) {
                return Err(wrong());
            }
            match entry.kind {
                Kind::Directory => drop(directories.insert(entry.path.clone())),
                Kind::Link => {}
                Kind::File => floor = entry.offset + entry.size,
            }
            tree.entries.push(entry);
        }
        Ok(tree)
    }
}

/// The next bytes of `from`.
fn take<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    split(from, N)?.try_into().ok()
}

fn split<'a>(from: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let first = from.get(..length)?;
    *from = &from[length..];
    Some(first)
}

/// A text with its NUL, and none before.
fn take_text(from: &mut &[u8], length: usize) -> Option<Vec<u8>> {
    let (last, text) = split(from, length)?.split_last()?;
    let whole = *last == 0 && !text.is_empty() && length <= PATH_LIMIT && !text.contains(&0);
    whole.then(|| text.to_vec())
}

fn decode_entry(from: &mut &[u8]) -> Option<Entry> {
    let (offset, size) = (u64::from_le_bytes(take(from)?), u64::from_le_bytes(take(from)?));
    let seconds = i64::from_le_bytes(take(from)?);
    let nanoseconds = u32::from_le_bytes(take(from)?);
    let kind = match u16::from_le_bytes(take(from)?) {
        0 => Kind::Directory,
        1 => Kind::Link,
        2 => Kind::File,
        _ => return None,
    };
    let mode = u32::from(u16::from_le_bytes(take(from)?)) & 0o777; // never set-uid
    let (path, target) = (u32::from_le_bytes(take(from)?), u32::from_le_bytes(take(from)?));
    let path = take_text(from, path as usize)?;
    let target = match (kind, target) {
        (Kind::Link, length) => take_text(from, length as usize)?,
        (_, 0) => Vec::new(),
        _ => return None,
    };
    // It stays inside: relative, with no empty, "." or ".." component.
    let unsafe_part = |part: &[u8]| matches!(part, b"" | b"." | b"..");
    let sound = nanoseconds < SECOND && !path.split(|byte| *byte == b'/').any(unsafe_part);
    sound.then_some(Entry { kind, path, mode, seconds, nanoseconds, offset, size, target })
}

/// The path of the directory that it lies in.
fn parent(path: &[u8]) -> &[u8] {
    path.iter().rposition(|byte| *byte == b'/').map_or(b"", |slash| &path[..slash])
}

/// Whether the entry may come after `last`, where the file before it ends at `floor`.
fn follows(last: Option<&Entry>, entry: &Entry, floor: u64, length: u64) -> bool {
    if entry.kind == Kind::File {
        let end = entry.offset.checked_add(entry.size);
        return entry.offset >= floor && end.is_some_and(|end| end <= length);
    }
    let place = |entry: &Entry| (entry.kind, entry.path.clone());
    let rises = last.map_or(true, |last| place(last) < place(entry));
    rises && entry.offset == 0 && entry.size == 0
}

#[cfg(test)]
mod tests {
    use super::{Entry, Kind, Tree};

    fn entry(kind: Kind, path: &str) -> Entry {
        let target = if kind == Kind::Link { b"elsewhere".to_vec() } else { Vec::new() };
        let path = path.into();
        Entry { kind, path, mode: 0o640, seconds: -7, nanoseconds: 5, offset: 0, size: 0, target }
    }

    fn file(path: &str, offset: u64, size: u64) -> Entry {
        Entry { offset, size, ..entry(Kind::File, path) }
    }

    fn whole() -> Tree {
        let directories = ["a", "a/b"].map(|path| entry(Kind::Directory, path));
        let files = [file("a/b/one", 0, 3), file("empty", 3, 0), file("two", 4, 6)];
        let link = [entry(Kind::Link, "a/link")];
        let entries = [&directories[..], &link, &files].concat();
        Tree { entries, length: 10, disk: 4096 }
    }

    #[test]
    fn a_tree_comes_back() {
        let tree = whole();
        assert_eq!(Tree::decode(&tree.encode()).unwrap(), tree);
        assert_eq!(tree.files().len(), 3);
    }

    #[test]
    fn what_is_cut_off_is_refused() {
        let bytes = whole().encode();
        for length in 0..bytes.len() {
            assert!(Tree::decode(&bytes[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn what_leads_elsewhere_is_refused() {
        let paths = ["/etc", "..", "a/../b", "./a", "a//b", "a/", "c/d", "a/link/x", "a\0b", ""];
        for path in paths {
            let mut tree = whole();
            tree.entries.push(file(path, 10, 0));
            assert!(Tree::decode(&tree.encode()).is_err(), "{path:?}");
        }
    }

    #[test]
    fn what_is_out_of_order_or_outside_is_refused() {
        let wrong = [
            entry(Kind::Directory, "z"), // behind a file
            file("three", 9, 1),         // overlaps
            file("three", 10, 1),
            file("three", u64::MAX, 2),
            Entry { nanoseconds: super::SECOND, ..file("three", 10, 0) },
            Entry { target: b"x".to_vec(), ..file("three", 10, 0) },
        ];
        for entry in wrong {
            let mut tree = whole();
            tree.entries.push(entry.clone());
            assert!(Tree::decode(&tree.encode()).is_err(), "{entry:?}");
        }
        let mut twice = whole();
        twice.entries.insert(1, twice.entries[0].clone());
        assert!(Tree::decode(&twice.encode()).is_err());
    }

    #[test]
    fn permissions_are_all_that_is_taken_of_a_mode() {
        let mut tree = whole();
        tree.entries[0].mode = 0o7755;
        assert_eq!(Tree::decode(&tree.encode()).unwrap().entries[0].mode, 0o755);
    }
}
