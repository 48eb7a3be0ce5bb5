package beneath

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// WriteWhole writes a file: whole under its name, or not at all. durably: it is there after the machine stopped.
func WriteWhole(path string, text []byte, durably bool) error {
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil && durably {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		_ = os.Remove(path + ".new") // it takes room
	}
	return err
}
