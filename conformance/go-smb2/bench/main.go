// Loads a server with cloudsoda/go-smb2, which sends each request by itself, and checks every byte.
//
//	bench MODE BLOCK GOROUTINES SECONDS FILE_MIB
//
// MODE is read or write. Says "begin" and "end" and waits for a line on standard input at both, so that the caller
// can look at the server's clock; then prints one JSON object.
package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"multilane/conformance/go-smb2/dial"

	"github.com/cloudsoda/go-smb2"
)

const unitBytes = 4096

func main() {
	mode, block, goroutines := os.Args[1], number(2), number(3)
	seconds, length := number(4), number(5)<<20

	share, done, err := dial.Share(dial.Options{})
	check(err)
	defer done()
	file, err := share.Create("go-bench")
	check(err)
	defer file.Close()
	prepare(file, length)

	pass("begin")
	began := time.Now()
	deadline := began.Add(time.Duration(seconds) * time.Second)
	var operations, wrong atomic.Int64
	var group sync.WaitGroup
	for index := range goroutines {
		group.Add(1)
		go func() {
			defer group.Done()
			chance := rand.New(rand.NewPCG(uint64(index), 7))
			buffer, expected := make([]byte, block), make([]byte, block)
			for time.Now().Before(deadline) {
				offset := chance.IntN(length/block) * block
				if !one(file, mode, offset, buffer, expected) {
					wrong.Add(1)
				}
				operations.Add(1)
			}
		}()
	}
	group.Wait()
	elapsed := time.Since(began).Seconds()
	pass("end")
	if mode == "write" {
		wrong.Add(verify(file, length))
	}
	fmt.Printf("{\"ops\": %d, \"seconds\": %.3f, \"errors\": %d}\n", operations.Load(), elapsed, wrong.Load())
}

// one reads or writes one block; both leave the file as it was, so that every read can be checked.
func one(file *smb2.File, mode string, offset int, buffer, expected []byte) bool {
	fill(expected, offset)
	if mode == "write" {
		n, err := file.WriteAt(expected, int64(offset))
		return err == nil && n == len(expected)
	}
	n, err := file.ReadAt(buffer, int64(offset))
	return err == nil && n == len(buffer) && bytes.Equal(buffer, expected)
}

func prepare(file *smb2.File, length int) {
	buffer := make([]byte, 1<<20)
	for offset := 0; offset < length; offset += len(buffer) {
		fill(buffer, offset)
		_, err := file.WriteAt(buffer, int64(offset))
		check(err)
	}
}

func verify(file *smb2.File, length int) (wrong int64) {
	buffer, expected := make([]byte, 1<<20), make([]byte, 1<<20)
	for offset := 0; offset < length; offset += len(buffer) {
		fill(expected, offset)
		if n, err := file.ReadAt(buffer, int64(offset)); err != nil || n != len(buffer) || !bytes.Equal(buffer, expected) {
			wrong++
		}
	}
	return wrong
}

// fill puts into each unit its own place, twice, and bytes that depend on it.
func fill(block []byte, offset int) {
	for at := 0; at < len(block); at += unitBytes {
		place := uint64(offset + at)
		unit := block[at : at+unitBytes]
		binary.LittleEndian.PutUint64(unit, place)
		for word := 8; word < unitBytes; word += 8 {
			binary.LittleEndian.PutUint64(unit[word:], place*0x9e3779b97f4a7c15+uint64(word))
		}
	}
}

func pass(phase string) {
	fmt.Println(phase)
	_, _ = fmt.Scanln()
}

func number(index int) int {
	value, err := strconv.Atoi(os.Args[index])
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
