// Downloads one file of a share over and over in ranges, and compares every byte with the file on the disk.
//
//	bench NAME BLOCK GOROUTINES SECONDS
//
// by azfile, Microsoft's module as it is published. Says "begin" and "end" and waits for a line on
// standard input at both, so that the caller can look at the server's clock; then prints one JSON object.
package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"

	"multilane/conformance/go-load"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azfile/file"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azfile/service"
)

var (
	account, encoded = os.Getenv("REST_ACCOUNT"), os.Getenv("REST_KEY")
	share            = os.Getenv("SMB_SHARE")
)

// A read fills the block with what the file has from the offset on.
type read func(offset int64, block []byte) error

func main() {
	name, block, goroutines, seconds := os.Args[1], load.Number(2), load.Number(3), load.Number(4)
	expected, err := os.ReadFile(filepath.Join(os.Getenv("LOCAL_FOLDER"), name))
	load.Check(err)
	blocks := len(expected) / block

	readers := make([]read, goroutines)
	for index := range readers {
		readers[index], err = azfile(name)
		load.Check(err)
		load.Check(readers[index](0, make([]byte, block)))
	}
	var next atomic.Int64
	workers := make([]func() bool, goroutines)
	for index, one := range readers {
		buffer := make([]byte, block)
		workers[index] = func() bool {
			offset := int(next.Add(1)-1) % blocks * block
			err := one(int64(offset), buffer)
			return err == nil && bytes.Equal(buffer, expected[offset:offset+block])
		}
	}
	load.Run(seconds, workers).Print(0)
}

func azfile(name string) (read, error) {
	key, err := service.NewSharedKeyCredential(account, encoded)
	if err != nil {
		return nil, err
	}
	all, err := service.NewClientWithSharedKeyCredential(os.Getenv("REST_URL"), key, nil)
	if err != nil {
		return nil, err
	}
	one := all.NewShareClient(share).NewRootDirectoryClient().NewFileClient(name)
	return func(offset int64, block []byte) error {
		options := &file.DownloadStreamOptions{Range: file.HTTPRange{Offset: offset, Count: int64(len(block))}}
		answer, err := one.DownloadStream(context.Background(), options)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		_, err = io.ReadFull(answer.Body, block)
		return err
	}, nil
}
