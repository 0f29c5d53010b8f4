// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"
	"sort"
	"sync"

	"xfer"
)

const (
	slice    = 4 << 20 // bytes of one get, whatever files they are of
	underWay = 8       // gets
)

// fill gets the data by slices and writes them into the files. It returns when no get is under way any more.
func (p *partial) fill(ctx context.Context, ep *xfer.Endpoint, data xfer.Ref, progress func(done, total uint64)) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var mutex sync.Mutex
	var next, done uint64
	total := p.end()
	work := func(buffer []byte) error {
		for {
			mutex.Lock()
			at := next
			next += slice
			mutex.Unlock()
			if at >= total {
				return nil
			}
			buffer = buffer[:min(slice, total-at)]
			if err := ep.Get(ctx, buffer, data, at); err != nil {
				return err
			}
			if err := p.write(at, buffer); err != nil {
				return err
			}
			mutex.Lock()
			done += uint64(len(buffer))
			progress(done, total)
			mutex.Unlock()
		}
	}
	var workers sync.WaitGroup
	for range underWay {
		workers.Add(1)
		go func() {
			defer workers.Done()
			if err := work(make([]byte, slice)); err != nil {
				fail(err) // the first one counts, and ends the others
			}
		}()
	}
	workers.Wait()
	return context.Cause(ctx)
}

// end is where the bytes of the last file end.
func (p *partial) end() uint64 {
	if len(p.tree.entries) == 0 {
		return 0
	}
	last := p.tree.entries[len(p.tree.entries)-1]
	return last.offset + last.size
}

// write writes what is at that place of the data into the files that it belongs to.
func (p *partial) write(at uint64, data []byte) error {
	files, end := p.tree.files(), at+uint64(len(data))
	first := sort.Search(len(files), func(i int) bool { return files[i].offset+files[i].size > at })
	for _, e := range files[first:] {
		if e.offset >= end {
			break
		}
		from, to := max(e.offset, at), min(e.offset+e.size, end)
		if from >= to {
			continue // it has no bytes
		}
		into, err := os.OpenFile(p.path(e), os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = into.WriteAt(data[from-at:to-at], int64(from-e.offset))
		if err := errors.Join(err, into.Close()); err != nil {
			return err
		}
	}
	return nil
}
