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
	"math/rand/v2"
	"os"

	"multilane/conformance/go-load"
	"multilane/conformance/go-smb2/dial"

	"github.com/cloudsoda/go-smb2"
)

const unitBytes = 4096

func main() {
	mode, block, goroutines := os.Args[1], load.Number(2), load.Number(3)
	seconds, length := load.Number(4), load.Number(5)<<20

	share, done, err := dial.Share(dial.Options{})
	load.Check(err)
	defer done()
	file, err := share.Create("go-bench")
	load.Check(err)
	defer file.Close()
	prepare(file, length)

	workers := make([]func() bool, goroutines)
	for index := range workers {
		chance := rand.New(rand.NewPCG(uint64(index), 7))
		buffer, expected := make([]byte, block), make([]byte, block)
		workers[index] = func() bool {
			return one(file, mode, chance.IntN(length/block)*block, buffer, expected)
		}
	}
	result := load.Run(seconds, workers)
	var wrong int64
	if mode == "write" {
		wrong = verify(file, length)
	}
	result.Print(wrong)
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
		load.Check(err)
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
