// SPDX-License-Identifier: Apache-2.0

package xfer

/*
#include <stdlib.h>
#include <xfer/text.h>
*/
import "C"

import "unsafe"

// ID is the identity of an engine: Bytes stay over restarts if they are given, Incarnation is new at every open.
type ID struct {
	Bytes       [16]byte
	Incarnation uint64
}

func (id *ID) raw() *C.xfer_id_t { return (*C.xfer_id_t)(unsafe.Pointer(id)) }

// String is the text that [ParseID] reads.
func (id ID) String() string {
	var text [C.XFER_ID_TEXT_SIZE]C.char
	C.xfer_id_text(id.raw(), &text[0], C.uint64_t(len(text)))
	return C.GoString(&text[0])
}

// ParseID reads the text of an ID.
func ParseID(text string) (id ID, err error) {
	given, err := cText(text)
	if err != nil {
		return id, err
	}
	defer C.free(unsafe.Pointer(given))
	return id, failed(C.xfer_id_parse(given, id.raw()), nil)
}

// idAndRest is how events have an ID.
func idAndRest(data []byte) (id ID, rest []byte) {
	if len(data) < int(unsafe.Sizeof(id)) {
		return id, nil
	}
	n := copy(unsafe.Slice((*byte)(unsafe.Pointer(&id)), unsafe.Sizeof(id)), data)
	return id, data[n:]
}

// Ref names a peer's region, or a part of it, for as long as that region lives. It may be carried as bytes by any means;
// whoever has it and the key may use it.
type Ref [96]byte

func (r *Ref) raw() *C.xfer_ref_t { return (*C.xfer_ref_t)(unsafe.Pointer(r)) }

// String is 128 characters that [ParseRef] reads; empty if these bytes are no ref.
func (r Ref) String() string {
	var text [C.XFER_REF_TEXT_SIZE]C.char
	C.xfer_ref_text(r.raw(), &text[0], C.uint64_t(len(text)))
	return C.GoString(&text[0])
}

// ParseRef reads the text of a ref.
func ParseRef(text string) (ref Ref, err error) {
	given, err := cText(text)
	if err != nil {
		return ref, err
	}
	defer C.free(unsafe.Pointer(given))
	return ref, failed(C.xfer_ref_parse(given, ref.raw()), nil)
}

// RefInfo is what a ref says of itself.
type RefInfo struct {
	Owner          ID
	Region         uint64 // the owner's number of the region, or of the grant
	Offset, Length uint64
	Generation     uint32
	Access         Access
	Kind           MemoryKind
}

// Info asks the ref alone, not its owner.
func (r Ref) Info() (RefInfo, error) {
	var info C.xfer_ref_info_t
	err := failed(C.xfer_ref_info(r.raw(), &info, C.uint32_t(unsafe.Sizeof(info))), nil)
	return RefInfo{*(*ID)(unsafe.Pointer(&info.owner)), uint64(info.region), uint64(info.offset), uint64(info.length),
		uint32(info.generation), Access(info.access), MemoryKind(info.kind)}, err
}

// MemoryKind is a kind of memory.
type MemoryKind uint32

// The kinds of memory.
const (
	MemoryHost      MemoryKind = C.XFER_MEM_HOST
	MemoryCUDA      MemoryKind = C.XFER_MEM_CUDA
	MemoryHIP       MemoryKind = C.XFER_MEM_HIP
	MemoryLevelZero MemoryKind = C.XFER_MEM_ZE
	MemoryFile      MemoryKind = C.XFER_MEM_FILE
)

func (k MemoryKind) String() string { return C.GoString(C.xfer_memory_name(C.uint32_t(k))) }

// Transport is a way by which bytes go.
type Transport uint32

// The transports.
const (
	TransportLoopback Transport = C.XFER_TRANSPORT_LOOPBACK
	TransportTCP      Transport = C.XFER_TRANSPORT_TCP
	TransportSHM      Transport = C.XFER_TRANSPORT_SHM
	TransportRDMA     Transport = C.XFER_TRANSPORT_RDMA
	TransportCUDA     Transport = C.XFER_TRANSPORT_CUDA
	TransportUnix     Transport = C.XFER_TRANSPORT_UNIX
)

func (t Transport) String() string { return C.GoString(C.xfer_transport_name(C.uint32_t(t))) }
