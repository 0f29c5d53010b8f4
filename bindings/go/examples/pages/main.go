// SPDX-License-Identifier: Apache-2.0

// Moves the KV cache of a request from prefill to decode, layer by layer, by the page tables of both ends.
package main

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"math/rand"
	"time"

	"xfer"
)

const layers, page, size = 4, 16 << 10, 64 * page // size is a layer's, which has 64 pages

// Where the blocks of the request are, at prefill and at decode: in whatever pages were free there.
var (
	sources = []int32{17, 36, 54, 51, 48, 4, 16, 7, 31, 59, 28, 30, 41, 24, 13, 6, 55, 1, 50, 27, 38, 0, 53, 63}
	targets = []int32{7, 5, 62, 23, 53, 10, 47, 51, 42, 54, 19, 16, 38, 13, 56, 2, 37, 43, 58, 27, 40, 25, 32, 60}
)

// must ends the program if a call has failed.
func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

// computed is a layer with the request's blocks in the pages of a table, and zeros elsewhere.
func computed(layer uint64, table []int32) []byte {
	content, memory := rand.New(rand.NewSource(int64(layer))), make([]byte, size)
	for _, number := range table {
		content.Read(memory[int(number)*page:][:page])
	}
	return memory
}

// prefill sends each layer as soon as it is there, and returns how many bytes it has sent.
func prefill(ctx context.Context, engine *xfer.Engine, uri string) int {
	cache := must(engine.Alloc(layers*size, xfer.RegionOptions{})).Bytes() // no access: it is not lent to peers
	ep := must(engine.Dial(uri, xfer.DialOptions{}))
	ref, _, err := ep.Lookup(ctx, "kv", xfer.Wait) // decode may lend it after we ask
	must(0, err)
	shape := xfer.PageShape{Length: page, LocalStride: page, RemoteStride: page}
	ended := make(chan error, layers)
	for layer := range uint64(layers) {
		memory := cache[layer*size:][:size]
		copy(memory, computed(layer, sources))
		batch := must(ep.Batch()) // is closed with the engine
		base := []xfer.PageBase{{Local: memory, Remote: ref, Offset: layer * size}}
		must(0, xfer.AddPages(batch, xfer.PutEntries, shape, base, sources, targets))
		// Submit waits for the layer's end, so the next layer is computed beside it. The note follows the last byte.
		go func() { ended <- batch.Submit(ctx, xfer.SubmitOptions{Notify: &xfer.Note{Key: layer}}) }()
	}
	for range layers {
		must(0, <-ended)
	}
	return layers * len(sources) * page
}

func run() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	events := make(chan xfer.Event, 16) // what ends no operation of decode's own, such as notifications
	decode, prefiller := must(xfer.Open(xfer.Options{Events: events})), must(xfer.Open(xfer.Options{}))
	uri := must(decode.Listen("tcp://127.0.0.1:0", xfer.ListenOptions{}))
	sent := make(chan int)
	go func() { sent <- prefill(ctx, prefiller, uri) }()
	cache := must(decode.Alloc(layers*size, xfer.RegionOptions{Name: "kv", Access: xfer.Write})).Bytes()
	for came := map[uint64]bool{}; len(came) < layers; {
		select {
		case event := <-events:
			if note, is := event.(*xfer.Notification); !is {
				continue // such as that a peer has come
			} else if note.Err != nil {
				log.Fatal(note.Err) // its batch has failed
			} else if key := note.Key; key >= layers || !bytes.Equal(cache[key*size:][:size], computed(key, targets)) {
				log.Fatalf("layer %d is not as prefill has it", key)
			} else {
				came[key] = true
			}
		case <-ctx.Done():
			log.Fatal(ctx.Err())
		}
	}
	fmt.Printf("pages: %d layers, %d bytes, each layer checked when it came\n", layers, <-sent)
	must(0, prefiller.Close())
	must(0, decode.Close())
}

func main() {
	log.SetFlags(0) // no time in front of an error
	run()
	fmt.Println("ok")
}
