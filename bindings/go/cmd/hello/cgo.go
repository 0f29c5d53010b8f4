// SPDX-License-Identifier: Apache-2.0

package main

/*
#cgo pkg-config: xfer
#include <xfer/xfer.h>

#if XFER_VERSION < 0x000100 || XFER_VERSION >= 0x000200
#error "this binding is for libxfer 0.1: before 1.0 the ABI is that of one minor version"
#endif
*/
import "C"
import "log"

func init() { log.SetFlags(0) } // no time in front of the lines

var detail C.xfer_error_t // of the last call that was given it

func name(status C.xfer_status_t) string { return C.GoString(C.xfer_status_name(status)) }

// check ends the program if a call has failed.
func check(what string, status C.xfer_status_t) {
	text := C.xfer_status_text(status)
	if status == detail.status {
		text = &detail.message[0]
	}
	if status != C.XFER_OK {
		log.Fatalf("%s: %s: %s", what, name(status), C.GoString(text))
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}
