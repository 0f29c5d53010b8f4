// SPDX-License-Identifier: Apache-2.0

package xfer

/*
#include <stdlib.h>
#include <xfer/xfer.h>
*/
import "C"

import (
	"runtime"
	"unsafe"
)

// Access is what peers may do.
type Access uint32

// They may be joined by |.
const (
	Read   Access = C.XFER_READ
	Write  Access = C.XFER_WRITE
	Atomic Access = C.XFER_ATOMIC
)

// RegionOptions are those of a region; zero means the default.
type RegionOptions struct {
	Name      string     // for Lookup; default: none
	Access    Access     // default: none, local use only
	Kind      MemoryKind // a hint that is checked
	Blob      []byte     // shown to peers that look it up
	HugePages bool       // Alloc: if the system has some
	NUMANode  uint32     // Alloc: 1 + the node to be preferred
}

// Region is memory that is lent, until Close.
type Region struct {
	*handle // which the engine has as well, without this value
	engine  *Engine
	raw     *C.xfer_region_t
	memory  []byte
}

// Lend lends memory to the engine, and to peers as the options say. It is pinned until Close has returned, or the
// engine's Close. Memory that is not of Go's heap must stay mapped until then.
func (e *Engine) Lend(memory []byte, options RegionOptions) (*Region, error) {
	r := &Region{handle: newHandle(), engine: e, memory: memory}
	pins := &runtime.Pinner{}
	pin(pins, memory)
	r.quiet = pins.Unpin
	err := r.open(options, func(given *C.xfer_region_options_t, detail *C.xfer_error_t) C.xfer_status_t {
		return C.xfer_region_open(e.core.raw, given, unsafe.Pointer(unsafe.SliceData(memory[:])), C.uint64_t(len(memory)), &r.raw,
			detail)
	})
	if err != nil {
		pins.Unpin()
		return nil, err
	}
	return r, nil
}

// Alloc lends memory that the library allocates, zeroed, which local peers map. It ends with the region: from Close on
// nothing may touch Bytes.
func (e *Engine) Alloc(length uint64, options RegionOptions) (*Region, error) {
	r := &Region{handle: newHandle(), engine: e}
	var address unsafe.Pointer
	err := r.open(options, func(given *C.xfer_region_options_t, detail *C.xfer_error_t) C.xfer_status_t {
		return C.xfer_region_alloc(e.core.raw, given, C.uint64_t(length), &address, &r.raw, detail)
	})
	if err != nil {
		return nil, err
	}
	r.memory = unsafe.Slice((*byte)(address), int(length))
	return r, nil
}

func (r *Region) open(options RegionOptions, call func(*C.xfer_region_options_t, *C.xfer_error_t) C.xfer_status_t) error {
	e := r.engine.core
	defer runtime.KeepAlive(r.engine)
	given := C.xfer_region_options_t{access: C.uint32_t(options.Access), kind: C.uint32_t(options.Kind),
		numa_node: C.uint32_t(options.NUMANode)}
	given.size = C.uint32_t(unsafe.Sizeof(given))
	if options.HugePages {
		given.flags = C.XFER_REGION_HUGE_PAGES
	}
	if options.Name != "" {
		name, err := cText(options.Name)
		if err != nil {
			return err
		}
		given.name = name
		defer C.free(unsafe.Pointer(given.name))
	}
	if len(options.Blob) > 0 {
		given.blob, given.blob_length = C.CBytes(options.Blob), C.uint64_t(len(options.Blob))
		defer C.free(given.blob)
	}
	var detail C.xfer_error_t
	word := e.newWord()
	given.user = C.uint64_t(word)
	return failed(e.use(func() C.xfer_status_t {
		e.hold(word, r.handle) // before its event can come
		status := call(&given, &detail)
		if status != C.XFER_OK {
			e.drop(word)
			return status
		}
		raw := r.raw
		r.end = func() C.xfer_status_t { return C.xfer_region_close(raw) }
		return status
	}), &detail)
}

// Bytes are the memory that is lent.
func (r *Region) Bytes() []byte { return r.memory }

// Ref is the ref of the whole region, to be sent to peers by other means.
func (r *Region) Ref() (ref Ref, err error) {
	return ref, failed(r.use(func() C.xfer_status_t { return C.xfer_region_ref(r.raw, ref.raw()) }), nil)
}

// RegionInfo is what a region is.
type RegionInfo struct {
	Address    uintptr
	Length     uint64
	ID         uint64 // unique in the engine, never used again
	Generation uint32
	Access     Access
	Kind       MemoryKind // what the driver said
}

// Info is what the region is.
func (r *Region) Info() (RegionInfo, error) {
	var info C.xfer_region_info_t
	err := failed(r.use(func() C.xfer_status_t {
		return C.xfer_region_info(r.raw, &info, C.uint32_t(unsafe.Sizeof(info)))
	}), nil)
	return RegionInfo{uintptr(info.address), uint64(info.length), uint64(info.id), uint32(info.generation),
		Access(info.access), MemoryKind(info.kind)}, err
}

// Close takes the memory back, and returns when it is quiet. Refs of it are stale at once.
func (r *Region) Close() error {
	defer runtime.KeepAlive(r.engine)
	return r.close()
}

// pin pins memory, if there is some; what is not Go's needs no pin.
func pin(pins *runtime.Pinner, memory []byte) {
	if len(memory) > 0 {
		pins.Pin(&memory[0])
	}
}

// start is the address of the first byte. As an argument of C it is written out, and of a slice expression: else cgo looks
// for pointers in all of the object that has the bytes.
func start(memory []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(memory)) }
