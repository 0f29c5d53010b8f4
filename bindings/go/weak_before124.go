// SPDX-License-Identifier: Apache-2.0

//go:build !go1.24

package xfer

// reference keeps what it refers to: before Go 1.24, only Close ends an engine.
type reference[T any] struct{ pointer *T }

func refer[T any](to *T) reference[T] { return reference[T]{to} }

func (r reference[T]) value() *T { return r.pointer }
