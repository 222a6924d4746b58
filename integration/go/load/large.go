package main

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
)

// What a job of these rows holds at a time: several times the memory of the servers that are tested with them.
const (
	largeElements   = 1 << 20
	largeKeys       = 1 << 10
	largeValueBytes = 1 << 10
)

// sumOfNumbers is that of 0 … largeElements - 1.
const sumOfNumbers = int64(largeElements) * (largeElements - 1) / 2

func init() {
	rows["large_group_by_key"] = largeRow(func(s beam.Scope, values beam.PCollection) {
		beam.ParDo0(s, &checkGroups{}, beam.GroupByKey(s, values))
	})
	rows["large_reshuffle"] = largeRow(func(s beam.Scope, values beam.PCollection) {
		beam.ParDo0(s, &checkPairs{}, beam.Reshuffle(s, values))
	})
	rows["large_side_input"] = largeRow(func(s beam.Scope, values beam.PCollection) {
		beam.ParDo0(s, &checkSide{}, beam.Impulse(s), beam.SideInput{Input: beam.DropKey(s, values)})
	})
	rows["large_state"] = largeRow(func(s beam.Scope, values beam.PCollection) {
		counted := beam.ParDo(s, &collect{Held: state.MakeBagState[[]byte]("held")}, values)
		beam.ParDo0(s, &checkPairs{}, counted)
	})
	register.DoFn3x1[context.Context, []byte, func(int64, []byte), error](&generateNumbered{})
	register.DoFn3x1[context.Context, int64, func(*[]byte) bool, error](&checkGroups{})
	register.DoFn3x1[context.Context, int64, []byte, error](&checkPairs{})
	register.DoFn3x1[context.Context, []byte, func(*[]byte) bool, error](&checkSide{})
	register.DoFn4x1[state.Provider, int64, []byte, func(int64, []byte), error](&collect{})
}

func largeRow(consume func(beam.Scope, beam.PCollection)) row {
	return row{
		build: func(s beam.Scope) {
			consume(s, beam.ParDo(s, &generateNumbered{}, beam.Impulse(s)))
		},
		want:         map[string]int64{"elements": largeElements, "sum": sumOfNumbers},
		payloadBytes: largeElements * (8 + largeValueBytes),
	}
}

// generateNumbered emits values that each hold their number all through.
type generateNumbered struct{}

func (*generateNumbered) ProcessElement(_ context.Context, _ []byte, emit func(int64, []byte)) error {
	value := make([]byte, largeValueBytes)
	for number := range uint64(largeElements) {
		for at := 0; at < len(value); at += 8 {
			binary.LittleEndian.PutUint64(value[at:], number+uint64(at))
		}
		emit(int64(number%largeKeys), value)
	}
	return nil
}

// sumUp counts what it is shown and adds its numbers up.
type sumUp struct {
	elements, sum int64
}

func (s *sumUp) add(value []byte) error {
	if len(value) != largeValueBytes {
		return fmt.Errorf("a value has %d bytes", len(value))
	}
	number := binary.LittleEndian.Uint64(value)
	for at := 0; at < len(value); at += 8 {
		if found := binary.LittleEndian.Uint64(value[at:]); found != number+uint64(at) {
			return fmt.Errorf("value %d holds %d at %d", number, found, at)
		}
	}
	s.elements++
	s.sum += int64(number)
	return nil
}

func (s *sumUp) report(ctx context.Context) {
	elementCounter.Inc(ctx, s.elements)
	sumCounter.Inc(ctx, s.sum)
	*s = sumUp{}
}

var sumCounter = beam.NewCounter("load", "sum")

// checkGroups wants each value with its key.
type checkGroups struct{ seen sumUp }

func (fn *checkGroups) ProcessElement(_ context.Context, key int64, values func(*[]byte) bool) error {
	var value []byte
	for values(&value) {
		if err := fn.seen.add(value); err != nil {
			return err
		}
		if number := binary.LittleEndian.Uint64(value); int64(number%largeKeys) != key {
			return fmt.Errorf("value %d is in the group of %d", number, key)
		}
	}
	return nil
}

func (fn *checkGroups) FinishBundle(ctx context.Context) { fn.seen.report(ctx) }

type checkPairs struct{ seen sumUp }

func (fn *checkPairs) ProcessElement(_ context.Context, _ int64, value []byte) error {
	return fn.seen.add(value)
}

func (fn *checkPairs) FinishBundle(ctx context.Context) { fn.seen.report(ctx) }

type checkSide struct{}

func (*checkSide) ProcessElement(ctx context.Context, _ []byte, side func(*[]byte) bool) error {
	var seen sumUp
	var value []byte
	for side(&value) {
		if err := seen.add(value); err != nil {
			return err
		}
	}
	seen.report(ctx)
	return nil
}

// collect keeps all values of a key, and reads them back when it has them all.
type collect struct {
	Held state.Bag[[]byte]
}

func (fn *collect) ProcessElement(provider state.Provider, key int64, value []byte, emit func(int64, []byte)) error {
	if err := fn.Held.Add(provider, value); err != nil {
		return err
	}
	number := binary.LittleEndian.Uint64(value)
	if number/largeKeys != largeElements/largeKeys-1 {
		return nil
	}
	held, _, err := fn.Held.Read(provider)
	for _, value := range held {
		emit(key, value)
	}
	return err
}
