// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"

	"xfer"
)

const manifestLimit = 1 << 30

// fetch brings a server's tree to a destination, which is new or empty, and which has all of it or is not changed. From
// several goroutines, one at a time, progress is told how many bytes of how many have come.
func fetch(ctx context.Context, engine *xfer.Engine, uri, destination string, progress func(done, total uint64)) (t tree, err error) {
	ep, err := engine.Dial(uri, xfer.DialOptions{})
	if err != nil {
		return t, err
	}
	defer ep.Close()
	if err := ep.Connect(ctx); err != nil { // a lookup would wait for somebody to listen there
		return t, err
	}
	list, length, err := find(ctx, ep, manifestName)
	if err != nil {
		return t, err
	}
	if length > manifestLimit {
		return t, fmt.Errorf("a manifest of %d bytes is too large", length)
	}
	encoded := make([]byte, length)
	if err := ep.Get(ctx, encoded, list, 0); err != nil {
		return t, fmt.Errorf("the manifest did not come: %w", err)
	}
	if t, err = decode(encoded); err != nil {
		return t, err
	}
	data, length, err := find(ctx, ep, dataName)
	if err != nil {
		return t, err
	}
	if length < t.bytes {
		return t, errors.New("the data is shorter than the manifest says")
	}
	p, err := begin(t, destination)
	if err != nil {
		return t, err
	}
	defer p.discard()
	if err := p.fill(ctx, ep, data, progress); err != nil {
		return t, fmt.Errorf("the bytes did not come: %w", err)
	}
	return t, p.complete()
}

func find(ctx context.Context, ep *xfer.Endpoint, name string) (xfer.Ref, uint64, error) {
	ref, _, err := ep.Lookup(ctx, name)
	if err != nil {
		return ref, 0, fmt.Errorf("%s is not found there: %w", name, err)
	}
	info, err := ref.Info()
	return ref, info.Length, err
}
