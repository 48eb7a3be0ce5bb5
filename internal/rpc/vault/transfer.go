package vault

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"
	"regexp"
	"sync"
	"time"

	"connectrpc.com/connect"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/internal/rpc/wire"
	"palyra/secrets"
)

// ExportVault implements the method. Nothing is sent before the whole export is made and on record; a client that reads
// slowly keeps nobody from the vault.
func (s *Service) ExportVault(ctx context.Context, req *v1.ExportVaultRequest, stream *connect.ServerStream[v1.ExportVaultResponse]) error {
	if err := blinded(req.GetPassphrase(), req.GetBlind()); err != nil {
		return err
	}
	passphrase := palyra.NewSecret(req.GetPassphrase())
	defer passphrase.Destroy()
	file, err := newSpool(s.dir)
	if err != nil {
		return err
	}
	defer file.close()
	versions, err := s.vault.Export(ctx, file, passphrase, req.GetEveryone(), s.callerOf(ctx))
	if err != nil {
		return err
	}
	if err := stream.Send(&v1.ExportVaultResponse{Versions: versions}); err != nil {
		return err
	}
	w := wire.Chunks(func(b []byte) error { return stream.Send(&v1.ExportVaultResponse{Chunk: b}) })
	if _, err := io.Copy(w, io.NewSectionReader(file, 0, secrets.MaxExport)); err != nil {
		return err
	}
	return w.Flush()
}

// ImportVault implements the method.
func (s *Service) ImportVault(ctx context.Context, req *v1.ImportVaultRequest) (*v1.ImportVaultResponse, error) {
	if err := blinded(req.GetPassphrase(), req.GetBlind()); err != nil {
		return nil, err
	}
	passphrase := palyra.NewSecret(req.GetPassphrase())
	defer passphrase.Destroy()
	by := s.callerOf(ctx)
	up, err := s.uploads.take(s.dir, by.Principal, req)
	if err != nil {
		return nil, err
	}
	res := &v1.ImportVaultResponse{Received: req.GetOffset() + int64(len(req.GetPart()))}
	if up == nil { // there is more to come
		return res, nil
	}
	defer up.close()
	if got := "sha256:" + hex.EncodeToString(up.sum.Sum(nil)); got != req.GetDigest() {
		return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonVerifyFailed, "the file did not arrive as it was sent").
			WithRemedy("send it again; nothing was imported")
	}
	out, err := s.vault.Import(ctx, up.file, up.size, passphrase, secrets.ImportMode(req.GetMode()), by)
	res.Done = &v1.VaultImport{}
	return wire.Answer(res, res.GetDone(), out, err)
}

// uploads are exports that are on their way to the daemon: one at a time. A later one takes its place.
type uploads struct {
	mu  sync.Mutex // guards now
	now *upload
}

// upload is one file. What has arrived of it lies in a file without a name, encrypted as it is.
type upload struct {
	by       palyra.Principal
	digest   string
	size, at int64
	file     *spool
	sum      hash.Hash
	idle     *time.Timer
}

// uploadIdle is how long the next part may take.
const uploadIdle = 5 * time.Minute

var validDigest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// take takes a part. It returns the upload when that was the last one.
func (u *uploads) take(dir string, by palyra.Principal, req *v1.ImportVaultRequest) (*upload, error) {
	n, at, size := int64(len(req.GetPart())), req.GetOffset(), req.GetSize()
	switch {
	case size > secrets.MaxExport:
		return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonInputTooLarge, "the file has %d bytes, and no export more than %d", size,
			int64(secrets.MaxExport)).WithRemedy("name a file that 'palyra vault export' wrote")
	case n < 1 || n > secrets.MaxPart || at < 0 || size < 1 || at > size-n || !validDigest.MatchString(req.GetDigest()):
		return nil, palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "that is no part of a file").
			WithRemedy("send parts of at most %d bytes, in order, with the size and the digest of the whole", secrets.MaxPart)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if at == 0 {
		if err := u.begin(dir, by, req); err != nil {
			return nil, err
		}
	}
	up := u.now
	if up == nil || up.by != by || up.digest != req.GetDigest() || up.size != size || up.at != at {
		return nil, palyra.Errorf(palyra.Conflict, palyra.ReasonInterrupted, "the import was not begun, or another one took its place").
			WithRemedy("import the file again; nothing was imported")
	}
	up.idle.Reset(uploadIdle)
	if _, err := up.file.Write(req.GetPart()); err != nil {
		u.drop(up)
		return nil, fmt.Errorf("vault: import: %w", err)
	}
	_, _ = up.sum.Write(req.GetPart()) // it never fails
	if up.at += n; up.at < size {
		return nil, nil
	}
	u.now = nil
	return up, nil
}

// begin makes place for a new file. u.mu is held.
func (u *uploads) begin(dir string, by palyra.Principal, req *v1.ImportVaultRequest) error {
	u.drop(u.now)
	file, err := newSpool(dir)
	if err != nil {
		return err
	}
	up := &upload{by: by, digest: req.GetDigest(), size: req.GetSize(), file: file, sum: sha256.New()}
	up.idle = time.AfterFunc(uploadIdle, func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.drop(up)
	})
	u.now = up
	return nil
}

// drop ends an upload that is still on its way. u.mu is held.
func (u *uploads) drop(up *upload) {
	if up != nil && u.now == up {
		up.close()
		u.now = nil
	}
}

func (up *upload) close() {
	up.idle.Stop()
	up.file.close()
}

// spool is a file of the daemon's own that is gone when it is closed, or the daemon ends.
type spool struct{ *os.File }

func newSpool(dir string) (*spool, error) {
	f, err := os.CreateTemp(dir, ".vault-*.tmp") // closed to others
	if err != nil {
		return nil, fmt.Errorf("vault: spool: %w", err)
	}
	_ = os.Remove(f.Name()) // where an open file can have no name; elsewhere close does it
	return &spool{f}, nil
}

func (s *spool) close() {
	_ = s.Close()
	_ = os.Remove(s.Name())
}
