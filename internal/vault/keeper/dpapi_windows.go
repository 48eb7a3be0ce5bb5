package keeper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

// systemKeepers are those that Windows has: its protection of data by the user's login.
func systemKeepers(dir string) map[string]KeyKeeper {
	return map[string]KeyKeeper{DPAPI: NewDPAPI(dir)}
}

// sealedFiles are files that Windows opens for the daemon's user alone, whoever can read them.
type sealedFiles struct{ files }

// NewDPAPI keeps keys in files of a directory, sealed by what Windows keeps for the daemon's user.
func NewDPAPI(dir string) Unsealed { return Unsealed{sealedFiles{files{dir, ".dpapi"}}} }

// load implements place.
func (f sealedFiles) load(_ context.Context, id string) ([]byte, error) {
	file, err := os.Open(f.name(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, locked("the vault's key is not there: %s", f.name(id)).
			WithRemedy("put the file back from a backup; without one, begin anew from an export: palyra vault import")
	}
	if err != nil {
		return nil, fmt.Errorf("keeper: read key: %w", err)
	}
	defer func() { _ = file.Close() }()
	sealed, err := io.ReadAll(io.LimitReader(file, maxFile))
	if err != nil {
		return nil, fmt.Errorf("keeper: read key: %w", err)
	}
	text, err := protect(sealed, id, func(in, mark, out *windows.DataBlob) error {
		return windows.CryptUnprotectData(in, nil, mark, 0, nil, windows.CRYPTPROTECT_UI_FORBIDDEN, out)
	})
	if err != nil {
		return nil, locked("Windows does not open the vault's key: %s", f.name(id)).
			WithRemedy("start the daemon as the user who made it, on the same machine").WithCause(err)
	}
	return text, nil
}

// save implements place.
func (f sealedFiles) save(ctx context.Context, id string, text []byte) error {
	sealed, err := protect(text, id, func(in, mark, out *windows.DataBlob) error {
		return windows.CryptProtectData(in, nil, mark, 0, nil, windows.CRYPTPROTECT_UI_FORBIDDEN, out)
	})
	if err != nil {
		return locked("Windows does not seal the vault's key").WithRemedy("use another keeper: palyra vault status").WithCause(err)
	}
	return f.files.save(ctx, id, sealed)
}

// protect has Windows seal or open a text. The id is mixed in, so that one key's file is not another's.
func protect(text []byte, id string, do func(in, mark, out *windows.DataBlob) error) ([]byte, error) {
	if len(text) == 0 {
		return nil, errors.New("the file is empty")
	}
	blob := func(b []byte) *windows.DataBlob { return &windows.DataBlob{Size: uint32(len(b)), Data: &b[0]} }
	var out windows.DataBlob
	if err := do(blob(text), blob([]byte("palyra vault key "+id)), &out); err != nil {
		return nil, err
	}
	made := unsafe.Slice(out.Data, out.Size)
	defer func() {
		clear(made)
		_, _ = windows.LocalFree(windows.Handle(unsafe.Pointer(out.Data)))
	}()
	return append([]byte(nil), made...), nil
}
