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

	"multilane/conformance/go-load"
	"multilane/conformance/go-smb2/dial"

	"github.com/cloudsoda/go-smb2"
)

const fileBytes = 100_000

func main() {
	sessions, files, reconnects := load.Number(1), load.Number(2), load.Number(3)
	for session := 0; session < sessions; session++ {
		share, done, err := dial.Share(dial.Options{RequireSigning: session%2 == 0})
		load.Check(err)
		defer done()
		work(share, session, files)
	}
	for range reconnects {
		share, done, err := dial.Share(dial.Options{RequireSigning: true})
		load.Check(err)
		_, err = share.ReadFile("kept-0")
		load.Check(err)
		done()
	}
	fmt.Println("done")
	_, err := bufio.NewReader(os.Stdin).ReadString('\n')
	load.Check(err)
}

func work(share *smb2.Share, session, files int) {
	data := make([]byte, fileBytes)
	load.Check(share.WriteFile(fmt.Sprintf("kept-%d", session), data[:session+1], 0o644))
	for file := 0; file < files; file++ {
		name := fmt.Sprintf("file-%d-%d", session, file)
		load.Check(share.WriteFile(name, data[:file*1000%fileBytes], 0o644))
		read, err := share.ReadFile(name)
		load.Check(err)
		if len(read) != file*1000%fileBytes {
			log.Fatalf("%s has %d bytes", name, len(read))
		}
		load.Check(share.Remove(name))
	}
	if _, err := share.Stat("missing"); !errors.Is(err, fs.ErrNotExist) {
		log.Fatalf("missing: %v", err)
	}
	_, err := share.ReadDir("")
	load.Check(err)
}
