// Probe is the program that sandboxtest runs inside a tier, and outside of it for comparison. It tries what a
// hostile program would try, says what came of it, and does no harm where it succeeds: files it opens for writing
// are not written, signals it sends are ignored by default, bombs stop at a bound of their own.
//
//	probe try OP ARGS… + OP ARGS…   one JSON line for each attempt
//	probe NAME ARGS…                behave as NAME: a bomb, a daemon, a flood
//
// It is built without cgo and without unsafe; what it forks runs on raw system
// calls only, for the Go runtime does not survive a fork.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// attemptResult is what came of one attempt. Errno is empty when it succeeded.
type attemptResult struct {
	Op    string `json:"op"`
	Errno string `json:"errno,omitempty"`
	Error string `json:"error,omitempty"`
	Got   string `json:"got,omitempty"`
}

// failed is the exit code of a probe that could not do what it was told.
const failed = 120

func main() {
	if len(os.Args) < 2 {
		unix.Exit(fail("no command"))
	}
	if os.Args[1] == "try" {
		unix.Exit(try(os.Args[2:]))
	}
	act, ok := acts()[os.Args[1]]
	if !ok {
		unix.Exit(fail("no act %q", os.Args[1]))
	}
	unix.Exit(act(os.Args[2:]))
}

func fail(format string, args ...any) int {
	fmt.Fprintf(os.Stderr, "probe: "+format+"\n", args...)
	return failed
}

// try makes attempts one after the other; "+" stands between them, and $HOME
// and $TMPDIR in a word are the run's own.
func try(words []string) int {
	for i, w := range words {
		words[i] = strings.NewReplacer("$HOME", os.Getenv("HOME"), "$TMPDIR", os.Getenv("TMPDIR")).Replace(w)
	}
	out := json.NewEncoder(os.Stdout)
	all := ops()
	for len(words) > 0 {
		n := 0
		for n < len(words) && words[n] != "+" {
			n++
		}
		one := words[:n]
		words = words[min(n+1, len(words)):]
		if len(one) == 0 {
			return fail("an empty attempt")
		}
		op, ok := all[one[0]]
		if !ok || len(one)-1 != op.args {
			return fail("no attempt %q with %d arguments", one[0], len(one)-1)
		}
		got, err := op.do(one[1:])
		if err := out.Encode(judged(one[0], got, err)); err != nil {
			return fail("%v", err)
		}
	}
	return 0
}

func judged(op, got string, err error) attemptResult {
	v := attemptResult{Op: op, Got: got}
	if err == nil {
		return v
	}
	v.Error, v.Errno = err.Error(), "other"
	var no unix.Errno
	if errors.As(err, &no) {
		v.Errno = unix.ErrnoName(no)
	}
	return v
}

// operation is one thing to attempt, with so many arguments.
type operation struct {
	args int
	do   func([]string) (string, error)
}

func ops() map[string]operation {
	all := map[string]operation{}
	for _, some := range []map[string]operation{
		fileOps(), linkOps(), lookOps(), socketOps(), networkOps(), processOps(), kernelOps(),
		ipcOps(), hoardOps(), selfOps(),
	} {
		for name, op := range some {
			all[name] = op
		}
	}
	return all
}

// number reads an argument; "parent" is the pid of ours. The suite makes them, so a bad one is its defect.
func number(s string) int {
	if s == "parent" {
		return os.Getppid()
	}
	n, err := strconv.ParseInt(s, 0, 64)
	if err != nil {
		unix.Exit(fail("%v", err))
	}
	return int(n)
}

func readSome(f *os.File, err error) (string, error) {
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	b := make([]byte, 4096)
	n, err := f.Read(b)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return string(b[:n]), err
}
