// Package teststream holds pipelines with a TestStream that Beam's own tests reach only behind others.
package teststream

import (
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/ptest"
	"github.com/apache/beam/sdks/v2/go/test/integration/primitives"
)

func TestMain(m *testing.M) {
	ptest.Main(m)
}

// A trigger that waits for five seconds must not fire a millisecond early, however long the steps
// of the stream take by the clock on the wall.
func TestProcessingTimeIsTheStreams(t *testing.T) {
	ptest.BuildAndRun(t, primitives.TriggerAfterProcessingTimeNotTriggered)
}
