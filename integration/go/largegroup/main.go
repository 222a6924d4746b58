// Command largegroup groups values of one key that are more than it holds at a time, reads the group
// once or in two places, and prints what was read and how large the heap was as one JSON line.
//
//	largegroup --megabytes=256 --readers=2 --runner=universal --endpoint=localhost:8099 …
package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/x/beamx"
)

const (
	valueBytes = 64 << 10
	mebibyte   = 1 << 20
)

var (
	megabytes = flag.Int("megabytes", 256, "size of the group")
	readers   = flag.Int("readers", 1, "how many steps read it")
)

// What the harness, which is in this process, found.
var found struct {
	Counts  []int  `json:"counts"`
	HeapMax uint64 `json:"heap_max"`
}

func init() {
	register.Function2x0(values)
	register.Function2x1(read)
	register.Emitter2[string, []byte]()
	register.Iter1[[]byte]()
}

func main() {
	flag.Parse()
	beam.Init()
	// Garbage is not what is measured.
	debug.SetGCPercent(20)
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "largegroup:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	pipeline, scope := beam.NewPipelineWithRoot()
	pairs := beam.ParDo(scope, values, beam.Create(scope, *megabytes*(mebibyte/valueBytes)))
	groups := beam.GroupByKey(scope, pairs)
	for range *readers {
		beam.ParDo0(scope, read, groups)
	}
	if err := beamx.Run(ctx, pipeline); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(found)
}

// values makes as many values, which tell their numbers, as it is asked for.
func values(count int, emit func(string, []byte)) {
	for number := range count {
		emit("key", value(number))
	}
}

func value(number int) []byte {
	return bytes.Repeat(binary.BigEndian.AppendUint64(nil, uint64(number)), valueBytes/8)
}

// read expects the values in the order in which one bundle put them out.
func read(key string, values func(*[]byte) bool) error {
	var got []byte
	count := 0
	for values(&got) {
		if !bytes.Equal(got, value(count)) {
			return fmt.Errorf("value %d of %s is another", count, key)
		}
		count++
		if count%256 == 0 {
			var memory runtime.MemStats
			runtime.ReadMemStats(&memory)
			found.HeapMax = max(found.HeapMax, memory.HeapAlloc)
		}
	}
	found.Counts = append(found.Counts, count)
	return nil
}
