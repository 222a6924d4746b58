// Serves Go's Pub/Sub fake on a free port of the loopback interface: prints its address, answers each
// line on its standard input, the path of a topic, with how many messages of it nobody has
// acknowledged, and stops when the input ends.
package main

import (
	"bufio"
	"fmt"
	"os"

	"cloud.google.com/go/pubsub/v2/pstest"
)

func main() {
	server := pstest.NewServer()
	fmt.Println(server.Addr)
	topics := bufio.NewScanner(os.Stdin)
	for topics.Scan() {
		left := 0
		for _, message := range server.Messages() {
			if message.Topic == topics.Text() && message.Acks == 0 {
				left++
			}
		}
		fmt.Println(left)
	}
	_ = server.Close()
}
