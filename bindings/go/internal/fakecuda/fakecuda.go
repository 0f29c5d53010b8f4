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
static void (*hold_copies)(int);

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
	return alloc_memory && free_memory && write_memory && read_memory && count_calls && hold_copies;
}

static uintptr_t alloc(size_t size) { return (uintptr_t)alloc_memory(size); }
static void release(uintptr_t at) { free_memory((void *)at); }
static void put(uintptr_t to, const void *from, size_t size) { write_memory((void *)to, from, size); }
static void get(void *to, uintptr_t from, size_t size) { read_memory(to, (void *)from, size); }
static void hold(int held) { hold_copies(held); }
static unsigned wrong(void) { return count_calls("wrong"); }
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

// Hold has copies begin, and none of them go on until Hold(false).
func Hold(held bool) {
	if held {
		C.hold(1)
	} else {
		C.hold(0)
	}
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
