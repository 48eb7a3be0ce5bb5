package exit

import (
	"errors"
	"fmt"

	"palyra"
)

// Error is an exit code alone, for commands that have already printed their message.
type Error struct {
	Code int
	Text string // "" when nothing is left to print
	Err  error  // printed instead of Text
}

// Error implements error.
func (e Error) Error() string {
	if e.Err != nil {
		return e.Err.Error()
	}
	return e.Text
}

// Unwrap returns Err.
func (e Error) Unwrap() error { return e.Err }

// Unproven turns the error of an offline check into an ordinary failure: no credential and no
// policy is involved, whatever its reason.
func Unproven(err error) error {
	if err == nil {
		return nil
	}
	if _, ours := As(err); ours {
		return err
	}
	return Error{Code: Failure, Err: err}
}

// As returns the error with an exit code of its own, if err is or wraps one.
func As(err error) (Error, bool) {
	var s Error
	ok := errors.As(err, &s)
	return s, ok
}

// Usagef is an error in the command line.
func Usagef(format string, args ...any) error {
	return Error{Code: Usage, Text: fmt.Sprintf(format, args...)}
}

// Failedf is an ordinary failure in the command's own words.
func Failedf(reason palyra.Reason, format string, args ...any) *palyra.Error {
	return palyra.Errorf(palyra.Invalid, reason, format, args...)
}

// Interrupted turns an error after Ctrl-C into one with its own exit code.
func Interrupted(err error) error {
	if s, ok := As(err); ok && s.Code != Failure {
		return err
	}
	return palyra.Errorf(palyra.Expired, palyra.ReasonCancelled, "interrupted").WithCause(err)
}

// Message is an error as --json prints it.
type Message struct {
	Code   palyra.Code   `json:"code"`
	Reason palyra.Reason `json:"reason_code"`
	Text   string        `json:"text"`
	Remedy string        `json:"remedy"`
}
