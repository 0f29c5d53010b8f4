// SPDX-License-Identifier: Apache-2.0

// Measures puts into the region "bench", of 64 MiB, of the engine at URI, and prints one number:
//
//	bench bandwidth URI SECONDS    puts of 1 MiB, 16 in flight: bytes per second
//	bench rate URI SECONDS         puts of 64 bytes, 256 in flight: puts per second
//	bench latency URI SECONDS      puts of 64 bytes, one after the other: median in microseconds
//	bench pages URI SECONDS        1,000 pages of 4 KiB in one call, one after the other: bytes per second
package main

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"math/rand"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"xfer"
)

const (
	large, largeInFlight = 1 << 20, 16
	small, smallInFlight = 64, 256
	page, pages, region  = 4096, 1000, 64 << 20
)

var ctx = context.Background()

// must ends the program if a call has failed.
func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

// filled is memory that is there: what was never written would be read from one page of zeros.
func filled(size int) []byte { return bytes.Repeat([]byte{2}, size) }

func main() {
	log.SetFlags(0) // no time in front of an error
	cases := map[string]func(*xfer.Endpoint, xfer.Ref, time.Duration) float64{
		"bandwidth": func(ep *xfer.Endpoint, ref xfer.Ref, length time.Duration) float64 {
			return large * begun(ep, ref, length)
		},
		"rate": func(ep *xfer.Endpoint, ref xfer.Ref, length time.Duration) float64 {
			return puts(ep, ref, length, small, smallInFlight)
		},
		"latency": latency,
		"pages":   tables,
	}
	if len(os.Args) != 4 || cases[os.Args[1]] == nil {
		log.Fatal("usage: bench bandwidth|rate|latency|pages URI SECONDS")
	}
	length := time.Duration(must(strconv.ParseFloat(os.Args[3], 64)) * float64(time.Second))
	engine := must(xfer.Open(xfer.Options{Set: map[string]string{"io_threads": "1"}}))
	ep := must(engine.Dial(os.Args[2], xfer.DialOptions{}))
	ref, _, err := ep.Lookup(ctx, "bench")
	must(0, err)
	fmt.Println(cases[os.Args[1]](ep, ref, length))
	must(0, engine.Close())
}

// puts is how many of a size end in a second, where each of so many goroutines has one in flight.
func puts(ep *xfer.Endpoint, ref xfer.Ref, length time.Duration, size, inFlight int) float64 {
	var over atomic.Bool
	done := make([]struct {
		count atomic.Int64
		_     [56]byte // the next one is on another line of the cache
	}, inFlight)
	sum := func() (all int64) {
		for i := range done {
			all += done[i].count.Load()
		}
		return all
	}
	var workers sync.WaitGroup
	for i := range inFlight {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for data := filled(size); !over.Load(); done[i].count.Add(1) {
				must(0, ep.Put(ctx, data, ref, uint64(i*size)))
			}
		}()
	}
	time.Sleep(length / 10)
	began, before := time.Now(), sum()
	time.Sleep(length)
	result := float64(sum()-before) / time.Since(began).Seconds()
	over.Store(true)
	workers.Wait()
	return result
}

// begun is how many large puts end in a second, where one goroutine has so many in flight.
func begun(ep *xfer.Endpoint, ref xfer.Ref, length time.Duration) float64 {
	var pending [largeInFlight]*xfer.Pending
	memory := filled(large * largeInFlight)
	begin := func(i int) { pending[i] = must(ep.BeginPut(ctx, memory[i*large:(i+1)*large], ref, uint64(i*large))) }
	for i := range pending {
		begin(i)
	}
	began, done := time.Now(), 0
	for warm := false; !warm || time.Since(began) < length; {
		if !warm && time.Since(began) >= length/10 {
			began, done, warm = time.Now(), 0, true
		}
		for i := range pending {
			must(0, pending[i].Wait())
			begin(i)
			done++
		}
	}
	result := float64(done) / time.Since(began).Seconds()
	for i := range pending {
		must(0, pending[i].Wait())
	}
	return result
}

// latency is the median time of a put.
func latency(ep *xfer.Endpoint, ref xfer.Ref, length time.Duration) float64 {
	var times []time.Duration
	data := filled(small)
	began := time.Now()
	for end := began; len(times) == 0 || end.Sub(began) < length+length/10; {
		begin := end
		must(0, ep.Put(ctx, data, ref, 0))
		end = time.Now()
		if begin.Sub(began) >= length/10 {
			times = append(times, end.Sub(begin))
		}
	}
	slices.Sort(times)
	return float64(times[len(times)/2].Nanoseconds()) / 1e3
}

// tables is how many bytes are put in a second by page tables, each of which is another one, as those of requests are.
func tables(ep *xfer.Endpoint, ref xfer.Ref, length time.Duration) float64 {
	local, remote := make([]int32, pages), make([]int32, pages)
	for i, number := range rand.Perm(pages) {
		local[i] = int32(number)
	}
	bases := []xfer.PageBase{{Local: filled(page * pages), Remote: ref}}
	batch := must(ep.Batch())
	began, done := time.Now(), 0
	for warm := false; !warm || time.Since(began) < length; done++ {
		if !warm && time.Since(began) >= length/10 {
			began, done, warm = time.Now(), 0, true
		}
		for i := range remote {
			remote[i] = int32((i*389 + done) % (region / page)) // 389 has no divisor in common with it
		}
		must(0, batch.Reset())
		must(0, xfer.AddPages(batch, xfer.PutEntries, xfer.PageShape{Length: page}, bases, local, remote))
		must(0, batch.Submit(ctx, xfer.SubmitOptions{}))
	}
	return float64(done) * page * pages / time.Since(began).Seconds()
}
