// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// list is what a directory has, in the order of a manifest. The same tree has the same list.
func list(root string) ([]entry, error) {
	root, err := filepath.EvalSymlinks(root)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(root); err != nil || !info.IsDir() {
		return nil, errors.Join(err, fmt.Errorf("%s is not a directory", root))
	}
	var found []entry
	err = filepath.WalkDir(root, func(path string, what fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrPermission) && path != root {
			return nil // it is listed, and empty
		} else if err != nil || path == root {
			return err
		}
		e, err := examine(root, path, what)
		if err == nil && e.kind <= file {
			found = append(found, e)
		}
		return err
	})
	slices.SortFunc(found, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.path, b.path))
	})
	return found, err
}

// examine is the entry for a path, without the place of its bytes; of a special file its kind is none of the three.
func examine(root, path string, what fs.DirEntry) (e entry, err error) {
	info, err := what.Info()
	if err != nil {
		return e, err
	}
	if e.path, err = filepath.Rel(root, path); err != nil {
		return e, err
	}
	e.mode, e.modified = uint16(info.Mode().Perm()), info.ModTime()
	switch info.Mode().Type() {
	case fs.ModeDir:
		e.kind = directory
	case fs.ModeSymlink:
		e.kind = link
		e.target, err = os.Readlink(path)
	case 0:
		e.kind = file
		e.disk = 512 * uint64(info.Sys().(*syscall.Stat_t).Blocks)
	default:
		e.kind = file + 1
	}
	return e, err
}
