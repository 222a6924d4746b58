// Package suites names the packages of the Go SDK whose tests run against Tidemill, so that go.mod
// and go.sum pin whatever those tests need.
package suites

import (
	_ "github.com/apache/beam/sdks/v2/go/examples/snippets"            // of Beam's documentation
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/io/fileio"           // files by pattern
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/io/textio"           // lines of files
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/testing/passert"     // what all tests assert with
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/transforms/batch"    // GroupIntoBatches
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/transforms/filter"   // filters and Distinct
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/transforms/periodic" // impulses by the clock
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/transforms/stats"    // sums and means
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/transforms/top"      // largest and smallest

	_ "github.com/apache/beam/sdks/v2/go/test/integration/primitives" // ParDo, state, timers, windows
	_ "github.com/apache/beam/sdks/v2/go/test/integration/synthetic"  // splittable sources
	_ "github.com/apache/beam/sdks/v2/go/test/integration/wordcount"  // reads a public file
	_ "github.com/apache/beam/sdks/v2/go/test/integration/xlang"      // cross-language
	_ "github.com/apache/beam/sdks/v2/go/test/regression"             // once broken shapes of ParDo
)
