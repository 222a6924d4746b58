// Serves Go's Pub/Sub fake on a free port of the loopback interface: prints its address, and stops
// when its standard input ends.
package main

import (
	"fmt"
	"io"
	"os"

	"cloud.google.com/go/pubsub/v2/pstest"
)

func main() {
	server := pstest.NewServer()
	fmt.Println(server.Addr)
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = server.Close()
}
