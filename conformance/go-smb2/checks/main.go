// Checks a server with cloudsoda/go-smb2 and prints one line a check; SMB_TREE is the folder to copy.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"time"

	"multilane/conformance/go-smb2/dial"

	"github.com/cloudsoda/go-smb2"
)

const (
	copiers         = 8         // connections' goroutines that copy the tree
	sharedFileBytes = 32 << 20  // the file that many read at once
	readers         = 16        // goroutines that read it
	readsEach       = 400       // random reads a goroutine makes
	chunkBytes      = 256 << 10 // longest random read
)

func main() {
	check("log in and mount, signed", func() error { return roundTrip(dial.Options{RequireSigning: true}) })
	check("log in and mount, unsigned where the server allows", func() error { return roundTrip(dial.Options{}) })
	for _, dialect := range []uint16{0x0202, 0x0210, 0x0300, 0x0302, 0x0311} {
		check(fmt.Sprintf("dialect %#06x both ways", dialect), func() error {
			return roundTrip(dial.Options{RequireSigning: true, Dialect: dialect})
		})
	}
	check("a wrong password is refused", wrongPassword)
	check("the shares are listed", sharesListed)

	share, done, err := dial.Share(dial.Options{RequireSigning: true})
	if err != nil {
		fmt.Println("not ok a connection for the other checks -", err)
		os.Exit(1)
	}
	defer done()
	check("copy a tree there", func() error { return copyThere(share, os.Getenv("SMB_TREE"), "go-tree") })
	check("copy a tree back and compare", func() error { return compareBack(share, os.Getenv("SMB_TREE"), "go-tree") })
	check("remove the tree", func() error { return share.RemoveAll("go-tree") })
	check("rename, also over an existing name", func() error { return rename(share) })
	check("stat, chtimes, truncate", func() error { return stat(share) })
	check("errors map to the os package's", func() error { return osErrors(share) })
	check("concurrent random reads return the right bytes", func() error { return concurrentReads(share) })
	check("concurrent writers do not mix their data", func() error { return concurrentWrites(share) })
}

func check(name string, body func() error) {
	if err := body(); err != nil {
		fmt.Printf("not ok %s - %s\n", name, strings.ReplaceAll(err.Error(), "\n", " | "))
		return
	}
	fmt.Println("ok", name)
}

func roundTrip(options dial.Options) error {
	share, done, err := dial.Share(options)
	if err != nil {
		return err
	}
	defer done()
	data := randomBytes(uint64(options.Dialect)+1, 3<<20)
	if err := share.WriteFile("go-round-trip", data, 0o644); err != nil {
		return err
	}
	if err := same(share, "go-round-trip", data); err != nil {
		return err
	}
	return share.Remove("go-round-trip")
}

func wrongPassword() error {
	_, err := dial.Session(dial.Options{Password: "wrong"})
	var response *smb2.ResponseError
	if errors.As(err, &response) && response.Code == 0xc000006d {
		return nil
	}
	return fmt.Errorf("expected LOGON_FAILURE, got %v", err)
}

func sharesListed() error {
	session, err := dial.Session(dial.Options{RequireSigning: true})
	if err != nil {
		return err
	}
	defer session.Logoff()
	names, err := session.ListSharenames()
	if err != nil {
		return err
	}
	for _, name := range names {
		if name == os.Getenv("SMB_SHARE") {
			return nil
		}
	}
	return fmt.Errorf("not in the list: %v", names)
}

// copyThere makes the folders first, then copies the files from several goroutines.
func copyThere(share *smb2.Share, local, remote string) error {
	files, folders, err := walk(local)
	if err != nil {
		return err
	}
	if err := share.MkdirAll(remote, 0o755); err != nil {
		return err
	}
	for _, folder := range folders {
		if err := share.Mkdir(remotePath(remote, folder), 0o755); err != nil {
			return fmt.Errorf("%s: %w", folder, err)
		}
	}
	return inParallel(files, func(name string) error {
		data, err := os.ReadFile(filepath.Join(local, name))
		if err != nil {
			return err
		}
		return share.WriteFile(remotePath(remote, name), data, 0o644)
	})
}

// compareBack lists what the server has and compares names and every byte.
func compareBack(share *smb2.Share, local, remote string) error {
	files, folders, err := walk(local)
	if err != nil {
		return err
	}
	var there []string
	err = fs.WalkDir(share.DirFS(remote), ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && path != "." {
			there = append(there, path)
		}
		return err
	})
	if err != nil {
		return err
	}
	expected := append(append([]string{}, files...), folders...)
	sort.Strings(expected)
	sort.Strings(there)
	if strings.Join(expected, "\x00") != strings.Join(there, "\x00") {
		return fmt.Errorf("%d names expected, %d seen, or some differ", len(expected), len(there))
	}
	return inParallel(files, func(name string) error {
		data, err := os.ReadFile(filepath.Join(local, name))
		if err != nil {
			return err
		}
		return same(share, remotePath(remote, name), data)
	})
}

func rename(share *smb2.Share) error {
	for name, text := range map[string]string{"go-one": "one", "go-two": "two"} {
		if err := share.WriteFile(name, []byte(text), 0o644); err != nil {
			return err
		}
	}
	if err := share.Rename("go-one", "go-three"); err != nil {
		return err
	}
	// This client always allows the rename to replace.
	if err := share.Rename("go-three", "go-two"); err != nil {
		return err
	}
	if err := same(share, "go-two", []byte("one")); err != nil {
		return err
	}
	if err := share.Mkdir("go-folder", 0o755); err != nil {
		return err
	}
	if err := share.Rename("go-two", `go-folder\two`); err != nil {
		return err
	}
	if err := share.Rename("go-folder", "go-moved"); err != nil {
		return err
	}
	if err := same(share, `go-moved\two`, []byte("one")); err != nil {
		return err
	}
	return share.RemoveAll("go-moved")
}

func stat(share *smb2.Share) error {
	if err := share.WriteFile("go-stat", make([]byte, 12345), 0o644); err != nil {
		return err
	}
	when := time.Date(2021, 2, 3, 4, 5, 6, 700, time.UTC)
	if err := share.Chtimes("go-stat", when, when); err != nil {
		return err
	}
	facts, err := share.Stat("GO-STAT")
	if err != nil {
		return err
	}
	if facts.Size() != 12345 || facts.IsDir() || !facts.ModTime().Equal(when) {
		return fmt.Errorf("size %d, folder %v, time %v", facts.Size(), facts.IsDir(), facts.ModTime())
	}
	if err := share.Truncate("go-stat", 100); err != nil {
		return err
	}
	if facts, err = share.Stat("go-stat"); err != nil || facts.Size() != 100 {
		return fmt.Errorf("after truncate: %v, %v", facts, err)
	}
	if _, err := share.Statfs("."); err != nil {
		return err
	}
	return share.Remove("go-stat")
}

func osErrors(share *smb2.Share) error {
	if _, err := share.Stat("go-absent"); !os.IsNotExist(err) {
		return fmt.Errorf("an absent file: %v", err)
	}
	if err := share.Mkdir("go-exists", 0o755); err != nil {
		return err
	}
	if err := share.Mkdir("go-exists", 0o755); !os.IsExist(err) {
		return fmt.Errorf("an existing folder: %v", err)
	}
	return share.Remove("go-exists")
}

func concurrentReads(share *smb2.Share) error {
	data := randomBytes(7, sharedFileBytes)
	if err := share.WriteFile("go-shared", data, 0o644); err != nil {
		return err
	}
	file, err := share.Open("go-shared")
	if err != nil {
		return err
	}
	err = several(readers, func(number int) error {
		chance := rand.New(rand.NewPCG(uint64(number), 1))
		buffer := make([]byte, chunkBytes)
		for range readsEach {
			length := 1 + chance.IntN(chunkBytes)
			offset := chance.IntN(sharedFileBytes - length)
			n, err := file.ReadAt(buffer[:length], int64(offset))
			if err != nil || n != length {
				return fmt.Errorf("%d bytes at %d: %d, %v", length, offset, n, err)
			}
			if !bytes.Equal(buffer[:length], data[offset:offset+length]) {
				return fmt.Errorf("%d bytes at %d differ", length, offset)
			}
		}
		return nil
	})
	return errors.Join(err, file.Close(), share.Remove("go-shared"))
}

// concurrentWrites gives each goroutine its own stripe of one file.
func concurrentWrites(share *smb2.Share) error {
	const stripe = sharedFileBytes / readers
	data := randomBytes(9, sharedFileBytes)
	file, err := share.Create("go-striped")
	if err != nil {
		return err
	}
	err = several(readers, func(number int) error {
		for offset := number * stripe; offset < (number+1)*stripe; offset += chunkBytes {
			if _, err := file.WriteAt(data[offset:min(offset+chunkBytes, (number+1)*stripe)], int64(offset)); err != nil {
				return err
			}
		}
		return nil
	})
	return errors.Join(err, file.Sync(), file.Close(), same(share, "go-striped", data), share.Remove("go-striped"))
}

func same(share *smb2.Share, name string, expected []byte) error {
	seen, err := share.ReadFile(name)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if !bytes.Equal(seen, expected) {
		return fmt.Errorf("%s: %d bytes that are not the %d expected", name, len(seen), len(expected))
	}
	return nil
}

// walk returns files and folders below root, with slashes; folders before what is in them.
func walk(root string) (files, folders []string, err error) {
	err = fs.WalkDir(os.DirFS(root), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == "." {
			return err
		}
		if entry.IsDir() {
			folders = append(folders, path)
		} else {
			files = append(files, path)
		}
		return nil
	})
	return files, folders, err
}

func remotePath(folder, name string) string {
	return folder + `\` + strings.ReplaceAll(name, "/", `\`)
}

func inParallel(names []string, body func(string) error) error {
	work := make(chan string)
	go func() {
		defer close(work)
		for _, name := range names {
			work <- name
		}
	}()
	return several(copiers, func(int) error {
		var first error
		for name := range work {
			if err := body(name); err != nil && first == nil {
				first = fmt.Errorf("%s: %w", name, err)
			}
		}
		return first
	})
}

func several(count int, body func(number int) error) error {
	results := make([]error, count)
	var group sync.WaitGroup
	for number := range count {
		group.Add(1)
		go func() { defer group.Done(); results[number] = body(number) }()
	}
	group.Wait()
	return errors.Join(results...)
}

func randomBytes(seed uint64, length int) []byte {
	chance := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	data := make([]byte, length)
	_, _ = chance.Read(data)
	return data
}
