// SPDX-License-Identifier: Apache-2.0

// A server answers what two clients ask, several requests of each at once.
package main

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"strings"
	"sync"
	"time"

	"xfer"
)

const (
	clients, requests, atOnce, longest = 2, 100, 8, 3000

	// The upper bits of our tags say what a message is, the lowest eight which client's.
	ask, kind = uint64(0x100), ^uint64(0xff)
)

// must ends the program if a call has failed.
func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

// request is what a client asks: 1 to 3,000 bytes; the first one says which client's, the length which number.
func request(client, number int) []byte {
	text := fmt.Sprintf("%c asks for number %d. ", 'a'+client, number)
	return []byte(strings.Repeat(text, longest/len(text)+1)[:1+number*(longest-1)/(requests-1)])
}

// serve answers whoever asks: it knows neither who comes nor how long a message is.
func serve(ctx context.Context, engine *xfer.Engine) (moved uint64) {
	for range clients * requests {
		message := must(engine.Take(ctx, nil, longest, ask, kind))
		// Returns when the client's engine holds the answer, also if the client does not take it yet.
		must(0, message.Peer.Send(ctx, bytes.ToUpper(message.Data), message.Tag))
		moved += 2 * message.Length
	}
	return moved
}

// call asks, and checks the answers: those with one tag come in the order of their requests.
func call(ctx context.Context, engine *xfer.Engine, uri string, client int) {
	ep, tag := must(engine.Dial(uri, xfer.DialOptions{})), ask+uint64(client)
	for i := range requests + atOnce {
		if number := i - atOnce; number >= 0 {
			got := must(engine.Take(ctx, ep, longest, tag, xfer.Exact))
			if !bytes.Equal(got.Data, bytes.ToUpper(request(client, number))) {
				log.Fatalf("client %d has another answer to request %d", client, number)
			}
		}
		if i < requests { // does not wait, and the bytes are ours again at once
			must(0, ep.Send(ctx, request(client, i), tag, xfer.Quiet, xfer.Copy))
		}
	}
	must(0, ep.Flush(ctx)) // says whether a quiet send has failed
}

func run() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	server := must(xfer.Open(xfer.Options{}))
	uri := must(server.Listen("tcp://127.0.0.1:0", xfer.ListenOptions{}))
	var engines []*xfer.Engine
	var done sync.WaitGroup
	for client := range clients {
		engine := must(xfer.Open(xfer.Options{}))
		engines = append(engines, engine)
		done.Add(1)
		go func() {
			defer done.Done()
			call(ctx, engine, uri, client)
		}()
	}
	moved := serve(ctx, server)
	done.Wait()
	for _, engine := range append(engines, server) { // not before: the server would see its last send fail
		must(0, engine.Close())
	}
	fmt.Printf("messages: %d requests and their answers, %d bytes\n", clients*requests, moved)
}

func main() {
	log.SetFlags(0) // no time in front of an error
	run()
	fmt.Println("ok")
}
