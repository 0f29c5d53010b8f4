// SPDX-License-Identifier: Apache-2.0

package xfer

/*
#cgo pkg-config: xfer
#include <xfer/text.h>

#if XFER_VERSION < 0x000100 || XFER_VERSION >= 0x000200
#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)
#pragma message("the header is of libxfer " TEXT(XFER_VERSION_MAJOR) "." TEXT(XFER_VERSION_MINOR))
#error "this binding is for libxfer 0.1: before 1.0 the ABI is that of one minor version"
#endif
*/
import "C"

import "fmt"

// HeaderVersion is the version of the header that this package was built with, as 0x00MMmmpp.
const HeaderVersion = C.XFER_VERSION

// Version is that of the library that runs, as 0x00MMmmpp.
func Version() uint32 { return uint32(C.xfer_version()) }

// VersionString is that of the library that runs, such as "0.1.0".
func VersionString() string { return C.GoString(C.xfer_version_string()) }

// matching is nil if a library serves what was built with a header.
func matching(library, header uint32) error {
	same := library>>16 == header>>16 && library >= header
	if library>>16 == 0 { // before 1.0 the ABI is that of one minor version
		same = library>>8 == header>>8
	}
	if same {
		return nil
	}
	return &Error{Status: ErrVersion, Fenced: true, Text: fmt.Sprintf(
		"the library is libxfer %s, and this binding was built for %s", dotted(library), dotted(header))}
}

func dotted(version uint32) string {
	return fmt.Sprintf("%d.%d.%d", version>>16, version>>8&0xff, version&0xff)
}
