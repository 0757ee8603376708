// Package dial connects to the server under test, which the SMB_* variables name.
package dial

import (
	"context"
	"fmt"
	"net"
	"os"

	"github.com/cloudsoda/go-smb2"
)

// Options say how a connection protects itself.
type Options struct {
	RequireSigning bool
	Dialect        uint16 // 0 offers all that the client knows
	Password       string // the server's own when empty
}

// Session logs in over a connection of its own.
func Session(options Options) (*smb2.Session, error) {
	address := net.JoinHostPort(os.Getenv("SMB_HOST"), os.Getenv("SMB_PORT"))
	password := options.Password
	if password == "" {
		password = os.Getenv("SMB_PASSWORD")
	}
	dialer := &smb2.Dialer{
		Negotiator: smb2.Negotiator{RequireMessageSigning: options.RequireSigning, SpecifiedDialect: options.Dialect},
		Initiator:  &smb2.NTLMInitiator{User: os.Getenv("SMB_USER"), Password: password},
	}
	return dialer.Dial(context.Background(), address)
}

// Share mounts the share under test over a connection of its own. Close ends both.
func Share(options Options) (share *smb2.Share, close func(), err error) {
	session, err := Session(options)
	if err != nil {
		return nil, nil, fmt.Errorf("session: %w", err)
	}
	share, err = session.Mount(os.Getenv("SMB_SHARE"))
	if err != nil {
		_ = session.Logoff()
		return nil, nil, fmt.Errorf("mount: %w", err)
	}
	return share, func() { _ = share.Umount(); _ = session.Logoff() }, nil
}
