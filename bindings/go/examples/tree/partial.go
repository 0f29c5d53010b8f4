// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// partial is a tree that is being written, beside its destination. Links come last, so that no byte goes through one.
type partial struct {
	tree              tree
	root, destination string
}

// begin makes all directories, and all files with their sizes.
func begin(t tree, destination string) (*partial, error) {
	destination = filepath.Clean(destination)
	if there, err := os.ReadDir(destination); err == nil && len(there) > 0 {
		return nil, fmt.Errorf("%s is not empty", destination)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	root, err := os.MkdirTemp(filepath.Dir(destination), ".xfer-")
	if err != nil {
		return nil, err
	}
	p := &partial{t, root, destination}
	for _, e := range t.entries {
		if err := p.create(e); err != nil {
			return nil, errors.Join(err, p.discard())
		}
	}
	return p, nil
}

func (p *partial) path(e entry) string { return filepath.Join(p.root, e.path) }

func (p *partial) create(e entry) error {
	switch e.kind {
	case directory:
		return os.Mkdir(p.path(e), 0o700)
	case file:
		made, err := os.OpenFile(p.path(e), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		return errors.Join(made.Truncate(int64(e.size)), made.Close())
	}
	return nil
}

// complete sets modes and times, and gives the tree its name.
func (p *partial) complete() error {
	for i := len(p.tree.entries) - 1; i >= 0; i-- { // a directory after what it has
		e, err := p.tree.entries[i], error(nil)
		if e.kind == link {
			err = os.Symlink(e.target, p.path(e))
		} else if err = os.Chtimes(p.path(e), e.modified, e.modified); err == nil {
			err = os.Chmod(p.path(e), fs.FileMode(e.mode))
		}
		if err != nil {
			return err
		}
	}
	if err := os.Chmod(p.root, 0o755); err != nil {
		return err
	}
	if err := syscall.Rename(p.root, p.destination); err != nil { // os.Rename refuses to replace an empty directory
		return &os.LinkError{Op: "rename", Old: p.root, New: p.destination, Err: err}
	}
	return nil
}

// discard removes what is not complete.
func (p *partial) discard() error { return os.RemoveAll(p.root) }
