// SPDX-License-Identifier: Apache-2.0

package xfer

/*
#include <stdint.h>
#include <xfer/xfer.h>

// The tables come as numbers: in a struct of Go, cgo looks for pointers in all of the objects that have them.
static xfer_status_t add_pages(xfer_batch_t *batch, uint32_t op, const xfer_pages_t *given, uintptr_t local,
	uintptr_t remote, xfer_error_t *err) {
	xfer_pages_t pages = *given;
	pages.local_pages = (const void *)local;
	pages.remote_pages = (const void *)remote;
	return xfer_batch_add_pages(batch, op, &pages, err);
}
*/
import "C"

import (
	"runtime"
	"unsafe"
)

// PageNumber is what page tables consist of; a negative one is [ErrRange].
type PageNumber interface {
	~int32 | ~uint32 | ~int64 | ~uint64
}

// PageBase is one pair of bases that a page table applies to, such as one layer of a KV cache.
type PageBase struct {
	Local  []byte // from local page 0 on
	Remote Ref    // what holds the remote pages
	Offset uint64 // of remote page 0 in it
}

// PageShape is how pages lie; zero means the default.
type PageShape struct {
	Length          uint64 // bytes of each row
	Rows            uint64 // of each page; default 1
	LocalStride     uint64 // from page to page; default: rows times the row stride
	RemoteStride    uint64
	LocalRowStride  uint64 // from row to row; default: Length
	RemoteRowStride uint64
}

// AddPages adds, for every base and every i, local page local[i] and remote page remote[i]; each page of each base is an
// entry. The tables are read where they are, without a copy. After an error nothing was added. A local page that does
// not lie in a base's memory is [ErrRange].
func AddPages[N PageNumber](b *Batch, what Direction, shape PageShape, bases []PageBase, local, remote []N) error {
	if len(local) != len(remote) {
		return refused(ErrInval, "the page tables differ in length")
	}
	if len(local) == 0 || len(bases) == 0 {
		return nil
	}
	for _, page := range local {
		if page < 0 {
			return refused(ErrRange, "a page number is negative")
		}
	}
	for _, page := range remote {
		if page < 0 {
			return refused(ErrRange, "a page number is negative")
		}
	}
	largest := local[0]
	for _, page := range local {
		largest = max(largest, page)
	}
	var pins runtime.Pinner
	defer pins.Unpin()
	pins.Pin(&local[0])
	pins.Pin(&remote[0])
	tables := pageTables{uintptr(unsafe.Pointer(&local[0])), uintptr(unsafe.Pointer(&remote[0])), len(local),
		unsafe.Sizeof(largest), uint64(largest)}
	return b.addPages(&pins, what, shape, bases, tables)
}

// pageTables are where two tables are pinned, how many numbers of that size each has, and the largest local one.
type pageTables struct {
	local, remote uintptr
	count         int
	size          uintptr
	largest       uint64
}

func (b *Batch) addPages(pins *runtime.Pinner, what Direction, shape PageShape, bases []PageBase, tables pageTables) error {
	rawBases := make([]C.xfer_page_base_t, len(bases))
	for i := range bases {
		if !shape.fits(len(bases[i].Local), tables.largest) {
			return refused(ErrRange, "a page does not lie in the local memory")
		}
		pins.Pin(&bases[i].Remote)
		rawBases[i].local, rawBases[i].offset = C.uint64_t(uintptr(start(bases[i].Local))), C.uint64_t(bases[i].Offset)
		rawBases[i].remote = bases[i].Remote.raw()
	}
	pins.Pin(&rawBases[0])
	raw := C.xfer_pages_t{index_size: C.uint32_t(tables.size), count: C.uint64_t(tables.count)}
	raw.size, raw.base_size = C.uint32_t(unsafe.Sizeof(raw)), C.uint32_t(unsafe.Sizeof(rawBases[0]))
	raw.length, raw.rows = C.uint64_t(shape.Length), C.uint64_t(shape.Rows)
	raw.local_stride, raw.remote_stride = C.uint64_t(shape.LocalStride), C.uint64_t(shape.RemoteStride)
	raw.local_row_stride, raw.remote_row_stride = C.uint64_t(shape.LocalRowStride), C.uint64_t(shape.RemoteRowStride)
	raw.bases, raw.base_count = &rawBases[0], C.uint64_t(len(rawBases))
	var detail C.xfer_error_t
	return b.add(nil, func() C.xfer_status_t {
		for _, base := range bases {
			pin(b.memory, base.Local)
		}
		return C.add_pages(b.raw, C.uint32_t(what), &raw, C.uintptr_t(tables.local), C.uintptr_t(tables.remote), &detail)
	}, &detail)
}

// fits: the local page of that number lies in so many bytes.
func (s PageShape) fits(size int, page uint64) bool {
	rows, rowStride := max(s.Rows, 1), s.LocalRowStride
	if rowStride == 0 {
		rowStride = s.Length
	}
	stride := s.LocalStride
	if !fits(size, rows-1, rowStride, s.Length) {
		return false
	}
	if stride == 0 {
		if rows > uint64(size)/max(rowStride, 1) && page > 0 {
			return false // the next page would begin past the end
		}
		stride = rows * rowStride
	}
	return fits(size, page, stride, (rows-1)*rowStride+s.Length)
}
