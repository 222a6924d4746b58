// Command wordcount counts the words of a text, or is the worker pool of pipelines that do.
//
//	wordcount --input=in.txt --output=out.txt --runner=universal --endpoint=localhost:8099 …
//	wordcount --pool=50000
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/textio"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/universal/extworker"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/transforms/stats"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/x/beamx"

	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem/local" // paths without a scheme
)

var (
	input  = flag.String("input", "", "file to read")
	output = flag.String("output", "", "file to write")
	pool   = flag.Int("pool", 0, "port at which to serve workers until a signal comes")
)

func init() {
	register.Function2x0(words)
	register.Function2x1(line)
	register.Emitter1[string]()
}

func main() {
	flag.Parse()
	beam.Init()
	ctx := context.Background()
	do := count
	if *pool != 0 {
		do = serve
	}
	if err := do(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "wordcount:", err)
		os.Exit(1)
	}
}

// count runs the pipeline.
func count(ctx context.Context) error {
	pipeline, scope := beam.NewPipelineWithRoot()
	lines := textio.Read(scope, *input)
	counted := stats.Count(scope, beam.ParDo(scope, words, lines))
	textio.Write(scope, *output, beam.ParDo(scope, line, counted))
	return beamx.Run(ctx, pipeline)
}

// serve starts a worker for whoever asks.
func serve(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if _, err := extworker.StartLoopback(ctx, *pool); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

func words(text string, emit func(string)) {
	for _, word := range strings.Fields(text) {
		emit(word)
	}
}

func line(word string, count int) string {
	return fmt.Sprintf("%s: %d", word, count)
}
