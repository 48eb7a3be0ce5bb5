package celltest

import (
	"bytes"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"palyra"
	"palyra/internal/sandbox"
)

// Streams are a run's, to be closed by who starts it: nothing to read, and a file for all that it prints, which
// printed returns so far, without the white space around it.
func Streams(t testing.TB) (in, out *os.File, printed func() string) {
	t.Helper()
	in, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	out, err = os.CreateTemp(t.TempDir(), "out")
	if err != nil {
		t.Fatal(err)
	}
	name := out.Name()
	return in, out, func() string {
		t.Helper()
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(bytes.TrimSpace(b))
	}
}

// Run runs a job to its end.
func Run(t testing.TB, b sandbox.Backend, j sandbox.Job) sandbox.Exit {
	t.Helper()
	return Wait(t, Start(t, b, j))
}

// Start starts a job.
func Start(t testing.TB, b sandbox.Backend, j sandbox.Job) sandbox.Process {
	t.Helper()
	p, err := b.Start(t.Context(), j)
	if err != nil {
		t.Fatalf("start: %v (%v)", err, palyra.AsError(err).Cause)
	}
	return p
}

// Wait waits for the end of a run.
func Wait(t testing.TB, p sandbox.Process) sandbox.Exit {
	t.Helper()
	e, err := p.Wait()
	if err != nil {
		t.Fatalf("wait: %v (%v)", err, palyra.AsError(err).Cause)
	}
	return e
}

// Until polls for something that another process brings about.
func Until(t testing.TB, what string, f func() bool) {
	t.Helper()
	end := time.After(90 * time.Second)
	for !f() {
		select {
		case <-time.After(2 * time.Millisecond):
		case <-end:
			t.Fatalf("never: %s", what)
		}
	}
}

// NoneLeft fails a test that left any of the directories behind: cgroups, say.
func NoneLeft(t testing.TB, dirs []string) {
	t.Helper()
	for _, d := range dirs {
		if _, err := os.Stat(d); err == nil {
			t.Errorf("%s is left behind", d)
		}
	}
}

// Sealed is a file in memory that nobody can change any more.
func Sealed(t testing.TB, body []byte) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("sealed", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "sealed")
	if _, err := f.Write(body); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE); err != nil {
		t.Fatal(err)
	}
	return f
}

// Timed is how long f takes.
func Timed(f func()) time.Duration {
	begun := time.Now()
	f()
	return time.Since(begun)
}

// At sorts what was measured, and returns a percentile.
func At(all []time.Duration, percent int) time.Duration {
	slices.Sort(all)
	return all[min(len(all)-1, len(all)*percent/100)]
}
