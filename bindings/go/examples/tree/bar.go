// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"strings"
)

const cells = 40

// bar shows progress on a terminal; on anything else it shows nothing.
func bar(on *os.File) func(done, total uint64) {
	info, err := on.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return func(uint64, uint64) {}
	}
	return func(done, total uint64) {
		full := int(cells * done / total)
		fmt.Fprintf(on, "\r[%s%s] %.1f of %.1f MB", strings.Repeat("#", full), strings.Repeat(".", cells-full),
			float64(done)/1e6, float64(total)/1e6)
		if done == total {
			fmt.Fprintln(on)
		}
	}
}
