// Package suites names the packages of the Go SDK whose tests run against Tidemill, so that go.mod
// and go.sum pin whatever those tests need.
package suites

import (
	_ "github.com/apache/beam/sdks/v2/go/test/integration/primitives" // ParDo, state, timers, windows
	_ "github.com/apache/beam/sdks/v2/go/test/integration/synthetic"  // splittable sources
	_ "github.com/apache/beam/sdks/v2/go/test/integration/wordcount"  // reads a public file
	_ "github.com/apache/beam/sdks/v2/go/test/integration/xlang"      // cross-language
	_ "github.com/apache/beam/sdks/v2/go/test/regression"             // once broken shapes of ParDo
)
