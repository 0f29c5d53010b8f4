// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"
)

// The names of the two regions: the bytes of all files, and the list of what there is and where its bytes are.
const dataName, manifestName = "tree/data", "tree/manifest"

// The kinds of entries, in the order in which a list has them.
const (
	directory uint16 = iota
	link
	file
)

// entry is one thing of a tree. Each lies in a directory that is listed before it.
type entry struct {
	kind         uint16
	path         string // relative to the root of the tree
	mode         uint16 // permission bits
	modified     time.Time
	offset, size uint64 // of a file's bytes in the data; files follow each other there
	disk         uint64 // what a file takes at the server; only their sum is told
	target       string // of a link
}

type tree struct {
	entries []entry
	bytes   uint64 // of the data
	disk    uint64 // what the files take at the server
}

func (t tree) files() []entry {
	for i, e := range t.entries {
		if e.kind == file {
			return t.entries[i:]
		}
	}
	return nil
}

func (t tree) String() string {
	return fmt.Sprintf("%d files, %.1f MB", len(t.files()), float64(t.bytes)/1e6)
}

// header and record are what is on the wire, little endian; path and target follow each record, with a NUL each.
type header struct {
	Magic                [8]byte
	Entries, Bytes, Disk uint64
}

type record struct {
	Offset, Size         uint64
	Seconds              int64
	Nanoseconds          uint32
	Kind, Mode           uint16
	PathSize, TargetSize uint32
}

var magic = [8]byte([]byte("xfertre2"))

func (t tree) encode() []byte {
	var to bytes.Buffer
	binary.Write(&to, binary.LittleEndian, header{magic, uint64(len(t.entries)), t.bytes, t.disk})
	for _, e := range t.entries {
		names := e.path + "\x00"
		if e.kind == link {
			names += e.target + "\x00"
		}
		binary.Write(&to, binary.LittleEndian, record{e.offset, e.size, e.modified.Unix(), uint32(e.modified.Nanosecond()),
			e.kind, e.mode, uint32(len(e.path) + 1), uint32(len(names) - len(e.path) - 1)})
		to.WriteString(names)
	}
	return to.Bytes()
}
