// Checks Azure Files' REST interface with the module azfile as it is published, and prints one line a check. What the server says it does not serve is no
// failure here: the table in docs/REST.md tells it, and is compared.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azfile/directory"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azfile/file"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azfile/lease"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azfile/sas"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azfile/service"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azfile/share"
)

const (
	mib  = 1 << 20
	sddl = "O:S-1-5-21-1-2-3-500G:S-1-5-21-1-2-3-513D:(A;;FA;;;SY)(A;;FA;;;BA)(A;;0x1200a9;;;S-1-5-21-1-2-3-513)"
	one  = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"
)

var (
	ctx     = context.Background()
	folder  = os.Getenv("LOCAL_FOLDER")
	lengths = []int{0, 1, 511, 65_536, 4*mib - 1, 4 * mib, 4*mib + 1, 9*mib + 7}
	names   = []string{"plain", "with space", "ä+ö&%25", "'quote", "日本語", "semi;colon,=", "#hash"}
	chance  = rand.NewChaCha8([32]byte{1})
	svc     *service.Client
	shr     *share.Client
	root    *directory.Client
)

func main() {
	key, err := service.NewSharedKeyCredential(os.Getenv("REST_ACCOUNT"), os.Getenv("REST_KEY"))
	if err == nil {
		svc, err = service.NewClientWithSharedKeyCredential(os.Getenv("REST_URL"), key, once())
	}
	if err != nil {
		fmt.Println("not ok a client -", err)
		os.Exit(1)
	}
	shr = svc.NewShareClient(os.Getenv("SMB_SHARE"))
	root = shr.NewRootDirectoryClient()

	check("shares are listed, page by page", sharesListed)
	check("the service's properties are told and set", serviceProperties)
	check("a share's properties are told", shareProperties)
	check("a share is made, changed, and deleted", shareMade)
	check("a share's metadata is kept", shareMetadata)
	check("a share's access policies are kept", accessPolicies)
	check("a share's use is told", shareUse)
	check("a permission is kept under a key", permission)
	check("a share's lease is acquired, renewed, changed, released and broken", shareLease)
	check("a snapshot of a share is told not to be made", snapshot)
	check("a deleted share comes back", restored)

	check("directories are made, listed page by page, and removed", directories)
	check("a directory's properties are told and set", directoryProperties)
	check("a directory's metadata is kept", directoryMetadata)
	check("a directory is renamed", directoryRenamed)
	check("a directory's handles are listed and closed", directoryHandles)

	check("files of every length come back as they went, and lie on the disk so", fileLengths)
	check("files of every kind of name are made, listed and read", fileNames)
	check("a stream of unknown length is uploaded", streamed)
	check("ranges are written, cleared and read", ranges)
	check("a file's ranges are listed", rangeList)
	check("a file's properties and headers are told and set", fileHeaders)
	check("a file's metadata is kept", fileMetadata)
	check("a file is renamed, over another only where that is asked for", fileRenamed)
	check("a file is copied, and a copy that has ended is not aborted", copied)
	check("a range is put from another file's URL", rangeFromURL)
	check("a file's lease keeps others out, and is changed, released and broken", fileLease)
	check("a file's handles are listed and closed", fileHandles)
	check("links are of NFS shares", links)
	check("what is not there, or is something else, is refused with the service's codes", refusals)

	check("a SAS of an account lets in, as far as it says", accountSAS)
	check("a SAS of a file lets in, as far as it says", fileSAS)
}

// Nothing is tried again: a second answer would hide the first.
func once() *service.ClientOptions {
	return &service.ClientOptions{ClientOptions: policy.ClientOptions{Retry: policy.RetryOptions{MaxRetries: -1}}}
}

func check(name string, body func() error) {
	err := body()
	switch {
	case err == nil:
		fmt.Println("ok", name)
	case strings.Contains(err.Error(), "is not served"):
		fmt.Println("absent", name)
	default:
		fmt.Printf("not ok %s - %s\n", name, strings.ReplaceAll(err.Error(), "\n", " | "))
	}
}

func expect(is bool, seen any) error {
	if is {
		return nil
	}
	return fmt.Errorf("seen: %v", seen)
}

func refused(err error, code string, status int) error {
	var answer *azcore.ResponseError
	if !errors.As(err, &answer) {
		return fmt.Errorf("not refused with %s, but %v", code, err)
	}
	if answer.ErrorCode != code || answer.StatusCode != status {
		return err
	}
	return nil
}

func random(length int) []byte {
	data := make([]byte, length)
	chance.Read(data)
	return data
}

func body(data []byte) io.ReadSeekCloser { return streaming.NopCloser(bytes.NewReader(data)) }

// made is a new file with this text.
func made(name, text string) (*file.Client, error) {
	one := root.NewFileClient(name)
	if _, err := one.Create(ctx, int64(len(text)), nil); err != nil {
		return one, err
	}
	_, err := one.UploadRange(ctx, 0, body([]byte(text)), nil)
	return one, err
}

func text(one *file.Client) (string, error) {
	answer, err := one.DownloadStream(ctx, nil)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	return string(data), err
}

func isText(one *file.Client, wanted string) error {
	seen, err := text(one)
	if err != nil {
		return err
	}
	return expect(seen == wanted, seen)
}

// first runs steps up to the first that fails.
func first(steps ...func() error) error {
	for number, step := range steps {
		if err := step(); err != nil {
			return fmt.Errorf("step %d: %w", number+1, err)
		}
	}
	return nil
}

// without makes a step of a call whose answer says nothing more than that it is done.
func without[A any](answer A, err error) error { return err }

// The service and its shares.

func shares(options *service.ListSharesOptions) (found []*service.Share, pages int, err error) {
	for pager := svc.NewListSharesPager(options); pager.More(); pages++ {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return nil, 0, err
		}
		found = append(found, page.Shares...)
	}
	return found, pages, nil
}

func sharesListed() error {
	all, _, err := shares(nil)
	if err != nil {
		return err
	}
	some, _, err := shares(&service.ListSharesOptions{Prefix: to.Ptr("oth")})
	if err != nil {
		return err
	}
	if err := expect(len(some) == 1 && *some[0].Name == "other", len(some)); err != nil {
		return err
	}
	again, pages, err := shares(&service.ListSharesOptions{MaxResults: to.Ptr(int32(1))})
	if err != nil {
		return err
	}
	return expect(len(again) == len(all) && pages == len(all), fmt.Sprint(len(all), len(again), pages))
}

func serviceProperties() error {
	for _, on := range []bool{true, false, true} {
		smb := &service.SMBSettings{Multichannel: &service.SMBMultichannel{Enabled: &on}}
		options := &service.SetPropertiesOptions{Protocol: &service.ProtocolSettings{Smb: smb}}
		if _, err := svc.SetProperties(ctx, options); err != nil {
			return err
		}
		seen, err := svc.GetProperties(ctx, nil)
		if err != nil {
			return err
		}
		if err := expect(seen.Protocol != nil && *seen.Protocol.Smb.Multichannel.Enabled == on, seen.Protocol); err != nil {
			return err
		}
	}
	return nil
}

func shareProperties() error {
	seen, err := shr.GetProperties(ctx, nil)
	if err != nil {
		return err
	}
	if err := expect(seen.Quota != nil && *seen.Quota > 0 && seen.ETag != nil && seen.LastModified != nil, seen); err != nil {
		return err
	}
	_, err = svc.NewShareClient("nothing").GetProperties(ctx, nil)
	return refused(err, "ShareNotFound", 404)
}

func shareMade() error {
	mine := svc.NewShareClient("go-made")
	quota := func(wanted int32) func() error {
		return func() error {
			seen, err := mine.GetProperties(ctx, nil)
			if err != nil {
				return err
			}
			return expect(*seen.Quota == wanted, *seen.Quota)
		}
	}
	return first(
		func() error { return without(mine.Create(ctx, &share.CreateOptions{Quota: to.Ptr(int32(200))})) },
		func() error { return refused(without(mine.Create(ctx, nil)), "ShareAlreadyExists", 409) },
		quota(200),
		func() error {
			return without(mine.SetProperties(ctx, &share.SetPropertiesOptions{Quota: to.Ptr(int32(300))}))
		},
		quota(300),
		func() error { return without(mine.NewRootDirectoryClient().NewFileClient("a").Create(ctx, 10, nil)) },
		func() error { return without(mine.Delete(ctx, nil)) },
		func() error { return refused(without(mine.GetProperties(ctx, nil)), "ShareNotFound", 404) },
	)
}

func shareMetadata() error {
	// Some of these names stand in another order by letters than by bytes, and it is signed in one of them.
	metadata := map[string]*string{"colour": to.Ptr("green"), "two": to.Ptr("words here"), "a1": to.Ptr("1"), "a_1": to.Ptr("2"), "ab": to.Ptr("3"),
		"a_b": to.Ptr("4")}
	if _, err := shr.SetMetadata(ctx, &share.SetMetadataOptions{Metadata: metadata}); err != nil {
		return err
	}
	seen, err := shr.GetProperties(ctx, nil)
	if err != nil {
		return err
	}
	if err := isMetadata(seen.Metadata, metadata); err != nil {
		return err
	}
	return without(shr.SetMetadata(ctx, nil))
}

// isMetadata compares without regard to case, which the headers of HTTP do not keep.
func isMetadata(seen, wanted map[string]*string) error {
	lower := map[string]string{}
	for name, value := range seen {
		lower[strings.ToLower(name)] = *value
	}
	for name, value := range wanted {
		if lower[name] != *value {
			return fmt.Errorf("%s is %q, not %q", name, lower[name], *value)
		}
	}
	return expect(len(seen) == len(wanted), len(seen))
}

func accessPolicies() error {
	policy := &share.AccessPolicy{Start: to.Ptr(time.Now().Add(-time.Minute)), Expiry: to.Ptr(time.Now().Add(time.Hour)), Permission: to.Ptr("rl")}
	wanted := []*share.SignedIdentifier{{ID: to.Ptr("policy-1"), AccessPolicy: policy}}
	if _, err := shr.SetAccessPolicy(ctx, &share.SetAccessPolicyOptions{ShareACL: wanted}); err != nil {
		return err
	}
	seen, err := shr.GetAccessPolicy(ctx, nil)
	if err != nil {
		return err
	}
	if err := expect(len(seen.SignedIdentifiers) == 1 && *seen.SignedIdentifiers[0].AccessPolicy.Permission == "rl", seen); err != nil {
		return err
	}
	return without(shr.SetAccessPolicy(ctx, nil))
}

func shareUse() error {
	seen, err := shr.GetStatistics(ctx, nil)
	if err != nil {
		return err
	}
	return expect(seen.ShareUsageBytes != nil, "no number")
}

func permission() error {
	made, err := shr.CreatePermission(ctx, sddl, nil)
	if err != nil {
		return err
	}
	seen, err := shr.GetPermission(ctx, *made.FilePermissionKey, nil)
	if err != nil {
		return err
	}
	return expect(seen.Permission != nil && strings.Contains(*seen.Permission, "S-1-5-21-1-2-3-513"), seen.Permission)
}

func shareLease() error {
	held, err := lease.NewShareClient(shr, nil)
	if err != nil {
		return err
	}
	return first(
		func() error { return without(held.Acquire(ctx, -1, nil)) },
		func() error { return without(held.Renew(ctx, nil)) },
		func() error { return without(held.Change(ctx, one, nil)) },
		func() error { return without(held.Release(ctx, nil)) },
		func() error { return without(held.Acquire(ctx, 15, nil)) },
		func() error { return without(held.Break(ctx, nil)) },
	)
}

func snapshot() error {
	return refused(without(shr.CreateSnapshot(ctx, nil)), "ShareSnapshotOperationNotSupported", 409)
}

func restored() error {
	gone := svc.NewShareClient("go-gone")
	if err := first(
		func() error { return without(gone.Create(ctx, nil)) },
		func() error { return without(gone.NewRootDirectoryClient().NewFileClient("kept").Create(ctx, 5, nil)) },
		func() error { return without(gone.Delete(ctx, nil)) },
	); err != nil {
		return err
	}
	listed, _, err := shares(&service.ListSharesOptions{Prefix: to.Ptr("go-gone"), Include: service.ListSharesInclude{Deleted: true}})
	if err != nil {
		return err
	}
	if err := expect(len(listed) == 1 && listed[0].Version != nil, len(listed)); err != nil {
		return err
	}
	return first(
		func() error { return without(svc.RestoreShare(ctx, "go-gone", *listed[0].Version, nil)) },
		func() error {
			return without(gone.NewRootDirectoryClient().NewFileClient("kept").GetProperties(ctx, nil))
		},
		func() error { return without(gone.Delete(ctx, nil)) },
	)
}

// Directories.

func listed(of *directory.Client, options *directory.ListFilesAndDirectoriesOptions) (directories, files []string, pages int, err error) {
	for pager := of.NewListFilesAndDirectoriesPager(options); pager.More(); pages++ {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return nil, nil, 0, err
		}
		for _, one := range page.Segment.Directories {
			directories = append(directories, *one.Name)
		}
		for _, one := range page.Segment.Files {
			files = append(files, *one.Name)
		}
	}
	return directories, files, pages, nil
}

func directories() error {
	top := shr.NewDirectoryClient("go-many")
	if _, err := top.Create(ctx, nil); err != nil {
		return err
	}
	if err := refused(without(top.Create(ctx, nil)), "ResourceAlreadyExists", 409); err != nil {
		return err
	}
	for number := range 20 {
		name := fmt.Sprintf("entry-%03d", number)
		var err error
		if number%4 == 0 {
			_, err = top.NewSubdirectoryClient(name).Create(ctx, nil)
		} else {
			_, err = top.NewFileClient(name).Create(ctx, 3, nil)
		}
		if err != nil {
			return err
		}
	}
	include := directory.ListFilesInclude{Timestamps: true, ETag: true, Attributes: true}
	options := &directory.ListFilesAndDirectoriesOptions{MaxResults: to.Ptr(int32(7)), Include: include, IncludeExtendedInfo: to.Ptr(true)}
	folders, files, pages, err := listed(top, options)
	if err != nil {
		return err
	}
	if err := expect(len(folders) == 5 && len(files) == 15 && pages == 3, fmt.Sprint(folders, files, pages)); err != nil {
		return err
	}
	some, _, _, err := listed(top, &directory.ListFilesAndDirectoriesOptions{Prefix: to.Ptr("entry-01")})
	if err != nil {
		return err
	}
	if err := expect(len(some) == 2, some); err != nil {
		return err
	}
	if err := refused(without(top.Delete(ctx, nil)), "DirectoryNotEmpty", 409); err != nil {
		return err
	}
	for _, name := range folders {
		if _, err := top.NewSubdirectoryClient(name).Delete(ctx, nil); err != nil {
			return err
		}
	}
	for _, name := range files {
		if _, err := top.NewFileClient(name).Delete(ctx, nil); err != nil {
			return err
		}
	}
	if _, err := top.Delete(ctx, nil); err != nil {
		return err
	}
	_, err = os.Stat(filepath.Join(folder, "go-many"))
	return expect(errors.Is(err, os.ErrNotExist), err)
}

func directoryProperties() error {
	top := shr.NewDirectoryClient("go-properties")
	if _, err := top.Create(ctx, nil); err != nil {
		return err
	}
	seen, err := top.GetProperties(ctx, nil)
	if err != nil {
		return err
	}
	if err := expect(seen.ETag != nil && strings.Contains(*seen.FileAttributes, "Directory"), seen); err != nil {
		return err
	}
	made := time.Date(2020, 2, 3, 4, 5, 6, 0, time.UTC)
	properties := &file.SMBProperties{CreationTime: &made}
	if _, err := top.SetProperties(ctx, &directory.SetPropertiesOptions{FileSMBProperties: properties}); err != nil {
		return err
	}
	seen, err = top.GetProperties(ctx, nil)
	if err != nil {
		return err
	}
	if err := expect(seen.FileCreationTime.Equal(made), seen.FileCreationTime); err != nil {
		return err
	}
	return without(top.Delete(ctx, nil))
}

func directoryMetadata() error {
	top, metadata := shr.NewDirectoryClient("go-metadata"), map[string]*string{"colour": to.Ptr("red")}
	if _, err := top.Create(ctx, nil); err != nil {
		return err
	}
	if _, err := top.SetMetadata(ctx, &directory.SetMetadataOptions{Metadata: metadata}); err != nil {
		return err
	}
	seen, err := top.GetProperties(ctx, nil)
	if err != nil {
		return err
	}
	if err := isMetadata(seen.Metadata, metadata); err != nil {
		return err
	}
	return without(top.Delete(ctx, nil))
}

func directoryRenamed() error {
	from, target := shr.NewDirectoryClient("go-from"), shr.NewDirectoryClient("go-to")
	return first(
		func() error { return without(from.Create(ctx, nil)) },
		func() error { return without(from.NewFileClient("inside").Create(ctx, 1, nil)) },
		func() error { return without(from.Rename(ctx, "go-to", nil)) },
		func() error { return without(target.NewFileClient("inside").Delete(ctx, nil)) },
		func() error { return without(target.Delete(ctx, nil)) },
		func() error { return refused(without(from.GetProperties(ctx, nil)), "ResourceNotFound", 404) },
	)
}

func directoryHandles() error {
	if _, err := root.ListHandles(ctx, &directory.ListHandlesOptions{Recursive: to.Ptr(true)}); err != nil {
		return err
	}
	closed, err := root.ForceCloseHandles(ctx, "*", &directory.ForceCloseHandlesOptions{Recursive: to.Ptr(true)})
	if err != nil {
		return err
	}
	return expect(closed.NumberOfHandlesClosed != nil && *closed.NumberOfHandlesFailedToClose == 0, closed)
}

// Files.

func fileLengths() error {
	for _, length := range lengths {
		data, name := random(length), fmt.Sprintf("go-length-%d", length)
		one := root.NewFileClient(name)
		if _, err := one.Create(ctx, int64(length), nil); err != nil {
			return err
		}
		// The module refuses to put nothing.
		if err := one.UploadBuffer(ctx, data, nil); length > 0 && err != nil {
			return err
		}
		back := make([]byte, length)
		if _, err := one.DownloadBuffer(ctx, back, nil); err != nil {
			return fmt.Errorf("%d: %w", length, err)
		}
		if err := expect(bytes.Equal(back, data), fmt.Sprint(length, ": another text comes back")); err != nil {
			return err
		}
		lies, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			return err
		}
		if err := expect(bytes.Equal(lies, data), fmt.Sprint(length, ": another text is on the disk")); err != nil {
			return err
		}
		if _, err := one.Delete(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}

func fileNames() error {
	top := shr.NewDirectoryClient("go-names")
	if _, err := top.Create(ctx, nil); err != nil {
		return err
	}
	for _, name := range names {
		one := top.NewFileClient(name)
		if _, err := one.Create(ctx, int64(len(name)), nil); err != nil {
			return err
		}
		if _, err := one.UploadRange(ctx, 0, body([]byte(name)), nil); err != nil {
			return err
		}
	}
	_, files, _, err := listed(top, nil)
	if err != nil {
		return err
	}
	if err := expect(len(files) == len(names), files); err != nil {
		return err
	}
	for _, name := range files {
		if err := isText(top.NewFileClient(name), name); err != nil {
			return err
		}
		if _, err := top.NewFileClient(name).Delete(ctx, nil); err != nil {
			return err
		}
	}
	return without(top.Delete(ctx, nil))
}

func streamed() error {
	data, one := random(5*mib+3), root.NewFileClient("go-streamed")
	if _, err := one.Create(ctx, 0, nil); err != nil {
		return err
	}
	if _, err := one.Resize(ctx, int64(len(data)), nil); err != nil {
		return err
	}
	if err := one.UploadStream(ctx, bytes.NewReader(data), nil); err != nil {
		return err
	}
	seen, err := text(one)
	if err != nil {
		return err
	}
	if err := expect(seen == string(data), "another text"); err != nil {
		return err
	}
	return without(one.Delete(ctx, nil))
}

func ranges() error {
	data := random(mib)
	one, err := made("go-ranges", string(data))
	if err != nil {
		return err
	}
	copy(data[1000:], "in the middle")
	clear(data[512*8 : 512*24])
	behind := func() error { return without(one.UploadRange(ctx, mib-1, body([]byte("behind")), nil)) }
	return first(
		func() error { return without(one.UploadRange(ctx, 1000, body([]byte("in the middle")), nil)) },
		func() error {
			return without(one.ClearRange(ctx, file.HTTPRange{Offset: 512 * 8, Count: 512 * 16}, nil))
		},
		func() error { return isText(one, string(data)) },
		func() error { return refused(behind(), "InvalidRange", 416) },
		func() error { return without(one.Resize(ctx, 10, nil)) },
		func() error { return isText(one, string(data[:10])) },
		func() error { return without(one.Delete(ctx, nil)) },
	)
}

func rangeList() error {
	one := root.NewFileClient("go-sparse")
	if _, err := one.Create(ctx, 4*mib, nil); err != nil {
		return err
	}
	if _, err := one.UploadRange(ctx, mib, body(random(mib)), nil); err != nil {
		return err
	}
	seen, err := one.GetRangeList(ctx, nil)
	if err != nil {
		return err
	}
	if err := expect(len(seen.Ranges) == 1 && *seen.Ranges[0].Start == mib && *seen.Ranges[0].End == 2*mib-1, len(seen.Ranges)); err != nil {
		return err
	}
	return without(one.Delete(ctx, nil))
}

func fileHeaders() error {
	one, err := made("go-headers", "text")
	if err != nil {
		return err
	}
	headers := &file.HTTPHeaders{ContentType: to.Ptr("text/plain"), CacheControl: to.Ptr("no-store"), ContentLanguage: to.Ptr("de")}
	written := time.Date(2021, 3, 4, 5, 6, 7, 0, time.UTC)
	options := &file.SetHTTPHeadersOptions{HTTPHeaders: headers, SMBProperties: &file.SMBProperties{LastWriteTime: &written}}
	if _, err := one.SetHTTPHeaders(ctx, options); err != nil {
		return err
	}
	seen, err := one.GetProperties(ctx, nil)
	if err != nil {
		return err
	}
	if err := expect(*seen.ContentType == "text/plain" && seen.FileLastWriteTime.Equal(written), *seen.ContentType); err != nil {
		return err
	}
	return without(one.Delete(ctx, nil))
}

func fileMetadata() error {
	metadata := map[string]*string{"colour": to.Ptr("blue")}
	one, err := made("go-file-metadata", "text")
	if err != nil {
		return err
	}
	if _, err := one.SetMetadata(ctx, &file.SetMetadataOptions{Metadata: metadata}); err != nil {
		return err
	}
	seen, err := one.GetProperties(ctx, nil)
	if err != nil {
		return err
	}
	if err := isMetadata(seen.Metadata, metadata); err != nil {
		return err
	}
	return without(one.Delete(ctx, nil))
}

func fileRenamed() error {
	one, err := made("go-old name", "kept")
	if err != nil {
		return err
	}
	if _, err := made("go-target", "other"); err != nil {
		return err
	}
	target := root.NewFileClient("go-target")
	over := &file.RenameOptions{ReplaceIfExists: to.Ptr(true)}
	return first(
		func() error { return refused(without(one.Rename(ctx, "go-target", nil)), "ResourceAlreadyExists", 409) },
		func() error { return without(one.Rename(ctx, "go-target", over)) },
		func() error { return isText(target, "kept") },
		func() error { return without(target.Delete(ctx, nil)) },
	)
}

func copied() error {
	one, err := made("go-original", "copied")
	if err != nil {
		return err
	}
	target := root.NewFileClient("go-copy")
	started, err := target.StartCopyFromURL(ctx, one.URL(), nil)
	if err != nil {
		return err
	}
	for range 100 {
		seen, err := target.GetProperties(ctx, nil)
		if err != nil {
			return err
		}
		if seen.CopyStatus == nil || *seen.CopyStatus != file.CopyStatusTypePending {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	return first(
		func() error { return isText(target, "copied") },
		func() error {
			return refused(without(target.AbortCopy(ctx, *started.CopyID, nil)), "NoPendingCopyOperation", 409)
		},
		func() error { return without(target.Delete(ctx, nil)) },
		func() error { return without(one.Delete(ctx, nil)) },
	)
}

func rangeFromURL() error {
	from, err := made("go-source", "0123456789")
	if err != nil {
		return err
	}
	target, err := made("go-destination", "..........")
	if err != nil {
		return err
	}
	url, err := from.GetSASURL(sas.FilePermissions{Read: true}, time.Now().Add(5*time.Minute), nil)
	if err != nil {
		return err
	}
	return first(
		func() error { return without(target.UploadRangeFromURL(ctx, url, 2, 0, 5, nil)) },
		func() error { return isText(target, "23456.....") },
		func() error { return without(target.Delete(ctx, nil)) },
		func() error { return without(from.Delete(ctx, nil)) },
	)
}

func fileLease() error {
	leased, err := made("go-leased", "text")
	if err != nil {
		return err
	}
	held, err := lease.NewFileClient(leased, nil)
	if err != nil {
		return err
	}
	put := func(options *file.UploadRangeOptions) error {
		return without(leased.UploadRange(ctx, 0, body([]byte("x")), options))
	}
	return first(
		func() error { return without(held.Acquire(ctx, nil)) },
		func() error { return refused(put(nil), "LeaseIdMissing", 412) },
		func() error {
			return put(&file.UploadRangeOptions{LeaseAccessConditions: &file.LeaseAccessConditions{LeaseID: held.LeaseID()}})
		},
		func() error { return without(held.Change(ctx, one, nil)) },
		func() error { return without(held.Release(ctx, nil)) },
		func() error { return without(held.Acquire(ctx, nil)) },
		func() error { return without(held.Break(ctx, nil)) },
		func() error { return without(leased.Delete(ctx, nil)) },
	)
}

func fileHandles() error {
	one, err := made("go-handles", "text")
	if err != nil {
		return err
	}
	seen, err := one.ListHandles(ctx, nil)
	if err != nil {
		return err
	}
	if err := expect(len(seen.Handles) == 0, len(seen.Handles)); err != nil {
		return err
	}
	if _, err := one.ForceCloseHandles(ctx, "*", nil); err != nil {
		return err
	}
	return without(one.Delete(ctx, nil))
}

func links() error {
	at, code := root.NewFileClient("go-link"), "UnsupportedQueryParameter"
	return first(
		func() error { return refused(without(at.CreateSymbolicLink(ctx, "go-a-file", nil)), code, 400) },
		func() error { return refused(without(at.GetSymbolicLink(ctx, nil)), code, 400) },
		func() error { return refused(without(at.CreateHardLink(ctx, "go-a-file", nil)), code, 400) },
	)
}

func refusals() error {
	if _, err := made("go-a-file", "x"); err != nil {
		return err
	}
	if _, err := shr.NewDirectoryClient("go-a-directory").Create(ctx, nil); err != nil {
		return err
	}
	nowhere := shr.NewDirectoryClient("no").NewFileClient("where")
	return first(
		func() error { return refused(without(text(root.NewFileClient("nothing"))), "ResourceNotFound", 404) },
		func() error { return refused(without(nowhere.Create(ctx, 1, nil)), "ParentNotFound", 404) },
		func() error {
			return refused(without(shr.NewDirectoryClient("go-a-file").Delete(ctx, nil)), "ResourceTypeMismatch", 409)
		},
		func() error {
			return refused(without(root.NewFileClient("go-a-directory").Delete(ctx, nil)), "ResourceTypeMismatch", 409)
		},
	)
}

// Who may.

func accountSAS() error {
	if _, err := made("go-sas", "seen"); err != nil {
		return err
	}
	resources := sas.AccountResourceTypes{Service: true, Container: true, Object: true}
	url, err := svc.GetSASURL(resources, sas.AccountPermissions{Read: true, List: true}, time.Now().Add(5*time.Minute), nil)
	if err != nil {
		return err
	}
	limited, err := service.NewClientWithNoCredential(url, once())
	if err != nil {
		return err
	}
	seen := limited.NewShareClient(os.Getenv("SMB_SHARE")).NewRootDirectoryClient().NewFileClient("go-sas")
	return first(
		func() error { return isText(seen, "seen") },
		func() error { return refused(without(seen.Delete(ctx, nil)), "AuthorizationPermissionMismatch", 403) },
	)
}

func fileSAS() error {
	whole, err := made("go-file-sas", "seen")
	if err != nil {
		return err
	}
	url, err := whole.GetSASURL(sas.FilePermissions{Read: true}, time.Now().Add(5*time.Minute), nil)
	if err != nil {
		return err
	}
	limited, err := file.NewClientWithNoCredential(url, &file.ClientOptions{ClientOptions: once().ClientOptions})
	if err != nil {
		return err
	}
	return first(
		func() error { return isText(limited, "seen") },
		func() error {
			return refused(without(limited.Delete(ctx, nil)), "AuthorizationPermissionMismatch", 403)
		},
	)
}
