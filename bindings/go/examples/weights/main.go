// SPDX-License-Identifier: Apache-2.0

// A trainer puts its weights into the memory of three workers, each of which is told when it has all of them.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"log"
	"sync"
	"time"

	"xfer"
)

const (
	workers, size, chunk = 3, 8 << 20, 1 << 20
	updated              = 7 // the key of the notification behind the weights
	patience             = 20 * time.Second
)

// must ends the program if a call has failed.
func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

// worker is an engine, what it lends, and what tells it that the weights have come.
type worker struct {
	engine  *xfer.Engine
	weights *xfer.Region
	counter *xfer.Counter
	uri     string
}

func newWorker() worker {
	engine := must(xfer.Open(xfer.Options{}))
	counter := must(engine.Count(updated, 1, patience)) // before anybody can find the weights
	weights := must(engine.Alloc(size, xfer.RegionOptions{Name: "weights", Access: xfer.Write}))
	return worker{engine, weights, counter, must(engine.Listen("tcp://127.0.0.1:0", xfer.ListenOptions{}))}
}

// push begins all puts to all workers before it waits for any.
func push(ctx context.Context, trainer *xfer.Engine, to []worker, weights []byte) {
	var endpoints []*xfer.Endpoint
	for _, w := range to {
		ep := must(trainer.Dial(w.uri, xfer.DialOptions{}))
		ref, _, err := ep.Lookup(ctx, "weights")
		must(0, err)
		for offset := 0; offset < size; offset += chunk {
			must(0, ep.Put(ctx, weights[offset:][:chunk], ref, uint64(offset), xfer.Quiet))
		}
		endpoints = append(endpoints, ep)
	}
	for _, ep := range endpoints {
		must(0, ep.Flush(ctx)) // all puts were applied, or this is the first failure
		must(0, ep.Notify(ctx, nil, updated))
	}
}

func run() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	weights := make([]byte, size)
	must(rand.Read(weights))
	trainer := must(xfer.Open(xfer.Options{}))
	all := make([]worker, workers)
	var done sync.WaitGroup
	for number := range all {
		w := newWorker()
		all[number] = w
		done.Add(1)
		go func() {
			defer done.Done()
			must(w.counter.Wait(ctx))
			if !bytes.Equal(w.weights.Bytes(), weights) {
				log.Fatalf("the weights of worker %d differ", number)
			}
		}()
	}
	push(ctx, trainer, all, weights)
	done.Wait()
	must(0, trainer.Close())
	for _, w := range all {
		must(0, w.engine.Close())
	}
	fmt.Printf("weights: %d bytes to each of %d workers\n", size, workers)
}

func main() {
	log.SetFlags(0) // no time in front of an error
	run()
	fmt.Println("ok")
}
