package main

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
)

// Numbered is what a job of these rows holds at a time: a GiB, several times the memory of the servers that are
// tested with it.
type Numbered struct {
	Elements, Keys, ValueBytes int64
}

var (
	manyValues = Numbered{Elements: 1 << 20, Keys: 1 << 10, ValueBytes: 1 << 10}
	// For state, of which more stays in memory for each value.
	largeValues = Numbered{Elements: 1 << 16, Keys: 1 << 6, ValueBytes: 1 << 14}
)

func init() {
	rows["large_group_by_key"] = largeRow(manyValues, func(s beam.Scope, values beam.PCollection) {
		beam.ParDo0(s, &checkGroups{Numbered: manyValues}, beam.GroupByKey(s, values))
	})
	rows["large_reshuffle"] = largeRow(manyValues, func(s beam.Scope, values beam.PCollection) {
		beam.ParDo0(s, &checkPairs{Numbered: manyValues}, beam.Reshuffle(s, values))
	})
	rows["large_side_input"] = largeRow(manyValues, func(s beam.Scope, values beam.PCollection) {
		side := beam.SideInput{Input: beam.DropKey(s, values)}
		beam.ParDo0(s, &checkSide{Numbered: manyValues}, beam.Impulse(s), side)
	})
	rows["large_state"] = largeRow(largeValues, func(s beam.Scope, values beam.PCollection) {
		held := state.MakeBagState[[]byte]("held")
		read := beam.ParDo(s, &collect{Numbered: largeValues, Held: held}, values)
		beam.ParDo0(s, &checkPairs{Numbered: largeValues}, read)
	})
	register.DoFn3x1[context.Context, []byte, func(int64, []byte), error](&generateNumbered{})
	register.DoFn3x1[context.Context, int64, func(*[]byte) bool, error](&checkGroups{})
	register.DoFn3x1[context.Context, int64, []byte, error](&checkPairs{})
	register.DoFn3x1[context.Context, []byte, func(*[]byte) bool, error](&checkSide{})
	register.DoFn4x1[state.Provider, int64, []byte, func(int64, []byte), error](&collect{})
}

func largeRow(values Numbered, consume func(beam.Scope, beam.PCollection)) row {
	return row{
		build: func(s beam.Scope) {
			consume(s, beam.ParDo(s, &generateNumbered{Numbered: values}, beam.Impulse(s)))
		},
		want: map[string]int64{
			"elements": values.Elements,
			"sum":      values.Elements * (values.Elements - 1) / 2,
		},
		payloadBytes: values.Elements * (8 + values.ValueBytes),
	}
}

// generateNumbered emits values that each hold their number all through.
type generateNumbered struct{ Numbered Numbered }

func (fn *generateNumbered) ProcessElement(_ context.Context, _ []byte, emit func(int64, []byte)) error {
	value := make([]byte, fn.Numbered.ValueBytes)
	for number := range fn.Numbered.Elements {
		for at := 0; at < len(value); at += 8 {
			binary.LittleEndian.PutUint64(value[at:], uint64(number)+uint64(at))
		}
		emit(number%fn.Numbered.Keys, value)
	}
	return nil
}

// sumUp counts what it is shown and adds its numbers up.
type sumUp struct {
	elements, sum int64
}

// add takes a value, which must be whole, and gives its number.
func (s *sumUp) add(value []byte, expected Numbered) (int64, error) {
	if int64(len(value)) != expected.ValueBytes {
		return 0, fmt.Errorf("a value has %d bytes", len(value))
	}
	number := binary.LittleEndian.Uint64(value)
	for at := 0; at < len(value); at += 8 {
		if found := binary.LittleEndian.Uint64(value[at:]); found != number+uint64(at) {
			return 0, fmt.Errorf("value %d holds %d at %d", number, found, at)
		}
	}
	s.elements++
	s.sum += int64(number)
	return int64(number), nil
}

func (s *sumUp) report(ctx context.Context) {
	elementCounter.Inc(ctx, s.elements)
	sumCounter.Inc(ctx, s.sum)
	*s = sumUp{}
}

var sumCounter = beam.NewCounter("load", "sum")

// checkGroups wants each value under its key.
type checkGroups struct {
	Numbered Numbered
	seen     sumUp
}

func (fn *checkGroups) ProcessElement(_ context.Context, key int64, values func(*[]byte) bool) error {
	var value []byte
	for values(&value) {
		number, err := fn.seen.add(value, fn.Numbered)
		if err != nil {
			return err
		}
		if number%fn.Numbered.Keys != key {
			return fmt.Errorf("value %d is in the group of %d", number, key)
		}
	}
	return nil
}

func (fn *checkGroups) FinishBundle(ctx context.Context) { fn.seen.report(ctx) }

type checkPairs struct {
	Numbered Numbered
	seen     sumUp
}

func (fn *checkPairs) ProcessElement(_ context.Context, _ int64, value []byte) error {
	_, err := fn.seen.add(value, fn.Numbered)
	return err
}

func (fn *checkPairs) FinishBundle(ctx context.Context) { fn.seen.report(ctx) }

type checkSide struct{ Numbered Numbered }

func (fn *checkSide) ProcessElement(ctx context.Context, _ []byte, side func(*[]byte) bool) error {
	var seen sumUp
	var value []byte
	for side(&value) {
		if _, err := seen.add(value, fn.Numbered); err != nil {
			return err
		}
	}
	seen.report(ctx)
	return nil
}

// collect keeps the values of a key, and puts them all out with the last of them.
type collect struct {
	Numbered Numbered
	Held     state.Bag[[]byte]
}

func (fn *collect) ProcessElement(provider state.Provider, key int64, value []byte, emit func(int64, []byte)) error {
	if err := fn.Held.Add(provider, value); err != nil {
		return err
	}
	number := int64(binary.LittleEndian.Uint64(value))
	if number < fn.Numbered.Elements-fn.Numbered.Keys {
		return nil
	}
	held, _, err := fn.Held.Read(provider)
	for _, value := range held {
		emit(key, value)
	}
	return err
}
