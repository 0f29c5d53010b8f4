// SPDX-License-Identifier: Apache-2.0

package xfer

import "unsafe"

// DeviceMemory is the length bytes at an address in the memory of a device, such as a CUdeviceptr, as a slice for every call
// that takes memory: put, get, send, receive, the entries of a [Batch], and [Engine.Lend]. The library asks the driver what
// kind of memory it is, so an address in C's memory does as well.
//
// The CPU must not touch the bytes: indexing, copying, appending, comparing or printing them is a fault that cannot be
// recovered from. Slicing and len are fine. Blobs must be the CPU's. [Copy], regions with [Atomic] and notifications fail
// with [ErrMemKind] for such bytes.
//
// Nothing here keeps the memory allocated. It may be freed when the operation has ended; of a [Quiet] one, when a flush has;
// and after the Close of a [Region] of it, and of a Batch that has it in an entry. No slice of it may be left by then, nor a
// Region, which has one: Go may get the same address for its heap, and the collector would take the slice for a pointer into
// that. What streams write is complete before a put or a send begins, and streams that touch the memory are over before a get
// or a receive begins; a batch of [Batch.SubmitOn] has its place in its stream.
//
// It panics as unsafe.Slice does, such as for a negative length. Go's own memory is passed as the slice that it is.
func DeviceMemory(address uintptr, length int) []byte {
	// Not by a conversion: vet takes each for one of an address in Go's memory, which moves.
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&address)), length)
}
