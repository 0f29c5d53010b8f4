// SPDX-License-Identifier: Apache-2.0

//go:build go1.24

package xfer

import "weak"

// reference leaves what it refers to to the collector: an engine's goroutine must not keep the engine's own value.
type reference[T any] struct{ pointer weak.Pointer[T] }

func refer[T any](to *T) reference[T] { return reference[T]{weak.Make(to)} }

func (r reference[T]) value() *T { return r.pointer.Value() }
