package main

import (
	"context"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
)

// row is one benchmark: how to build its pipeline, and what its counters must say afterwards.
type row struct {
	build        func(beam.Scope)
	want         map[string]int64
	payloadBytes int64
}

var rows = map[string]row{
	"job_overhead":      fusedRow(10, 1),
	"fused_5m":          fusedRow(5_000_000, 3),
	"group_by_key_1m":   groupByKeyRow(1_000_000, 1_000, 8),
	"group_by_key_3m":   groupByKeyRow(3_000_000, 1_000, 8),
	"group_by_key_1kb":  groupByKeyRow(300_000, 1_000, 1024),
	"combine_1m_keys":   combineRow(1_000_000, 1_000_000),
	"combine_few_keys":  combineRow(1_000_000, 1_000),
	"group_by_key_10m":  groupByKeyRow(10_000_000, 10_000, 8),
	"reshuffle_1m":      reshuffleRow(1_000_000, 8),
	"side_input_1m":     sideInputRow(1_000_000),
	"stateful_100k":     statefulRow(100_000, 50_000),
	"timers_1m":         timersRow(1_000_000),
	"group_by_key_100k": groupByKeyRow(100_000, 1_000, 8),
}

func init() {
	register.DoFn3x1[context.Context, []byte, func(int64), error](&generateInts{})
	register.DoFn3x1[context.Context, []byte, func(int64, []byte), error](&generatePairs{})
	register.DoFn3x1[context.Context, []byte, func(int64, int64), error](&generateIntPairs{})
	register.DoFn2x0[context.Context, int64](&countInts{})
	register.DoFn3x0[context.Context, int64, func(*[]byte) bool](&countGroups{})
	register.DoFn3x0[context.Context, int64, int64](&countSums{})
	register.DoFn3x0[context.Context, int64, []byte](&countPairs{})
	register.DoFn3x0[context.Context, []byte, func(*int64) bool](&countSide{})
	register.DoFn4x1[state.Provider, int64, []byte, func(int64), error](&remember{})
	register.DoFn5x0[beam.Window, timers.Provider, int64, []byte, func(int64)](&wake{})
	register.Function1x1(addOne)
	register.Function2x1(sum)
	register.Emitter1[int64]()
	register.Emitter2[int64, []byte]()
	register.Emitter2[int64, int64]()
	register.Iter1[[]byte]()
	register.Iter1[int64]()
}

func fusedRow(elements int64, steps int) row {
	return row{
		build: func(s beam.Scope) {
			values := beam.ParDo(s, &generateInts{Elements: elements}, beam.Impulse(s))
			for range steps {
				values = beam.ParDo(s, addOne, values)
			}
			beam.ParDo0(s, &countInts{}, values)
		},
		want:         map[string]int64{"elements": elements},
		payloadBytes: elements * 8,
	}
}

func groupByKeyRow(elements, keys, valueBytes int64) row {
	return row{
		build: func(s beam.Scope) {
			generate := &generatePairs{Elements: elements, Keys: keys, ValueBytes: valueBytes}
			pairs := beam.ParDo(s, generate, beam.Impulse(s))
			beam.ParDo0(s, &countGroups{}, beam.GroupByKey(s, pairs))
		},
		want:         map[string]int64{"elements": elements, "groups": keys},
		payloadBytes: elements * (8 + valueBytes),
	}
}

func combineRow(elements, keys int64) row {
	return row{
		build: func(s beam.Scope) {
			pairs := beam.ParDo(s, &generateIntPairs{Elements: elements, Keys: keys}, beam.Impulse(s))
			beam.ParDo0(s, &countSums{}, beam.CombinePerKey(s, sum, pairs))
		},
		want:         map[string]int64{"elements": elements, "groups": keys},
		payloadBytes: elements * 16,
	}
}

func reshuffleRow(elements, valueBytes int64) row {
	return row{
		build: func(s beam.Scope) {
			generate := &generatePairs{Elements: elements, Keys: elements, ValueBytes: valueBytes}
			pairs := beam.ParDo(s, generate, beam.Impulse(s))
			beam.ParDo0(s, &countPairs{}, beam.Reshuffle(s, pairs))
		},
		want:         map[string]int64{"elements": elements},
		payloadBytes: elements * (8 + valueBytes),
	}
}

func sideInputRow(elements int64) row {
	return row{
		build: func(s beam.Scope) {
			impulse := beam.Impulse(s)
			side := beam.ParDo(s, &generateInts{Elements: elements}, impulse)
			beam.ParDo0(s, &countSide{}, impulse, beam.SideInput{Input: side})
		},
		want:         map[string]int64{"elements": elements},
		payloadBytes: elements * 8,
	}
}

func statefulRow(elements, keys int64) row {
	return row{
		build: func(s beam.Scope) {
			pairs := beam.ParDo(s, &generatePairs{Elements: elements, Keys: keys, ValueBytes: 8}, beam.Impulse(s))
			seen := beam.ParDo(s, &remember{Seen: state.MakeBagState[int64]("seen")}, pairs)
			beam.ParDo0(s, &countInts{}, seen)
		},
		want:         map[string]int64{"elements": elements},
		payloadBytes: elements * 16,
	}
}

func timersRow(keys int64) row {
	return row{
		build: func(s beam.Scope) {
			pairs := beam.ParDo(s, &generatePairs{Elements: keys, Keys: keys, ValueBytes: 8}, beam.Impulse(s))
			woken := beam.ParDo(s, &wake{AtTheEnd: timers.InEventTime("end")}, pairs)
			beam.ParDo0(s, &countInts{}, woken)
		},
		want:         map[string]int64{"elements": keys},
		payloadBytes: keys * 16,
	}
}

// remember reads and extends a bag for each element.
type remember struct {
	Seen state.Bag[int64]
}

func (fn *remember) ProcessElement(provider state.Provider, key int64, _ []byte, emit func(int64)) error {
	if _, _, err := fn.Seen.Read(provider); err != nil {
		return err
	}
	emit(key)
	return fn.Seen.Add(provider, key)
}

// wake sets a timer for each key at the end of the window, and emits the key when it fires.
type wake struct {
	AtTheEnd timers.EventTime
}

func (fn *wake) ProcessElement(w beam.Window, provider timers.Provider, _ int64, _ []byte, _ func(int64)) {
	fn.AtTheEnd.Set(provider, w.MaxTimestamp().ToTime())
}

// OnTimer emits the key.
func (fn *wake) OnTimer(_ beam.EventTime, _ timers.Provider, key int64, _ timers.Context, emit func(int64)) {
	emit(key)
}

// generateInts emits 0, 1, 2 … for the one impulse.
type generateInts struct {
	Elements int64
}

func (fn *generateInts) ProcessElement(_ context.Context, _ []byte, emit func(int64)) error {
	for i := range fn.Elements {
		emit(i)
	}
	return nil
}

// generatePairs emits values of a fixed size, spread evenly over the keys.
type generatePairs struct {
	Elements, Keys, ValueBytes int64
}

func (fn *generatePairs) ProcessElement(_ context.Context, _ []byte, emit func(int64, []byte)) error {
	value := make([]byte, fn.ValueBytes)
	for i := range fn.Elements {
		emit(i%fn.Keys, value)
	}
	return nil
}

// generateIntPairs emits the value 1 for keys in turn.
type generateIntPairs struct {
	Elements, Keys int64
}

func (fn *generateIntPairs) ProcessElement(_ context.Context, _ []byte, emit func(int64, int64)) error {
	for i := range fn.Elements {
		emit(i%fn.Keys, 1)
	}
	return nil
}

func addOne(value int64) int64 { return value + 1 }

func sum(a, b int64) int64 { return a + b }

// tally counts in the bundle and reports once per bundle, so that counting costs nothing.
type tally struct {
	groups, elements int64
}

func (t *tally) report(ctx context.Context) {
	groupCounter.Inc(ctx, t.groups)
	elementCounter.Inc(ctx, t.elements)
	t.groups, t.elements = 0, 0
}

var (
	groupCounter   = beam.NewCounter("load", "groups")
	elementCounter = beam.NewCounter("load", "elements")
)

type countInts struct{ tally tally }

func (fn *countInts) ProcessElement(_ context.Context, _ int64) { fn.tally.elements++ }

func (fn *countInts) FinishBundle(ctx context.Context) { fn.tally.report(ctx) }

type countGroups struct{ tally tally }

func (fn *countGroups) ProcessElement(_ context.Context, _ int64, values func(*[]byte) bool) {
	fn.tally.groups++
	var value []byte
	for values(&value) {
		fn.tally.elements++
	}
}

func (fn *countGroups) FinishBundle(ctx context.Context) { fn.tally.report(ctx) }

type countSums struct{ tally tally }

func (fn *countSums) ProcessElement(_ context.Context, _ int64, value int64) {
	fn.tally.groups++
	fn.tally.elements += value
}

func (fn *countSums) FinishBundle(ctx context.Context) { fn.tally.report(ctx) }

type countPairs struct{ tally tally }

func (fn *countPairs) ProcessElement(_ context.Context, _ int64, _ []byte) { fn.tally.elements++ }

func (fn *countPairs) FinishBundle(ctx context.Context) { fn.tally.report(ctx) }

type countSide struct{}

func (*countSide) ProcessElement(ctx context.Context, _ []byte, side func(*int64) bool) {
	var t tally
	var value int64
	for side(&value) {
		t.elements++
	}
	t.report(ctx)
}
