package process

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"palyra"
)

// fail turns a system error about a path into a *palyra.Error. Other errors pass unchanged.
func fail(op, p string, err error) error {
	if e := (*palyra.Error)(nil); err == nil || errors.As(err, &e) {
		return err
	}
	say := func(code palyra.Code, reason palyra.Reason, format string) *palyra.Error {
		return palyra.Errorf(code, reason, format, quote(p)).WithCause(err)
	}
	switch {
	case errors.Is(err, errHidden), errors.Is(err, errSelected):
		return unrunnable(p, "the sandbox does not show it").WithRemedy(showIt).WithCause(err)
	case errors.Is(err, errGenerated):
		return unrunnable(p, "it is a file that the profile makes for every run").WithRemedy("name a program").WithCause(err)
	case errors.Is(err, unix.ENOENT):
		return say(palyra.NotFound, palyra.ReasonFileNotFound, "%s does not exist").WithRemedy("check the path; it is relative to cwd")
	case errors.Is(err, unix.ELOOP):
		return say(palyra.Invalid, palyra.ReasonPathInvalid, "%s goes round in links").WithRemedy("name the file by its real path")
	case errors.Is(err, unix.ENOTDIR):
		return say(palyra.Invalid, palyra.ReasonPathInvalid, "%s is not a directory, or passes something that is none").
			WithRemedy("check the path")
	case errors.Is(err, unix.ENAMETOOLONG):
		return say(palyra.Invalid, palyra.ReasonPathInvalid, "%s is too long").WithRemedy("check the path")
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return say(palyra.Denied, palyra.ReasonPermission, "the workspace's owner, as whom programs run, may not "+op+" %s").
			WithRemedy("change the permissions of the file or of a directory above it, or choose another")
	case errors.Is(err, unix.EISDIR), errors.Is(err, unix.ENXIO), errors.Is(err, unix.ENODEV):
		return irregular(p).WithCause(err)
	}
	return fmt.Errorf("process: %s: %w", op, err)
}

const showIt = "put it into the workspace; let 'palyra setup' mount the toolchains of your home; or choose a profile that mounts " +
	"it (--profile)"

func irregular(p string) *palyra.Error {
	return palyra.Errorf(palyra.Invalid, palyra.ReasonNotRegularFile, "%s is not a regular file", quote(p)).WithRemedy("name a program")
}

func unrunnable(p, why string) *palyra.Error {
	return palyra.Errorf(palyra.Denied, palyra.ReasonNotExecutable, "%s cannot be run: %s", quote(p), why)
}

// unsteady is the error for a file that changed while it was read.
func unsteady(p string) *palyra.Error {
	return palyra.Errorf(palyra.Conflict, palyra.ReasonPlanChanged, "%s changed while it was looked at", quote(p)).
		WithRemedy("call again when nothing else is writing it")
}

func tooLarge(p string, most int64) *palyra.Error {
	return palyra.Errorf(palyra.Exhausted, palyra.ReasonFileTooLarge,
		"%s is larger than %d MiB: it is not hashed, and so cannot be bound to the plan", quote(p), most>>20).
		WithRemedy("use a smaller program or script; what is only data can be read by a small one")
}

func tooMuch() *palyra.Error {
	return palyra.Errorf(palyra.Exhausted, palyra.ReasonFileTooLarge,
		"the program and its inputs are larger than %d MiB together: they are not hashed, and so cannot be bound to the plan", maxHashed>>20).
		WithRemedy("use fewer or smaller scripts in one call")
}
