// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

// run ends the process, and so fails, by what it finds wrong.
func TestMessages(*testing.T) { run() }
