// SPDX-License-Identifier: Apache-2.0

// Package fakecuda is a driver of CUDA without a device, for tests: what the CPU touches of its memory is a SIGSEGV.
package fakecuda

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

static void *(*alloc_memory)(size_t);
static void (*free_memory)(void *);
static void (*write_memory)(void *, const void *, size_t), (*read_memory)(void *, const void *, size_t);
static unsigned (*count_calls)(const char *);
static void (*hold_copies)(int), (*hold_own)(int);
static void *(*make_stream)(void), *(*end_captured)(void *), *(*make_instance)(void *);
static void (*write_on)(void *, void *, const void *, size_t), (*copy_on)(void *, void *, const void *, size_t);
static void (*hold_one)(void *, int), (*capture)(void *), (*launch_on)(void *, void *);
static void (*free_graph)(void *), (*free_instance)(void *), (*end_all)(void);
static int (*is_idle)(void *, unsigned);
static void (*fail_call)(const char *, int, int, int);

// Global, so that the library finds it by its name.
static int load(const char *path) {
	void *driver = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
	if (!driver) return 0;
	*(void **)&alloc_memory = dlsym(driver, "fake_cuda_alloc");
	*(void **)&free_memory = dlsym(driver, "fake_cuda_free");
	*(void **)&write_memory = dlsym(driver, "fake_cuda_write");
	*(void **)&read_memory = dlsym(driver, "fake_cuda_read");
	*(void **)&count_calls = dlsym(driver, "fake_cuda_calls");
	*(void **)&hold_copies = dlsym(driver, "fake_cuda_hold");
	*(void **)&hold_own = dlsym(driver, "fake_cuda_hold_copies");
	*(void **)&make_stream = dlsym(driver, "fake_cuda_stream");
	*(void **)&end_captured = dlsym(driver, "fake_cuda_end_capture");
	*(void **)&make_instance = dlsym(driver, "fake_cuda_instantiate");
	*(void **)&write_on = dlsym(driver, "fake_cuda_write_on");
	*(void **)&copy_on = dlsym(driver, "fake_cuda_copy_on");
	*(void **)&hold_one = dlsym(driver, "fake_cuda_hold_stream");
	*(void **)&capture = dlsym(driver, "fake_cuda_capture");
	*(void **)&launch_on = dlsym(driver, "fake_cuda_launch");
	*(void **)&free_graph = dlsym(driver, "fake_cuda_free_graph");
	*(void **)&free_instance = dlsym(driver, "fake_cuda_free_exec");
	*(void **)&end_all = dlsym(driver, "fake_cuda_end_all");
	*(void **)&is_idle = dlsym(driver, "fake_cuda_idle");
	*(void **)&fail_call = dlsym(driver, "fake_cuda_fail");
	return alloc_memory && free_memory && write_memory && read_memory && count_calls && hold_copies && hold_own &&
	       make_stream && end_captured && make_instance && write_on && copy_on && hold_one && capture && launch_on && free_graph &&
	       free_instance && end_all && is_idle && fail_call;
}

static uintptr_t alloc(size_t size) { return (uintptr_t)alloc_memory(size); }
static void release(uintptr_t at) { free_memory((void *)at); }
static void put(uintptr_t to, const void *from, size_t size) { write_memory((void *)to, from, size); }
static void get(void *to, uintptr_t from, size_t size) { read_memory(to, (void *)from, size); }
static void hold(int held) { hold_copies(held); }
static void hold_of_library(int held) { hold_own(held); }
static unsigned wrong(void) { return count_calls("wrong"); }
static uintptr_t stream(void) { return (uintptr_t)make_stream(); }
static void put_on(uintptr_t on, uintptr_t to, const void *from, size_t size) { write_on((void *)on, (void *)to, from, size); }
static void move_on(uintptr_t on, uintptr_t to, uintptr_t from, size_t size) { copy_on((void *)on, (void *)to, (void *)from, size); }
static void hold_stream(uintptr_t which, int held) { hold_one((void *)which, held); }
static int idle(uintptr_t which, unsigned ms) { return is_idle((void *)which, ms); }
static void begin_capture(uintptr_t on) { capture((void *)on); }
static uintptr_t end_capture(uintptr_t on) {
	void *graph = end_captured((void *)on);
	if (!graph) return 0;
	uintptr_t instance = (uintptr_t)make_instance(graph);
	free_graph(graph);
	return instance;
}
static void launch(uintptr_t instance, uintptr_t on) { launch_on((void *)instance, (void *)on); }
static void destroy(uintptr_t instance) { free_instance((void *)instance); }
static void end(void) { end_all(); }
static void fail(const char *call, int error) { fail_call(call, 1, error, 0); }
*/
import "C"

import "unsafe"

// Load has the engines that are opened from here on take the driver at that path for the system's.
func Load(path string) bool {
	text := C.CString(path)
	defer C.free(unsafe.Pointer(text))
	return C.load(text) != 0
}

// Alloc is the address of memory of its device with those bytes, of which there is one at least.
func Alloc(content []byte) uintptr {
	at := C.alloc(C.size_t(len(content)))
	C.put(at, unsafe.Pointer(&content[0]), C.size_t(len(content)))
	return uintptr(at)
}

// Hold has copies begin, and none of them go on until Hold(false), nor what is in streams.
func Hold(held bool) { C.hold(flag(held)) }

// HoldCopies is for the library's copies alone.
func HoldCopies(held bool) { C.hold_of_library(flag(held)) }

func flag(is bool) C.int {
	if is {
		return 1
	}
	return 0
}

// Read is what the driver reads there.
func Read(at uintptr, length int) []byte {
	content := make([]byte, length)
	C.get(unsafe.Pointer(&content[0]), C.uintptr_t(at), C.size_t(length))
	return content
}

// Free frees what Alloc has given.
func Free(at uintptr) { C.release(C.uintptr_t(at)) }

// Wrong is how often it was asked for what no driver would forgive, such as a copy of memory that was freed.
func Wrong() int { return int(C.wrong()) }

// Stream is a stream of the application.
type Stream uintptr

// NewStream makes one, until End.
func NewStream() Stream { return Stream(C.stream()) }

// Write is by a kernel, in the order of the stream, of the bytes of now.
func (s Stream) Write(to uintptr, content []byte) {
	C.put_on(C.uintptr_t(s), C.uintptr_t(to), unsafe.Pointer(&content[0]), C.size_t(len(content)))
}

// Copy is by a kernel, in the order of the stream, of what is there then.
func (s Stream) Copy(to, from uintptr, length int) {
	C.move_on(C.uintptr_t(s), C.uintptr_t(to), C.uintptr_t(from), C.size_t(length))
}

// Hold has the stream stand until Hold(false).
func (s Stream) Hold(held bool) { C.hold_stream(C.uintptr_t(s), flag(held)) }

// Passes waits until all is done that is in it, for 20 seconds at most.
func (s Stream) Passes() bool { return C.idle(C.uintptr_t(s), 20000) != 0 }

// Capture has what comes into it become a graph, until Captured.
func (s Stream) Capture() { C.begin_capture(C.uintptr_t(s)) }

// Captured is the only instance of that graph; zero: it was broken.
func (s Stream) Captured() Instance { return Instance(C.end_capture(C.uintptr_t(s))) }

// Instance is of a graph.
type Instance uintptr

// Launch puts all of it into a stream.
func (i Instance) Launch(on Stream) { C.launch(C.uintptr_t(i), C.uintptr_t(on)) }

// Free frees it, and the graph with it.
func (i Instance) Free() { C.destroy(C.uintptr_t(i)) }

// End ends all streams and graphs.
func End() { C.end() }

// Fail has the next call of that name return an error.
func Fail(call string, number int) {
	text := C.CString(call)
	defer C.free(unsafe.Pointer(text))
	C.fail(text, C.int(number))
}
