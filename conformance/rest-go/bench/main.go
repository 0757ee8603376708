// Downloads one file of a share over and over in ranges, and compares every byte with the file on the disk.
//
//	bench CLIENT NAME BLOCK GOROUTINES SECONDS
//
// CLIENT is azfile, Microsoft's module as it is published, or plain, which is net/http and a signature. Says "begin" and "end" and waits for a line on
// standard input at both, so that the caller can look at the server's clock; then prints one JSON object.
package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

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
	name, block, goroutines, seconds := os.Args[2], load.Number(3), load.Number(4), load.Number(5)
	expected, err := os.ReadFile(filepath.Join(os.Getenv("LOCAL_FOLDER"), name))
	load.Check(err)
	blocks := len(expected) / block
	client := map[string]func(string) (read, error){"azfile": azfile, "plain": plain}[os.Args[1]]

	readers := make([]read, goroutines)
	for index := range readers {
		readers[index], err = client(name)
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

func plain(name string) (read, error) {
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, err
	}
	whole, err := url.Parse(os.Getenv("REST_URL") + "/" + share + "/" + name)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: &http.Transport{ReadBufferSize: 256 << 10}}
	return func(offset int64, block []byte) error {
		request := &http.Request{Method: http.MethodGet, URL: whole, Header: http.Header{}}
		date, wanted := time.Now().UTC().Format(http.TimeFormat), fmt.Sprintf("bytes=%d-%d", offset, offset+int64(len(block))-1)
		text := "GET\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:" + date + "\nx-ms-range:" + wanted + "\nx-ms-version:2026-06-06\n/" + account + whole.Path
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(text))
		request.Header.Set("x-ms-date", date)
		request.Header.Set("x-ms-range", wanted)
		request.Header.Set("x-ms-version", "2026-06-06")
		request.Header.Set("Authorization", "SharedKey "+account+":"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
		answer, err := client.Do(request)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusPartialContent {
			return fmt.Errorf("answered %s", answer.Status)
		}
		_, err = io.ReadFull(answer.Body, block)
		return err
	}, nil
}
