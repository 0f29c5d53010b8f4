// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"xfer"
)

// lent is a tree that peers can fetch, until Close.
type lent struct {
	tree    tree
	memory  []byte // maps the bytes of all files
	regions []*xfer.Region
}

// lend copies the files of a directory, one behind the other, into an unlinked file, and lends that.
func lend(engine *xfer.Engine, root string) (*lent, error) {
	spool, err := os.CreateTemp("", "tree")
	if err != nil {
		return nil, err
	}
	defer spool.Close() // the mapping keeps it
	if err := os.Remove(spool.Name()); err != nil {
		return nil, err
	}
	l := &lent{}
	if l.tree, err = pack(root, spool); err != nil {
		return nil, err
	}
	l.memory, err = syscall.Mmap(int(spool.Fd()), 0, int(l.tree.bytes), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	for name, memory := range map[string][]byte{dataName: l.memory, manifestName: l.tree.encode()} {
		region, err := engine.Lend(memory, xfer.RegionOptions{Name: name, Access: xfer.Read})
		if err != nil {
			return nil, errors.Join(err, l.Close())
		}
		l.regions = append(l.regions, region)
	}
	return l, nil
}

// Close returns when nobody reads the tree any more.
func (l *lent) Close() error {
	var errs []error
	for _, region := range l.regions {
		errs = append(errs, region.Close())
	}
	return errors.Join(append(errs, syscall.Munmap(l.memory))...)
}

// pack writes the bytes of all files to the spool. What may not be read, and special files, are left out.
func pack(root string, spool *os.File) (t tree, err error) {
	found, err := list(root)
	if err != nil {
		return t, err
	}
	for _, e := range found {
		if e.kind == file {
			e.offset = t.bytes
			source, err := os.Open(filepath.Join(root, e.path))
			if errors.Is(err, fs.ErrPermission) {
				continue
			} else if err != nil {
				return t, err
			}
			copied, err := io.Copy(spool, source)
			source.Close()
			if err != nil {
				return t, err
			}
			e.size = uint64(copied)
			t.bytes, t.disk = t.bytes+e.size, t.disk+e.disk
		}
		t.entries = append(t.entries, e)
	}
	t.bytes = max(t.bytes, 1) // no region is empty
	return t, spool.Truncate(int64(t.bytes))
}
