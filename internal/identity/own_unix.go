//go:build unix

package identity

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// openOwn opens a file that only its owner, who is us, can read or replace.
func openOwn(path string) (*os.File, error) {
	if err := checkDir(filepath.Dir(path)); err != nil {
		return nil, err
	}
	// Not following a link and not blocking: a link or a pipe put in the file's
	// place must neither be read nor hang us.
	h, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) {
		return nil, unsafePath(path, "the operator key is a symbolic link", "put the key file itself there")
	}
	if err != nil {
		return nil, fmt.Errorf("identity: open: %w", err)
	}
	if err := checkFile(path, h); err != nil {
		_ = h.Close()
		return nil, err
	}
	return h, nil
}

func checkFile(path string, h *os.File) error {
	info, err := h.Stat()
	if err != nil {
		return fmt.Errorf("identity: open: %w", err)
	}
	if !info.Mode().IsRegular() {
		return unsafePath(path, "the operator key is not a regular file", "put the key file itself there")
	}
	if owner(info) != os.Geteuid() {
		return unsafePath(path, "the operator key belongs to another user", "use a key of your own")
	}
	if info.Mode().Perm()&0o077 != 0 {
		return unsafePath(path, "others may read the operator key", "chmod 600 "+path+", and replace the key if somebody may have read it")
	}
	return nil
}

// checkDir refuses a directory in which somebody else could swap the file.
func checkDir(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("identity: open: %w", err)
	}
	if o := owner(info); o != os.Geteuid() && o != 0 {
		return unsafePath(dir, "the key's directory belongs to another user", "keep the key in a directory of your own")
	}
	if info.Mode().Perm()&0o022 != 0 {
		return unsafePath(dir, "others may write to the key's directory", "chmod 700 "+dir)
	}
	return nil
}

func owner(info os.FileInfo) int {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return -1
	}
	return int(st.Uid)
}
