//go:build !linux

package sandbox

import (
	"context"
	"os"
	"time"

	"palyra"
)

// Native runs need Linux so far. Elsewhere a Runner can be made, so that the daemon starts, and refuses every run.

func unsupported() error {
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonUnsupported, "native programs cannot be run on this system").
		WithRemedy("run the daemon on Linux")
}

type identity struct{ uid, gid int }

func whoRuns(palyra.WorkspaceRef) (identity, error) { return identity{}, unsupported() }

type privateDirs struct{}

func openPrivateDirs(string) (*privateDirs, error)                     { return &privateDirs{}, nil }
func (*privateDirs) make(palyra.CallID, identity) (*privateDir, error) { return nil, unsupported() }
func (*privateDirs) list() ([]string, error)                           { return nil, nil }
func (*privateDirs) remove(string) error                               { return nil }
func (*privateDirs) close() error                                      { return nil }

type sums struct{}

func newSums(func() time.Time) *sums { return &sums{} }

func (*sums) verify(context.Context, palyra.Executable, identity, bool) error { return unsupported() }

func seal(context.Context, palyra.Executable, *privateDir) (string, *os.File, error) {
	return "", nil, unsupported()
}

func sealCopy(context.Context, palyra.Executable) (*os.File, error) { return nil, unsupported() }

func makeCaches(string, []string, identity) error { return unsupported() }

type caches struct{ dirs []string }

func (*caches) add(string)                    {}
func (*runStart) planted() []palyra.Remnant   { return nil }
func (*runStart) shareCaches(context.Context) {}

func openPipes(bool) (ends, [3]*os.File, error) { return ends{}, [3]*os.File{}, unsupported() }

func openTerminal(int, int, identity) (ends, [3]*os.File, error) {
	return ends{}, [3]*os.File{}, unsupported()
}

func hungUp(error) bool { return false }

func signalNumber(string) int { return 0 }

type (
	input struct{}
	watch struct{}
)

func (*runStart) noteInputs(context.Context) error { return unsupported() }

func (*runStart) lookAgain() []string { return nil }

func (*runStart) mask(context.Context) error { return unsupported() }

func (*runStart) forgetInputs() {}
