// Package load has several goroutines do one thing over and over for a while, and says what it came to. It is what the benchmarks in Go share.
package load

import (
	"fmt"
	"log"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Result is what a load came to.
type Result struct {
	operations, wrong int64
	seconds           float64
}

// Run has each worker go on in a goroutine of its own until the time is over. A worker does one thing each time and says whether its outcome was right.
// Run says "begin" and "end" and waits for a line on standard input at both, so that the caller can look at the server's clock.
func Run(seconds int, workers []func() bool) Result {
	pass("begin")
	began := time.Now()
	deadline := began.Add(time.Duration(seconds) * time.Second)
	var operations, wrong atomic.Int64
	var group sync.WaitGroup
	for _, once := range workers {
		group.Go(func() {
			for time.Now().Before(deadline) {
				if !once() {
					wrong.Add(1)
				}
				operations.Add(1)
			}
		})
	}
	group.Wait()
	elapsed := time.Since(began).Seconds()
	pass("end")
	return Result{operations: operations.Load(), wrong: wrong.Load(), seconds: elapsed}
}

// Print prints one JSON object; laterWrong are outcomes that were found wrong afterwards.
func (r Result) Print(laterWrong int64) {
	fmt.Printf("{\"ops\": %d, \"seconds\": %.3f, \"errors\": %d}\n", r.operations, r.seconds, r.wrong+laterWrong)
}

func pass(phase string) {
	fmt.Println(phase)
	_, _ = fmt.Scanln()
}

// Number is the argument at this position of the command line.
func Number(position int) int {
	value, err := strconv.Atoi(os.Args[position])
	Check(err)
	return value
}

// Check ends the program where something has failed.
func Check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
