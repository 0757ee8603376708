// Asks a server for a known number of things with cloudsoda/go-smb2, for who counts them.
//
//	counted SESSIONS FILES RECONNECTS
//
// Each of SESSIONS sessions writes, reads and removes FILES files, asks for one that is not there and lists the folder; then RECONNECTS more sign in,
// read and log off one after the other. Says "done" and keeps the first ones until a line comes on standard input.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"strconv"

	"multilane/conformance/go-smb2/dial"

	"github.com/cloudsoda/go-smb2"
)

const fileBytes = 100_000

func main() {
	sessions, files, reconnects := number(1), number(2), number(3)
	for session := 0; session < sessions; session++ {
		share, done, err := dial.Share(dial.Options{RequireSigning: session%2 == 0})
		check(err)
		defer done()
		work(share, session, files)
	}
	for range reconnects {
		share, done, err := dial.Share(dial.Options{RequireSigning: true})
		check(err)
		_, err = share.ReadFile("kept-0")
		check(err)
		done()
	}
	fmt.Println("done")
	_, err := bufio.NewReader(os.Stdin).ReadString('\n')
	check(err)
}

func work(share *smb2.Share, session, files int) {
	data := make([]byte, fileBytes)
	check(share.WriteFile(fmt.Sprintf("kept-%d", session), data[:session+1], 0o644))
	for file := 0; file < files; file++ {
		name := fmt.Sprintf("file-%d-%d", session, file)
		check(share.WriteFile(name, data[:file*1000%fileBytes], 0o644))
		read, err := share.ReadFile(name)
		check(err)
		if len(read) != file*1000%fileBytes {
			log.Fatalf("%s has %d bytes", name, len(read))
		}
		check(share.Remove(name))
	}
	if _, err := share.Stat("missing"); !errors.Is(err, fs.ErrNotExist) {
		log.Fatalf("missing: %v", err)
	}
	_, err := share.ReadDir("")
	check(err)
}

func number(position int) int {
	value, err := strconv.Atoi(os.Args[position])
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
