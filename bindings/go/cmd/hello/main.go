// SPDX-License-Identifier: Apache-2.0

// Puts 1 MiB into the region of another engine, gets it back, and compares. Usage: hello [URI]
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"log"
	"os"
	"time"

	"xfer"
)

const size = 1 << 20

// must ends the program if a call has failed.
func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func done(what string, err error) {
	must(0, err)
	fmt.Printf("%s: done\n", what)
}

func main() {
	log.SetFlags(0) // no time in front of the lines
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	server := must(xfer.Open(xfer.Options{}))
	region := must(server.Alloc(size, xfer.RegionOptions{Name: "hello", Access: xfer.Read | xfer.Write}))
	uri := must(server.Listen("tcp://127.0.0.1:0", xfer.ListenOptions{}))
	if len(os.Args) > 1 {
		uri = os.Args[1]
	}

	client := must(xfer.Open(xfer.Options{}))
	ep := must(client.Dial(uri, xfer.DialOptions{}))
	done("connect", ep.Connect(ctx))
	ref, _, err := ep.Lookup(ctx, "hello")
	done("lookup", err)
	sent, back := make([]byte, size), make([]byte, size)
	must(rand.Read(sent))
	done("put", ep.Put(ctx, sent, ref, 0))
	done("get", ep.Get(ctx, back, ref, 0))
	if !bytes.Equal(region.Bytes(), sent) || !bytes.Equal(back, sent) {
		log.Fatal("the bytes differ")
	}
	done("close", client.Close())
	done("close", server.Close())
	fmt.Println("ok")
}
