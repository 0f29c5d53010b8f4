// SPDX-License-Identifier: Apache-2.0

package xfer

import (
	"context"
	"sync"
	"testing"
)

// BenchmarkPut has so many puts of a size in flight, over TCP, to another engine of this process.
func BenchmarkPut(b *testing.B) {
	for _, with := range []struct {
		name         string
		size, window int
	}{{"64B", 64, 1}, {"64Bx256", 64, 256}, {"1MiBx8", 1 << 20, 8}} {
		b.Run(with.name, func(b *testing.B) {
			owner, engine := must(Open(Options{Set: set})), must(Open(Options{Set: set}))
			region := must(owner.Alloc(1<<20, RegionOptions{Access: Write}))
			ep := must(engine.Dial(must(owner.Listen("tcp://127.0.0.1:0", ListenOptions{})), DialOptions{}))
			must(0, ep.Connect(context.Background()))
			ref := must(region.Ref())
			b.ReportAllocs()
			b.SetBytes(int64(with.size))
			b.ResetTimer()
			var all sync.WaitGroup
			for i := range with.window {
				all.Add(1)
				go func() {
					defer all.Done()
					data := make([]byte, with.size)
					for n := i; n < b.N; n += with.window {
						must(0, ep.Put(context.Background(), data, ref, 0))
					}
				}()
			}
			all.Wait()
			b.StopTimer()
			must(0, engine.Close())
			must(0, owner.Close())
		})
	}
}

var set = map[string]string{"transports": "tcp"}
