// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"path"
	"time"
)

// decode believes nothing of what a peer has sent.
func decode(data []byte) (t tree, err error) {
	from, head := bytes.NewReader(data), header{}
	if binary.Read(from, binary.LittleEndian, &head) != nil || head.Magic != magic {
		return t, errors.New("that is no manifest of this version")
	}
	t.bytes, t.disk = head.Bytes, head.Disk
	directories := map[string]bool{".": true}
	for i := range head.Entries {
		e, err := decodeEntry(from)
		if err == nil {
			err = t.fits(e, directories)
		}
		if err != nil {
			return tree{}, fmt.Errorf("entry %d of the manifest %q: %w", i, e.path, err)
		}
		if e.kind == directory {
			directories[e.path] = true
		}
		t.entries = append(t.entries, e)
	}
	return t, nil
}

func decodeEntry(from *bytes.Reader) (e entry, err error) {
	var r record
	if err := binary.Read(from, binary.LittleEndian, &r); err != nil {
		return e, err
	}
	e = entry{kind: r.Kind, mode: r.Mode & 0o777, offset: r.Offset, size: r.Size,
		modified: time.Unix(r.Seconds, int64(r.Nanoseconds))}
	if e.path, err = text(from, r.PathSize); err == nil && (r.TargetSize > 0 || r.Kind == link) {
		e.target, err = text(from, r.TargetSize)
	}
	return e, err
}

// text reads a text of that many bytes with its NUL, and nothing behind it.
func text(from *bytes.Reader, size uint32) (string, error) {
	if uint64(size) > uint64(from.Len()) {
		return "", errors.New("a text ends too soon")
	}
	data := make([]byte, size)
	from.Read(data)
	if at := bytes.IndexByte(data, 0); at < 1 || at != len(data)-1 {
		return "", errors.New("a text is not whole")
	}
	return string(data[:len(data)-1]), nil
}

// fits is nil if the entry may follow those that the tree has.
func (t tree) fits(e entry, directories map[string]bool) error {
	var last entry
	if len(t.entries) > 0 {
		last = t.entries[len(t.entries)-1]
	}
	switch {
	case path.Clean("/"+e.path) != "/"+e.path || !directories[path.Dir(e.path)]:
		return errors.New("an unsafe path")
	case e.kind > file || last.kind > e.kind || e.kind != file && last.kind == e.kind && last.path >= e.path:
		return errors.New("it is of an unknown kind, or out of order")
	case e.kind != file && (e.offset != 0 || e.size != 0) || e.kind != link && e.target != "":
		return errors.New("it has what its kind has not")
	case e.kind == file && (e.offset < last.offset+last.size || e.offset > t.bytes || e.size > t.bytes-e.offset):
		return errors.New("its bytes are elsewhere")
	}
	return nil
}
