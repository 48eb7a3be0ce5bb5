package client

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"palyra"
	"palyra/internal/durable"
	"palyra/internal/pairing"
)

// ForgetRemote removes the files of a remote, above all this machine's key for it. The daemon is
// not asked and knows the device until it is revoked there. A damaged remote can be forgotten as
// well. A crash leaves it whole, or leaves a remainder that the next Join removes.
func ForgetRemote(dir, name string) error {
	if pairing.CheckName(name) != nil {
		return noRemote(name)
	}
	own := filepath.Join(dir, name)
	info, err := os.Lstat(own)
	if errors.Is(err, fs.ErrNotExist) {
		return noRemote(name)
	}
	if err != nil {
		return unreadable(own, err)
	}
	if !info.IsDir() { // a link would lead elsewhere
		return palyra.Errorf(palyra.Invalid, palyra.ReasonConfig, "%s does not hold a pairing with a daemon", own).
			WithRemedy("look at it and remove it by hand")
	}
	gone, err := os.MkdirTemp(dir, joining)
	if err != nil {
		return unreadable(dir, err)
	}
	if err := os.Rename(own, filepath.Join(gone, name)); err != nil {
		_ = os.Remove(gone) // it is empty
		return unreadable(own, err)
	}
	if err := durable.SyncDir(dir); err != nil {
		return unreadable(dir, err)
	}
	if err := os.RemoveAll(gone); err != nil {
		return unreadable(gone, err)
	}
	return nil
}
