// SPDX-License-Identifier: Apache-2.0

package xfer_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"xfer"
)

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

// Two engines of one process; in two processes it is the same code.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	owner, engine := must(xfer.Open(xfer.Options{})), must(xfer.Open(xfer.Options{}))
	defer owner.Close()
	defer engine.Close()
	lent := must(owner.Alloc(64, xfer.RegionOptions{Name: "greeting", Access: xfer.Read | xfer.Write}))
	ep := must(engine.Dial(must(owner.Listen("tcp://127.0.0.1:0", xfer.ListenOptions{})), xfer.DialOptions{}))

	ref, _, err := ep.Lookup(ctx, "greeting")
	if err == nil {
		err = ep.Put(ctx, []byte("hello over there"), ref, 0)
	}
	fmt.Println(err, string(lent.Bytes()[:16]))
	// Output: <nil> hello over there
}

// A KV cache in the memory of a device is put page by page, from wherever cuMemAlloc or a framework has it.
func ExampleDeviceMemory() {
	const pageBytes = 64 << 10
	put := func(ctx context.Context, ep *xfer.Endpoint, layer uintptr, length int, remote xfer.Ref, from, to []int32) error {
		batch, err := ep.Batch()
		if err != nil {
			return err
		}
		defer batch.Close() // from then on the layer may be freed
		bases := []xfer.PageBase{{Local: xfer.DeviceMemory(layer, length), Remote: remote}}
		if err := xfer.AddPages(batch, xfer.PutEntries, xfer.PageShape{Length: pageBytes}, bases, from, to); err != nil {
			return err
		}
		return batch.Submit(ctx, xfer.SubmitOptions{})
	}
	_ = put
}
