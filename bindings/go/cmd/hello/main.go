// SPDX-License-Identifier: Apache-2.0

// Puts 1 MiB into the region of another engine, gets it back, and compares. Usage: hello [URI]
package main

// #include <xfer/xfer.h>
import "C"

import (
	"crypto/rand"
	"fmt"
	"log"
	"os"
	"syscall"
	"time"
	"unsafe"
)

const size, limit = 1 << 20, 5 * time.Second // of every operation; a wait gives up after twice that

type engine struct {
	handle *C.xfer_engine_t
	file   *os.File // Go's own poller watches the descriptor
}

func openEngine() engine {
	var handle *C.xfer_engine_t
	options := C.xfer_engine_options_t{dispatch: C.XFER_DISPATCH_POLL}
	options.size = C.uint32_t(unsafe.Sizeof(options))
	options.timeout_ms = C.uint32_t(limit.Milliseconds())
	check("engine open", C.xfer_engine_open(&options, &handle, &detail))
	var fd C.int32_t
	check("engine fd", C.xfer_engine_fd(handle, &fd))
	duplicate := must(syscall.Dup(int(fd))) // Go closes this one, the library its own
	must(0, syscall.SetNonblock(duplicate, true))
	return engine{handle, os.NewFile(uintptr(duplicate), "xfer")}
}

// end waits for the event that ends what a call has started. Its data is valid until the next end.
func (e engine) end(what string, started C.xfer_status_t, kind C.uint32_t,
	object unsafe.Pointer) C.xfer_event_t {
	check(what, started)
	var event C.xfer_event_t
	found, space := false, C.uint32_t(unsafe.Sizeof(event))
	must(0, e.file.SetReadDeadline(time.Now().Add(2*limit)))
	must(0, must(e.file.SyscallConn()).Read(func(uintptr) bool {
		for count := C.uint32_t(1); count > 0 && !found; {
			check("poll", C.xfer_engine_poll(e.handle, &event, space, 1, 0, &count))
			found = count > 0 && event.kind == kind && (object == nil || object == event.object)
		}
		return found // or once more when it is readable
	}))
	fmt.Printf("%s: %s, %d bytes\n", what, name(event.status), event.bytes)
	check(what, event.status)
	return event
}

func main() {
	server, client := openEngine(), openEngine()
	hello, uri := C.CString("hello"), C.CString("tcp://127.0.0.1:0")
	var bound [256]C.char
	check("listen", C.xfer_engine_listen(server.handle, uri, nil, &bound[0], 256, &detail))

	// Not Go's memory: C keeps pointers to it between calls.
	const flags = syscall.MAP_ANON | syscall.MAP_PRIVATE
	all := must(syscall.Mmap(-1, 0, 3*size, syscall.PROT_READ|syscall.PROT_WRITE, flags))
	memory, sent, back := all[:size], all[size:2*size], all[2*size:]
	must(rand.Read(sent))
	options := C.xfer_region_options_t{name: hello, access: C.XFER_READ | C.XFER_WRITE}
	options.size = C.uint32_t(unsafe.Sizeof(options))
	region, base := (*C.xfer_region_t)(nil), unsafe.Pointer(&memory[0])
	check("region open", C.xfer_region_open(server.handle, &options, base, size, &region, &detail))

	uri = &bound[0]
	if len(os.Args) > 1 {
		uri = C.CString(os.Args[1])
	}
	var ep *C.xfer_ep_t
	check("ep open", C.xfer_ep_open(client.handle, uri, nil, &ep, &detail))
	client.end("connect", C.xfer_ep_connect(ep, 1, nil), C.XFER_EVENT_CONNECT, nil)
	found := client.end("lookup", C.xfer_ep_lookup(ep, hello, 2, nil, nil), C.XFER_EVENT_LOOKUP, nil)
	ref := *(*C.xfer_ref_t)(found.data)
	status := C.xfer_put(ep, unsafe.Pointer(&sent[0]), &ref, 0, size, 3, nil)
	client.end("put", status, C.XFER_EVENT_PUT, nil)
	status = C.xfer_get(ep, unsafe.Pointer(&back[0]), &ref, 0, size, 4, nil)
	client.end("get", status, C.XFER_EVENT_GET, nil)

	client.end("ep", C.xfer_ep_close(ep), C.XFER_EVENT_CLOSED, unsafe.Pointer(ep))
	server.end("region", C.xfer_region_close(region), C.XFER_EVENT_CLOSED, unsafe.Pointer(region))
	for _, e := range []engine{client, server} {
		e.end("engine", C.xfer_engine_close(e.handle), C.XFER_EVENT_CLOSED, unsafe.Pointer(e.handle))
		must(0, e.file.Close())
		check("engine join", C.xfer_engine_join(e.handle, C.XFER_NONE))
	}
	if string(memory) != string(sent) || string(back) != string(sent) {
		log.Fatal("the bytes differ")
	}
	fmt.Println("ok")
}
