// SPDX-License-Identifier: Apache-2.0
//! Lends a tree: its files are copied into memory of the library's, which peers of this host map.

use crate::manifest::{Entry, Kind, Tree, DATA, MANIFEST};
use crate::Result;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use xfer::{Access, Engine, Memory, Region, RegionOptions};

const PIECE: usize = 1 << 20; // bytes copied at once

/// A tree, as long as it is lent.
pub struct Lent {
    pub tree: Tree,
    _regions: [Region; 2],
}

/// Lends `directory`. What is neither a file, a directory nor a link, or may not be read, is left
/// out.
pub fn lend(engine: &Engine, directory: &Path) -> Result<Lent> {
    let mut tree = Tree { entries: Vec::new(), length: 0, disk: 0 };
    list(directory, Path::new(""), &mut tree)
        .map_err(|error| format!("{}: {error}", directory.display()))?;
    tree.entries.sort();
    let room: u64 = tree.files().iter().map(|file| file.size).sum();
    let named = |name| RegionOptions::named(name, Access::READ);
    let data = engine.region_alloc(usize::try_from(room.max(1))?, &named(DATA))?;
    copy(directory, &mut tree, data.memory())?;
    tree.length = tree.length.max(1); // no region is empty
    let manifest = engine.region(tree.encode(), &named(MANIFEST))?;
    Ok(Lent { tree, _regions: [data, manifest] })
}

fn list(root: &Path, below: &Path, tree: &mut Tree) -> Result<()> {
    for found in fs::read_dir(root.join(below))? {
        let found = found?;
        let (path, info) = (below.join(found.file_name()), found.metadata()?); // not of a link's target
        let kind = match info.file_type() {
            kind if kind.is_dir() => Kind::Directory,
            kind if kind.is_symlink() => Kind::Link,
            kind if kind.is_file() => Kind::File,
            _ => continue,
        };
        let target = if kind == Kind::Link { fs::read_link(found.path())? } else { PathBuf::new() };
        tree.entries.push(Entry {
            kind,
            path: path.as_os_str().as_bytes().to_vec(),
            mode: info.mode() & 0o777,
            seconds: info.mtime(),
            nanoseconds: u32::try_from(info.mtime_nsec())?,
            offset: 0,
            size: if kind == Kind::File { info.size() } else { 0 },
            target: target.into_os_string().into_vec(),
        });
        match kind {
            Kind::Directory => list(root, &path, tree)?,
            Kind::Link => {}
            Kind::File => tree.disk += info.blocks() * 512,
        }
    }
    Ok(())
}

/// Copies the files one behind the other; one that has become shorter is taken as it is now.
fn copy(root: &Path, tree: &mut Tree, data: &Memory) -> Result<()> {
    let (mut kept, mut piece) = (Vec::new(), vec![0; PIECE]);
    for mut entry in std::mem::take(&mut tree.entries) {
        if entry.kind == Kind::File {
            let mut file = match File::open(root.join(crate::path(&entry.path))) {
                Err(error) if error.kind() == ErrorKind::PermissionDenied => continue,
                file => file?.take(entry.size),
            };
            entry.offset = tree.length;
            loop {
                let length = file.read(&mut piece)?;
                if length == 0 {
                    break;
                }
                data.write(usize::try_from(tree.length)?, &piece[..length]);
                tree.length += length as u64;
            }
            entry.size = tree.length - entry.offset;
        }
        kept.push(entry);
    }
    tree.entries = kept;
    Ok(())
}
