// Command load runs one benchmark pipeline with an in-process (LOOPBACK) Go harness and prints what
// it cost as one JSON line.
//
//	load --row=group_by_key_1m --runner=universal --endpoint=localhost:8099 --environment_type=LOOPBACK
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/metrics"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/x/beamx"
)

var rowName = flag.String("row", "job_overhead", "which benchmark to run")

// result is the line printed for one run.
type result struct {
	Row           string  `json:"row"`
	WallSeconds   float64 `json:"wall_seconds"`
	ClientSeconds float64 `json:"client_cpu_seconds"`
	PayloadBytes  int64   `json:"payload_bytes"`
}

func main() {
	flag.Parse()
	beam.Init()
	row, ok := rows[*rowName]
	if !ok {
		fail(fmt.Errorf("unknown row %q", *rowName))
	}
	outcome, err := run(context.Background(), row)
	if err != nil {
		fail(err)
	}
	outcome.Row = *rowName
	if err := json.NewEncoder(os.Stdout).Encode(outcome); err != nil {
		fail(err)
	}
}

// run executes the row's pipeline once and checks the counts that it must have reported.
func run(ctx context.Context, row row) (result, error) {
	pipeline, scope := beam.NewPipelineWithRoot()
	row.build(scope)
	cpuBefore, start := cpuSeconds(), time.Now()
	done, err := beamx.RunWithMetrics(ctx, pipeline)
	wall, cpu := time.Since(start).Seconds(), cpuSeconds()-cpuBefore
	if err != nil {
		return result{}, err
	}
	if err := check(done.Metrics().AllMetrics(), row.want); err != nil {
		return result{}, err
	}
	return result{WallSeconds: wall, ClientSeconds: cpu, PayloadBytes: row.payloadBytes}, nil
}

// check compares counters by name with what the pipeline must have counted.
func check(all metrics.QueryResults, want map[string]int64) error {
	got := map[string]int64{}
	for _, counter := range all.Counters() {
		got[counter.Name()] += counter.Result()
	}
	for name, value := range want {
		if got[name] != value {
			return fmt.Errorf("counter %s is %d, want %d", name, got[name], value)
		}
	}
	return nil
}

// cpuSeconds is the user and system time of this process so far.
func cpuSeconds() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		fail(err)
	}
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(usage.Utime) + seconds(usage.Stime)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "load:", err)
	os.Exit(1)
}
