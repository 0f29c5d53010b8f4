// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"xfer"
)

const patience = 60 * time.Second

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// planted is a tree with one of everything.
func planted(t *testing.T) string {
	root := t.TempDir()
	must(0, os.MkdirAll(filepath.Join(root, "a/b/c"), 0o755))
	must(0, os.MkdirAll(filepath.Join(root, "a.b"), 0o755)) // between a and a/b
	must(0, os.MkdirAll(filepath.Join(root, "empty/within"), 0o755))
	large := make([]byte, 9<<20+5) // several slices
	rand.Read(large)
	for name, data := range map[string][]byte{"a/large": large, "a/b/c/nothing": {}, "a.b/one": []byte("one\n"),
		"\xff is not UTF-8": []byte("two\n"), "z": large[:70000]} {
		must(0, os.WriteFile(filepath.Join(root, name), data, 0o640))
	}
	must(0, os.Symlink("large", filepath.Join(root, "a/link")))
	must(0, os.Symlink("../nowhere", filepath.Join(root, "dangling")))
	must(0, os.Chmod(filepath.Join(root, "a/large"), 0o400))
	for name, when := range map[string]time.Time{"a/large": time.Unix(1e9, 123456789), "z": time.Unix(-2, 5e8),
		"empty/within": time.Unix(1e9, 5)} {
		must(0, os.Chtimes(filepath.Join(root, name), when, when))
	}
	must(0, os.Chmod(filepath.Join(root, "empty"), 0o500))
	t.Cleanup(func() { os.Chmod(filepath.Join(root, "empty"), 0o700) })
	return root
}

// facts are all that is kept of a tree, in one text.
func facts(root string) string {
	var all strings.Builder
	must(0, filepath.WalkDir(root, func(path string, what fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		info := must(what.Info())
		fmt.Fprintf(&all, "%q %v", path[len(root):], info.Mode())
		switch info.Mode().Type() {
		case fs.ModeSymlink:
			fmt.Fprintf(&all, " %q\n", must(os.Readlink(path)))
			return nil
		case 0:
			fmt.Fprintf(&all, " %d %x", info.Size(), sha256.Sum256(must(os.ReadFile(path))))
		}
		fmt.Fprintf(&all, " %d\n", info.ModTime().UnixNano())
		return nil
	}))
	return all.String()
}

func same(t *testing.T, source, copy string) {
	t.Helper()
	t.Cleanup(func() { os.Chmod(filepath.Join(copy, "empty"), 0o700) })
	if facts(source) != facts(copy) {
		t.Error(copy, "is not what was served")
	}
}

// served is where this program serves a directory; it ends with the test.
func served(t *testing.T, root string) (uri string) {
	ctx, stop := context.WithCancel(context.Background())
	read, write := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"serve", root, "--listen", "tcp://127.0.0.1:0"}, write)
		write.Close()
	}()
	t.Cleanup(func() {
		stop()
		must(0, <-ended)
	})
	return listening(read)
}

// listening reads until a server tells its URI.
func listening(from io.Reader) (uri string) {
	for lines := bufio.NewScanner(from); lines.Scan(); {
		if uri, is := strings.CutPrefix(lines.Text(), "listening at "); is {
			return uri
		}
	}
	panic("it does not listen")
}

func fetched(uri, destination string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return run(ctx, []string{"fetch", uri, destination}, io.Discard)
}

func TestTree(t *testing.T) {
	source, destination := planted(t), filepath.Join(t.TempDir(), "copy")
	uri := served(t, source)
	must(0, fetched(uri, destination))
	same(t, source, destination)
	if err := fetched(uri, destination); err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Error(err)
	}
	empty := t.TempDir()
	must(0, fetched(uri, empty))
	same(t, source, empty)
	for _, left := range must(os.ReadDir(filepath.Dir(destination))) {
		if left.Name() != "copy" {
			t.Error("something was left: ", left.Name())
		}
	}
	must(0, fetched(served(t, t.TempDir()), filepath.Join(t.TempDir(), "of an empty one")))
}

// xferTree is the program in C, for one direction of the two.
func xferTree(t *testing.T, arguments ...string) *exec.Cmd {
	program := os.Getenv("XFER_TREE")
	if program == "" {
		t.Skip("XFER_TREE names no xfer_tree")
	}
	cmd := exec.Command(program, arguments...)
	cmd.Stderr = os.Stderr
	return cmd
}

func TestFetchOfC(t *testing.T) {
	source, destination := planted(t), filepath.Join(t.TempDir(), "copy")
	server := xferTree(t, "serve", source)
	out := must(server.StdoutPipe())
	must(0, server.Start())
	defer func() {
		server.Process.Signal(os.Interrupt)
		must(0, server.Wait())
	}()
	must(0, fetched(listening(out), destination))
	same(t, source, destination)
}

func TestServeForC(t *testing.T) {
	source, destination := planted(t), filepath.Join(t.TempDir(), "copy")
	must(0, xferTree(t, "fetch", served(t, source), destination, "--verify").Run())
	same(t, source, destination)
}

func TestMistakes(t *testing.T) {
	for _, words := range [][]string{{}, {"serve"}, {"fetch", "tcp://127.0.0.1:1"}, {"push", "a", "b"}, {"serve", "a", "--other"}} {
		if err := run(context.Background(), words, io.Discard); !errors.Is(err, errUsage) {
			t.Error(words, err)
		}
	}
	if err := fetched("tcp://127.0.0.1:1", filepath.Join(t.TempDir(), "copy")); !errors.Is(err, xfer.ErrUnreachable) {
		t.Error(err)
	}
	for _, root := range []string{"nowhere", "main.go"} {
		if err := run(context.Background(), []string{"serve", root}, io.Discard); err == nil {
			t.Error("serves", root)
		}
	}
}

// lies are manifests that a peer may send, each with one thing that is wrong.
func lies() map[string]tree {
	one := func(entries ...entry) tree { return tree{entries: entries, bytes: 100} }
	return map[string]tree{
		"absolute":         one(entry{kind: file, path: "/etc/passwd"}),
		"above":            one(entry{kind: file, path: "../passwd"}),
		"above, within":    one(entry{path: "a"}, entry{kind: file, path: "a/../../passwd"}),
		"itself":           one(entry{kind: directory, path: "."}),
		"no name":          one(entry{kind: file, path: ""}),
		"a NUL":            one(entry{kind: file, path: "a\x00b"}),
		"through a link":   one(entry{kind: link, path: "a", target: "/etc"}, entry{kind: file, path: "a/passwd"}),
		"a link to none":   one(entry{kind: link, path: "a"}),
		"no directory":     one(entry{kind: file, path: "a/b"}),
		"twice":            one(entry{path: "a"}, entry{path: "a"}),
		"out of order":     one(entry{kind: file, path: "b"}, entry{path: "a"}),
		"a device":         one(entry{kind: 3, path: "a"}),
		"past the end":     one(entry{kind: file, path: "a", offset: 99, size: 2}),
		"wraps":            one(entry{kind: file, path: "a", offset: 2, size: 1<<64 - 1}),
		"over each other":  one(entry{kind: file, path: "a", size: 9}, entry{kind: file, path: "b", offset: 8, size: 9}),
		"a directory with": one(entry{path: "a", size: 9}),
	}
}

func TestLies(t *testing.T) {
	for name, told := range lies() {
		if _, err := decode(told.encode()); err == nil {
			t.Error(name, "is believed")
		}
	}
	good := tree{[]entry{{path: "a"}, {kind: link, path: "a/l", target: "b"}, {kind: file, path: "a/b", size: 9}}, 100, 0}.encode()
	must(decode(good))
	for size := range len(good) {
		if _, err := decode(good[:size]); err == nil {
			t.Error("one of", size, "bytes is believed")
		}
	}
	other := bytes.Clone(good)
	other[7]++
	if _, err := decode(other); err == nil {
		t.Error("another version is believed")
	}
}

func FuzzDecode(f *testing.F) {
	for _, told := range lies() {
		f.Add(told.encode())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		told, err := decode(data)
		if err != nil {
			return
		}
		for _, e := range told.entries {
			if !filepath.IsLocal(e.path) {
				t.Errorf("%q is believed", e.path)
			}
		}
	})
}
