// SPDX-License-Identifier: Apache-2.0
//! Brings a tree over: gets of the data, several at once, whose bytes become files as they come.

use crate::manifest::{Entry, Kind, Tree, DATA, MANIFEST};
use crate::progress::Progress;
use crate::{path, Result};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{symlink, DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use xfer::{Endpoint, Operation, Ref};

const MANIFEST_LIMIT: u64 = 1 << 30;
const GET: u64 = 4 << 20; // bytes of one get
const UNDER_WAY: usize = 8; // gets at once
const LOOK: Duration = Duration::from_millis(200); // how often whether it is to stop

/// Waits for the end of an operation. If the program is to stop, it is dropped by the caller, which
/// cancels it; its buffer is kept as long as the library uses it.
fn wait<T>(mut operation: Operation<T>) -> Result<T> {
    loop {
        if crate::stopped() {
            return Err("interrupted".into());
        }
        if let Some(end) = operation.wait_for(LOOK) {
            return Ok(end);
        }
    }
}

/// Brings the tree of `server` to `destination`, which must not exist or be an empty directory. It
/// is there when it is whole; until then it is `destination` with ".part" behind it.
pub fn fetch(server: &Endpoint, destination: &Path) -> Result<Tree> {
    let limit = Duration::from_secs(5);
    let manifest = wait(server.within(limit).lookup(MANIFEST))??.name;
    let length = manifest.info()?.length;
    if length > MANIFEST_LIMIT {
        return Err(format!("a manifest of {length} bytes is too large").into());
    }
    let (moved, bytes) = wait(server.get(vec![0u8; usize::try_from(length)?], &manifest, 0))?;
    moved?;
    let tree = Tree::decode(&bytes)?;
    let data = wait(server.within(limit).lookup(DATA))??.name;
    if data.info()?.length < tree.length {
        return Err("the data is shorter than the manifest says".into());
    }
    let partial = Partial::create(destination)?;
    copy(server, &data, &tree, &partial.path)?;
    partial.complete(destination)?;
    Ok(tree)
}

fn copy(server: &Endpoint, data: &Ref, tree: &Tree, root: &Path) -> Result<()> {
    let mut writer = Writer::begin(root, tree)?;
    let mut progress = Progress::begin(tree.length);
    let (mut under_way, mut spare) = (VecDeque::new(), Vec::new());
    let (mut asked, mut come) = (0, 0);
    while come < tree.length {
        while asked < tree.length && under_way.len() < UNDER_WAY {
            let length = GET.min(tree.length - asked);
            let mut buffer: Vec<u8> = spare.pop().unwrap_or_default();
            buffer.resize(usize::try_from(length)?, 0);
            under_way.push_back(server.get(buffer, data, asked));
            asked += length;
        }
        let (moved, buffer) = wait(under_way.pop_front().expect("bytes are still to come"))?;
        moved?;
        writer.write(come, &buffer)?;
        come += buffer.len() as u64;
        progress.show(come);
        spare.push(buffer);
    }
    Ok(writer.finish()?)
}

/// Where a fetch writes. Dropped before it is complete, it is removed.
struct Partial {
    path: PathBuf,
}

impl Partial {
    fn create(destination: &Path) -> Result<Self> {
        let name = destination.file_name();
        let name = name.ok_or_else(|| format!("{} has no name", destination.display()))?;
        let there = match fs::read_dir(destination) {
            Err(error) if error.kind() == ErrorKind::NotFound => 0,
            found => found.map_err(|error| format!("{}: {error}", destination.display()))?.count(),
        };
        if there > 0 {
            return Err(format!("{} is not empty", destination.display()).into());
        }
        let mut partial = OsString::from(name);
        partial.push(".part");
        let path = destination.with_file_name(partial);
        // Only ours until it is complete: modes come last.
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Partial { path })
    }

    /// Moves what was fetched to its place.
    fn complete(mut self, destination: &Path) -> Result<()> {
        fs::set_permissions(&self.path, Permissions::from_mode(0o755))?;
        fs::rename(&self.path, destination)
            .map_err(|error| format!("{}: {error}", destination.display()))?;
        self.path.clear();
        Ok(())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.path.as_os_str().is_empty() {
            drop(fs::remove_dir_all(&self.path)); // the error that led here is told
        }
    }
}

/// Makes files of the bytes, which come in order.
struct Writer<'a> {
    root: &'a Path,
    tree: &'a Tree,
    rest: &'a [Entry], // files that are not complete
    open: Option<File>,
}

impl<'a> Writer<'a> {
    fn begin(root: &'a Path, tree: &'a Tree) -> io::Result<Self> {
        for entry in tree.entries.iter().filter(|entry| entry.kind == Kind::Directory) {
            DirBuilder::new().mode(0o700).create(root.join(path(&entry.path)))?;
        }
        Ok(Writer { root, tree, rest: tree.files(), open: None })
    }

    /// `bytes` are those at `start` of the data.
    fn write(&mut self, start: u64, bytes: &[u8]) -> io::Result<()> {
        let end = start + bytes.len() as u64;
        while let Some((entry, rest)) = self.rest.split_first() {
            let last = entry.offset + entry.size;
            if entry.offset >= end {
                break;
            }
            let mut file = self.file(entry)?;
            let (from, to) = (entry.offset.max(start), last.min(end));
            file.write_all(&bytes[(from - start) as usize..(to - start) as usize])?;
            if last > end {
                self.open = Some(file);
                break;
            }
            set(&file, entry)?;
            self.rest = rest;
        }
        Ok(())
    }

    /// Makes what has no bytes, then links, then modes and times of directories: nothing is written
    /// through a link, or into a directory that may not be written any more.
    fn finish(mut self) -> io::Result<()> {
        for entry in std::mem::take(&mut self.rest) {
            set(&self.file(entry)?, entry)?;
        }
        let of = |kind| self.tree.entries.iter().filter(move |entry| entry.kind == kind);
        for link in of(Kind::Link) {
            symlink(path(&link.target), self.root.join(path(&link.path)))?;
        }
        let directories = of(Kind::Directory).collect::<Vec<_>>();
        for directory in directories.into_iter().rev() {
            set(&File::open(self.root.join(path(&directory.path)))?, directory)?;
        }
        Ok(())
    }

    fn file(&mut self, entry: &Entry) -> io::Result<File> {
        let new = || File::create_new(self.root.join(path(&entry.path)));
        self.open.take().map_or_else(new, Ok)
    }
}

/// Gives what was written its mode and time.
fn set(file: &File, entry: &Entry) -> io::Result<()> {
    let second = Duration::from_secs(entry.seconds.unsigned_abs());
    let time = match entry.seconds {
        0.. => SystemTime::UNIX_EPOCH.checked_add(second),
        _ => SystemTime::UNIX_EPOCH.checked_sub(second),
    };
    let nanoseconds = Duration::from_nanos(entry.nanoseconds.into());
    let time = time.and_then(|time| time.checked_add(nanoseconds));
    file.set_modified(time.ok_or(ErrorKind::InvalidData)?)?;
    file.set_permissions(Permissions::from_mode(entry.mode))
}
