//go:build unix

package files

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"palyra"
)

// fail turns a system error about a path into a *palyra.Error. Other errors pass unchanged.
func fail(op, rel string, err error) error {
	if e := (*palyra.Error)(nil); err == nil || errors.As(err, &e) {
		return err
	}
	p := quote(rel)
	switch {
	case errors.Is(err, unix.ENOENT):
		return palyra.Errorf(palyra.NotFound, palyra.ReasonFileNotFound, "%s does not exist", p).
			WithRemedy("list the directory with palyra.fs.list").WithCause(err)
	case errors.Is(err, unix.ELOOP):
		return linked(rel).WithCause(err)
	case errors.Is(err, unix.EXDEV):
		return outsideError(rel).WithCause(err)
	case errors.Is(err, unix.ENOTDIR):
		return badPath("a part of %s is not a directory", p).WithCause(err)
	case errors.Is(err, unix.ENAMETOOLONG):
		return badPath("%s is too long", p).WithCause(err)
	case errors.Is(err, unix.EISDIR), errors.Is(err, unix.ENXIO), errors.Is(err, unix.ENODEV):
		return irregular(rel, "a file").WithCause(err)
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM), errors.Is(err, unix.EROFS):
		return palyra.Errorf(palyra.Denied, palyra.ReasonPermission, "the workspace's owner may not %s %s", op, p).
			WithRemedy("change the permissions of the file or its directory, or choose another").WithCause(err)
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonDiskFull, "there is no space left for %s", p).
			WithRemedy("free some space, then call again").WithCause(err)
	case errors.Is(err, unix.EFBIG):
		return tooLarge(rel, 0).WithCause(err)
	case errors.Is(err, unix.EEXIST):
		return moved(rel).WithCause(err)
	}
	return fmt.Errorf("files: %s: %w", op, err)
}

func linked(rel string) *palyra.Error {
	return palyra.Errorf(palyra.Denied, palyra.ReasonPathInvalid, "%s is or passes a symbolic link, which is not followed here", quote(rel)).
		WithRemedy("name the file by its real path; palyra.fs.list shows where links lead")
}

func irregular(rel, what string) *palyra.Error {
	return palyra.Errorf(palyra.Invalid, palyra.ReasonNotRegularFile, "%s is not %s", quote(rel), what).
		WithRemedy("list the directory with palyra.fs.list")
}

func tooLarge(rel string, most int64) *palyra.Error {
	if most == 0 {
		return palyra.Errorf(palyra.Exhausted, palyra.ReasonFileTooLarge, "%s would become too large", quote(rel))
	}
	return palyra.Errorf(palyra.Exhausted, palyra.ReasonFileTooLarge, "%s is larger than %d bytes", quote(rel), most).
		WithRemedy("work on smaller files, or read it in pages")
}

// moved is the error for a file that changed since the plan.
func moved(rel string) *palyra.Error {
	return palyra.Errorf(palyra.Conflict, palyra.ReasonPlanChanged, "%s changed while the call was on its way; nothing was written",
		quote(rel)).
		WithRemedy("read the file again and propose the call anew")
}
