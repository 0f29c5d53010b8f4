// SPDX-License-Identifier: Apache-2.0

package xfer

/*
#include <stdlib.h>
#include <xfer/rdma.h>
#include <xfer/text.h>
*/
import "C"

import (
	"strings"
	"unsafe"
)

// Options are those of an engine. Zero means the default.
type Options struct {
	// Set has options by name and text, as xfer_engine_option_set reads them: "transports": "tcp,shm". [EngineOptions]
	// lists them.
	Set map[string]string
	// Key is the shared secret of all members, 32 to 256 bytes; Blob is shown to peers. Set can only give those that
	// are text.
	Key, Blob []byte
	// RDMA says which adapters are used, and how; nil: the defaults.
	RDMA *RDMAOptions
	// Events is where the engine sends what ends no operation; nil: it is passed over. The engine waits while the channel
	// is full, and tells nothing else meanwhile, so that notifications stay with their senders: who reads it must not
	// wait for an operation of the engine where the channel may fill up. It is closed with the engine, and events that
	// find no room by then are passed over.
	//
	// With a channel the engine has the option own_peers: each [Peer] brings an endpoint that is the caller's to close.
	// Without one, and with "own_peers": "no", such an endpoint ends with its [PeerDown] unless it is kept.
	Events chan<- Event
}

// RDMAOptions are those of adapters, as in xfer_rdma_options_t. Zero means the default.
type RDMAOptions struct {
	Devices      string // that may be used, such as "mlx5_0,mlx5_1:1", or "none"; by default as XFER_RDMA_DEVICES says, or all
	QueueDepth   uint32
	AckTimeout   uint32
	Retries      int // of a packet; negative: none. Messages wait a third of a second at most
	TrafficClass uint32
	ServiceLevel uint32
}

// raw is the struct in C's memory, without its Devices.
func (o *RDMAOptions) raw() *C.xfer_rdma_options_t {
	given := (*C.xfer_rdma_options_t)(C.calloc(1, C.sizeof_xfer_rdma_options_t))
	given.size = C.sizeof_xfer_rdma_options_t
	given.queue_depth, given.ack_timeout = C.uint32_t(o.QueueDepth), C.uint32_t(o.AckTimeout)
	given.traffic_class, given.service_level = C.uint32_t(o.TrafficClass), C.uint32_t(o.ServiceLevel)
	if given.retries = C.XFER_NONE; o.Retries >= 0 {
		given.retries = C.uint32_t(min(o.Retries, C.XFER_NONE-1))
	}
	return given
}

// OptionKind says how the text of an option is read.
type OptionKind uint32

// The kinds of options.
const (
	OptionNumber OptionKind = C.XFER_OPTION_NUMBER // decimal digits, or "none"
	OptionText   OptionKind = C.XFER_OPTION_TEXT
	OptionFlag   OptionKind = C.XFER_OPTION_FLAG // yes, true, on or 1; no, false, off or 0
	OptionHex    OptionKind = C.XFER_OPTION_HEX  // all bytes, two hexadecimal digits each
	OptionChoice OptionKind = C.XFER_OPTION_CHOICE
)

// OptionInfo is what the library says of one of its options.
type OptionInfo struct {
	Name   string
	Values string // what it may be, such as "thread|loop|poll", "NUMBER|none" or "TEXT"
	Help   string
	Kind   OptionKind
}

// EngineOptions are all that Options.Set may name.
func EngineOptions() []OptionInfo {
	var all []OptionInfo
	var info C.xfer_option_info_t
	for C.xfer_engine_option_at(C.uint32_t(len(all)), &info, C.uint32_t(unsafe.Sizeof(info))) == C.XFER_OK {
		all = append(all, OptionInfo{C.GoString(info.name), C.GoString(info.values), C.GoString(info.help),
			OptionKind(info.kind)})
	}
	return all
}

// raw is the struct, which points at C's memory until free is called.
func (o *Options) raw() (given C.xfer_engine_options_t, free func(), err error) {
	var allocated []unsafe.Pointer
	free = func() {
		for _, memory := range allocated {
			C.free(memory)
		}
	}
	text := func(value string) *C.char {
		allocated = append(allocated, unsafe.Pointer(C.CString(value)))
		return (*C.char)(allocated[len(allocated)-1])
	}
	given.size, given.dispatch = C.uint32_t(unsafe.Sizeof(given)), C.XFER_DISPATCH_POLL
	if o.Events != nil {
		given.flags = C.XFER_ENGINE_OWN_PEERS
	}
	for name, value := range o.Set {
		if strings.Contains(name+value, "\x00") {
			return given, free, refused(ErrInval, "an option has a NUL")
		}
		var detail C.xfer_error_t
		if err := failed(C.xfer_engine_option_set(&given, text(name), text(value), &detail), &detail); err != nil {
			return given, free, err
		}
	}
	if given.dispatch != C.XFER_DISPATCH_POLL {
		return given, free, refused(ErrUnsupported, "dispatch: this binding takes its events by poll alone")
	}
	if o.Key != nil {
		allocated = append(allocated, C.CBytes(o.Key))
		given.key, given.key_length = allocated[len(allocated)-1], C.uint64_t(len(o.Key))
	}
	if o.Blob != nil {
		allocated = append(allocated, C.CBytes(o.Blob))
		given.blob, given.blob_length = allocated[len(allocated)-1], C.uint64_t(len(o.Blob))
	}
	if o.RDMA != nil {
		if strings.Contains(o.RDMA.Devices, "\x00") {
			return given, free, refused(ErrInval, "Devices has a NUL")
		}
		rdma := o.RDMA.raw()
		allocated = append(allocated, unsafe.Pointer(rdma))
		if o.RDMA.Devices != "" {
			rdma.devices = text(o.RDMA.Devices)
		}
		given.rdma = rdma
	}
	return given, free, nil
}
