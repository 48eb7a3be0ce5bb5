package preimage

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/agefile"
	"palyra/internal/beneath"
)

// failsOnce is a writer of which one write is refused, and those after it are not.
type failsOnce struct {
	io.Writer
	at  int // the write
	err error
}

func (f *failsOnce) Write(b []byte) (int, error) {
	if f.at--; f.at == 0 {
		return 0, f.err
	}
	return f.Writer.Write(b)
}

// TestAStreamThatWasRefusedIsNotWhole holds that no refusal in the middle of a stream is taken for a thing that may not
// be read: the stream ends there.
func TestAStreamThatWasRefusedIsNotWhole(t *testing.T) {
	from := openedDir(t, planted(t))
	for _, refusal := range []error{unix.EPERM, unix.EACCES} {
		for at := 1; ; at++ {
			var out bytes.Buffer
			to := &failsOnce{&out, at, refusal}
			err := writeTree(t.Context(), to, "it", from)
			if to.at > 0 {
				must(t, err)
				if at < 20 {
					t.Fatalf("%d writes: that shows nothing", at)
				}
				break
			}
			if !errors.Is(err, refusal) {
				t.Fatalf("write %d: %v, and the stream goes on", at, err)
			}
		}
	}
}

// TestAStreamIsReadBack holds that a stream that does not come back is an error when it is written.
func TestAStreamIsReadBack(t *testing.T) {
	var whole bytes.Buffer
	must(t, writeTree(t.Context(), &whole, "it", openedDir(t, planted(t))))
	write := func(b []byte) error {
		return readBack(t.Context(), io.Discard, "it", func(to io.Writer) error {
			for len(b) > 0 {
				n, err := to.Write(b[:min(len(b), 100)])
				if err != nil {
					return err
				}
				b = b[n:]
			}
			return nil
		})
	}
	must(t, write(whole.Bytes()))
	for cut := 0; cut < whole.Len(); cut += 1 + cut/9 {
		if write(whole.Bytes()[:cut]) == nil {
			t.Fatalf("cut after %d: not noticed", cut)
		}
		if write(append(bytes.Clone(whole.Bytes()[:cut]), whole.Bytes()[cut+1:]...)) == nil && cut < 100 {
			t.Fatalf("without byte %d: not noticed", cut)
		}
	}
	if write(append(bytes.Clone(whole.Bytes()), 0)) == nil {
		t.Error("more after the end: not noticed")
	}
}

// pair seals and opens.
type pair struct {
	id  []byte
	to  string
	err error // of one write
}

func (*pair) Ready() error { return nil }

func (k *pair) Seal(to io.Writer) (io.WriteCloser, error) {
	w, err := agefile.SealFor(to, k.to)
	if err == nil && k.err != nil {
		return struct {
			io.Writer
			io.Closer
		}{&failsOnce{w, 6, k.err}, w}, nil
	}
	return w, err
}

func (k *pair) Open(from io.Reader) (io.Reader, error) { return agefile.OpenBy(from, k.id) }

// kept is a store with one entry, C1, of one file in a directory.
func kept(t *testing.T) (*Store, *pair, string) {
	t.Helper()
	id, to, err := agefile.Pair()
	must(t, err)
	dir := filepath.Join(t.TempDir(), "undo")
	p, err := Open(dir)
	must(t, err)
	t.Cleanup(func() { _ = p.Close() })
	at := filepath.Join(dir, "C1")
	must(t, os.MkdirAll(filepath.Join(at, Old, "0"), 0o700))
	must(t, os.WriteFile(filepath.Join(at, Old, "0/f"), []byte("what was there"), 0o600))
	m := Manifest{Version: 1, Workspace: "/w", UID: int64(os.Geteuid()), GID: int64(os.Getegid()), At: time.Now()}
	text, err := m.Text()
	must(t, err)
	must(t, os.WriteFile(filepath.Join(at, ManifestName), text, 0o600))
	return p, &pair{id: id, to: to}, at
}

// TestTheOriginalStays holds that what was there is not removed for a stream that was refused in its middle.
func TestTheOriginalStays(t *testing.T) {
	p, k, at := kept(t)
	p.SealWith(k, nil)
	for _, k.err = range []error{unix.EPERM, unix.EACCES} {
		if err := p.Seal(t.Context(), "C1"); !errors.Is(err, k.err) {
			t.Errorf("refused: %v", err)
		}
		if text, err := os.ReadFile(filepath.Join(at, Old, "0/f")); err != nil || string(text) != "what was there" {
			t.Fatalf("the original: %q, %v", text, err)
		}
	}
	k.err = nil
	must(t, p.Seal(t.Context(), "C1"))
	if _, err := os.Lstat(filepath.Join(at, Old)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("sealed, the original is there: %v", err)
	}
}

// TestWhatWasOpenedDoesNotStay holds that what an opened entry leaves in clear is told, counted and removed.
func TestWhatWasOpenedDoesNotStay(t *testing.T) {
	p, k, at := kept(t)
	var told []string
	p.SealWith(k, func(name string, err error) { told = append(told, name+": "+err.Error()) })
	must(t, p.Seal(t.Context(), "C1"))
	open := func() bool { is, err := p.Open("C1"); must(t, err); return is }
	_, done, err := p.OpenOld(t.Context(), "C1")
	must(t, err)
	if done(); len(told) > 0 || open() {
		t.Fatalf("closed, it is open: %q", told)
	}
	p.clear = func(as beneath.As, top int, names ...string) error {
		if _, err := os.Lstat(filepath.Join(at, opened)); err == nil {
			return unix.EIO
		}
		return beneath.Clear(as, top, names...)
	}
	_, done, err = p.OpenOld(t.Context(), "C1")
	must(t, err)
	if done(); len(told) != 1 || !strings.HasPrefix(told[0], "C1: ") || !open() {
		t.Fatalf("it could not be removed: %q, open %v", told, open())
	}
	if err := p.Seal(t.Context(), "C1"); !errors.Is(err, unix.EIO) {
		t.Errorf("it still cannot: %v", err)
	}
	p.clear = nil
	if must(t, p.Seal(t.Context(), "C1")); open() {
		t.Error("it stays")
	}
	must(t, os.WriteFile(filepath.Join(at, sealing), []byte("half"), 0o600))
	if !open() {
		t.Error("what was begun is not counted")
	}
	if must(t, p.Seal(t.Context(), "C1")); open() {
		t.Error("what was begun stays")
	}
}
