package undo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/internal/agefile"
	"palyra/internal/preimage"
)

// keeper is a vault as far as sealing goes.
type keeper struct {
	identity  []byte
	recipient string
	locked    bool // it opens nothing
	none      bool // it cannot even seal
	fails     error
}

func newKeeper(t *testing.T) *keeper {
	t.Helper()
	id, to, err := agefile.Pair()
	if err != nil {
		t.Fatal(err)
	}
	return &keeper{identity: id, recipient: to}
}

var errLocked = palyra.Errorf(palyra.Unavailable, palyra.ReasonVaultLocked, "the vault is locked").
	WithRemedy("open it: palyra vault unlock")

func (k *keeper) Ready() error {
	if k.none {
		return errLocked
	}
	return nil
}

func (k *keeper) Seal(to io.Writer) (io.WriteCloser, error) {
	if k.none {
		return nil, errLocked
	}
	if k.fails != nil {
		return nil, k.fails
	}
	return agefile.SealFor(to, k.recipient)
}

func (k *keeper) Open(from io.Reader) (io.Reader, error) {
	if k.locked || k.none {
		return nil, errLocked
	}
	return agefile.OpenBy(from, k.identity)
}

// sealedBench is a bench whose store is sealed.
func sealedBench(t *testing.T) (*bench, *keeper) {
	t.Helper()
	b, k := newBench(t), newKeeper(t)
	b.seal(k)
	return b, k
}

// seal has the store sealed, as a daemon that starts with k does.
func (b *bench) seal(k *keeper) {
	b.Helper()
	var err error
	b.Undo, err = New(Config{
		Lists: b, Calls: b.get, Journal: b, Kept: NewKept(b.stages, b.past), For: 7 * 24 * time.Hour, Most: 1 << 20, Sealer: k,
		Now: func() time.Time { return b.now }, Log: slog.New(slog.DiscardHandler),
	})
	b.must(err)
}

// sealed waits until nothing lies as it was.
func (b *bench) sealed() {
	b.Helper()
	b.SealAll()
	b.sealWaiting(b.Context())
	if names, err := b.Kept.unsealed(); err != nil || len(names) > 0 {
		b.Fatalf("unsealed: %q, %v", names, err)
	}
}

// lies reports where in the store a text lies.
func (b *bench) lies(text string) (at []string) {
	b.Helper()
	b.must(filepath.WalkDir(filepath.Join(b.dir, "undo"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		if bytes.Contains(raw, []byte(text)) {
			at = append(at, path)
		}
		return err
	}))
	return at
}

const secretText = "the old content, which nobody is to see"

// TestWhatCallsReplacedIsSealed holds that nothing of it can be read in the store, and that undo, redo, forget and diff
// work as they do without a seal.
func TestWhatCallsReplacedIsSealed(t *testing.T) {
	b, k := sealedBench(t)
	b.must(os.WriteFile(filepath.Join(b.ws, "f"), []byte(secretText), 0o640))
	b.must(os.MkdirAll(filepath.Join(b.ws, "dir/\xff"), 0o755))
	b.must(os.WriteFile(filepath.Join(b.ws, "dir/\xff/g"), []byte(secretText+"\n"), 0o600))
	b.must(os.Symlink("f", filepath.Join(b.ws, "l")))
	c := b.call("C1", map[string]string{"f": "new\n", "dir/\xff/g": "new too\n", "l": "no link\n"})
	if len(b.lies(secretText)) != 2 {
		t.Fatal("before it is sealed it lies there: what follows shows nothing")
	}
	b.sealed()
	if at := b.lies(secretText); len(at) > 0 {
		t.Fatalf("it can be read in %q", at)
	}
	if d, err := b.Diff(t.Context(), c, ""); err != nil || strings.Count(d.Diff, "-"+secretText) != 2 {
		t.Errorf("the diff: %q, %v, %v", d.Diff, d.Notes, err)
	}
	if out, err := b.Check(t.Context(), c, false); err != nil || out.Problem != "" {
		t.Errorf("%+v, %v", out, err)
	}
	k.locked = true
	for what, err := range map[string]error{"undo": b.undoErr(c, false), "check": b.checkErr(c), "diff": b.diffErr(c)} {
		if e := palyra.AsError(err); e.Reason != palyra.ReasonVaultLocked || !strings.Contains(e.Remedy, "palyra vault unlock") {
			t.Errorf("%s while the vault is locked: %v", what, err)
		}
	}
	b.must(os.WriteFile(filepath.Join(b.ws, "h"), []byte(secretText), 0o640))
	b.call("C2", map[string]string{"h": "calls go on\n"})
	b.sealed()
	k.locked = false
	for range 3 {
		b.must(b.undoErr(c, false))
		if got := b.read("f") + b.read("dir/\xff/g"); got != secretText+secretText+"\n" {
			t.Fatalf("undone: %q", got)
		}
		if to, err := os.Readlink(filepath.Join(b.ws, "l")); err != nil || to != "f" {
			t.Fatalf("undone: %q, %v", to, err)
		}
		b.sealed()
		if at := append(b.lies(secretText), b.lies("new too")...); len(at) > 0 {
			t.Fatalf("undone, it can be read in %q", at)
		}
		b.must(b.undoErr(c, true))
		if b.read("f") != "new\n" {
			t.Fatal("not redone")
		}
		b.sealed()
	}
	b.must(b.Forget(t.Context(), c, "user:u", palyra.Signature{}))
	if names, err := b.past.Names(); err != nil || len(names) != 1 {
		t.Errorf("%q, %v", names, err)
	}
}

func (b *bench) undoErr(c *palyra.Call, redo bool) error {
	_, err := b.Revert(b.Context(), c, redo, "user:u", palyra.Signature{})
	return err
}

func (b *bench) checkErr(c *palyra.Call) error {
	_, err := b.Check(b.Context(), c, false)
	return err
}

func (b *bench) diffErr(c *palyra.Call) error {
	_, err := b.Diff(b.Context(), c, "")
	return err
}

// TestWhatIsKeptUnsealed holds that stores of before are read as they are, and are sealed by and by.
func TestWhatIsKeptUnsealed(t *testing.T) {
	b := newBench(t)
	b.must(os.WriteFile(filepath.Join(b.ws, "f"), []byte(secretText), 0o640))
	c := b.call("C1", map[string]string{"f": "new\n"})
	k := newKeeper(t)
	b.seal(k)
	k.locked = true
	b.must(b.undoErr(c, false)) // it is not sealed, and needs no vault
	k.locked = false
	b.must(b.undoErr(c, true))
	if _, err := b.Prune(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.sealWaiting(t.Context())
	if at := b.lies(secretText); len(at) > 0 {
		t.Fatalf("it can be read in %q", at)
	}
	b.must(b.undoErr(c, false))
}

// TestNothingIsKeptThatCannotBeSealed holds that a call whose replaced files could not be sealed is told so before, and
// that nothing lies there unsealed where somebody agreed to lose it.
func TestNothingIsKeptThatCannotBeSealed(t *testing.T) {
	b, k := sealedBench(t)
	k.none = true
	if never, _ := b.Room(1); !never {
		t.Error("it is said that there is room")
	}
	old := []Old{{Change: palyra.Change{Path: "f", Was: &palyra.PathState{Kind: palyra.PathFile}}, Content: []byte(secretText)}}
	uid, gid := int64(os.Geteuid()), int64(os.Getegid())
	_, err := b.Remember(t.Context(), "C1", b.ws, uid, gid, old, false)
	if e := palyra.AsError(err); e.Reason != palyra.ReasonQuotaExceeded || !strings.Contains(e.Text, "palyra vault unlock") {
		t.Errorf("%v", err)
	}
	done, err := b.Remember(t.Context(), "C1", b.ws, uid, gid, old, true)
	b.must(err)
	done(true)
	if names, err := b.past.Names(); err != nil || len(names) > 0 || len(b.lies(secretText)) > 0 {
		t.Errorf("kept: %q, %v", names, err)
	}
}

// TestWhatIsSealedAndChanged holds that a sealed entry that somebody flips, cuts or exchanges is refused and changes
// nothing.
func TestWhatIsSealedAndChanged(t *testing.T) {
	b, _ := sealedBench(t)
	b.must(os.WriteFile(filepath.Join(b.ws, "f"), []byte(secretText), 0o640))
	c := b.call("C1", map[string]string{"f": "new\n"})
	b.must(os.WriteFile(filepath.Join(b.ws, "g"), []byte(secretText+" of another"), 0o640))
	b.call("C2", map[string]string{"g": "new\n"})
	b.sealed()
	at := func(id string) string { return filepath.Join(b.dir, "undo", id, preimage.Sealed) }
	was, err := os.ReadFile(at("C1"))
	b.must(err)
	other, err := os.ReadFile(at("C2"))
	b.must(err)
	bad := map[string][]byte{"exchanged": other, "empty": {}}
	for i := 0; i < len(was); i += 7 {
		flipped := bytes.Clone(was)
		flipped[i] ^= 1
		bad[fmt.Sprint("flipped ", i)], bad[fmt.Sprint("cut ", i)] = flipped, was[:i]
	}
	for what, text := range bad {
		b.must(os.WriteFile(at("C1"), text, 0o600))
		if err := b.undoErr(c, false); err == nil || b.read("f") != "new\n" {
			t.Fatalf("%s: %v, and f is %q", what, err, b.read("f"))
		}
		if left, err := os.ReadDir(filepath.Join(b.dir, "undo", "C1")); err != nil || len(left) != 2 {
			t.Fatalf("%s: %v, %v", what, left, err)
		}
	}
	b.must(os.WriteFile(at("C1"), was, 0o600))
	b.must(b.undoErr(c, false))
}

// TestSealingGoesOnBesideUndo holds that who undoes, looks and forgets while an entry is being sealed meets it whole.
func TestSealingGoesOnBesideUndo(t *testing.T) {
	b, _ := sealedBench(t)
	for i := range 20 {
		id := palyra.CallID(fmt.Sprint("C", i))
		b.must(os.WriteFile(filepath.Join(b.ws, "f"), []byte(secretText), 0o640))
		c := b.call(id, map[string]string{"f": "new\n"})
		ctx, done := context.WithCancel(t.Context())
		sealing := make(chan error, 1)
		go func() { sealing <- b.Kept.seal(ctx, string(id)) }()
		if i%3 == 0 {
			done() // it is given up
		}
		b.must(b.diffErr(c))
		if i%2 == 0 {
			b.must(b.undoErr(c, false))
		} else {
			b.must(b.Forget(t.Context(), c, "user:u", palyra.Signature{}))
		}
		if err := <-sealing; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("%d: %v", i, err)
		}
		done()
	}
	b.sealed()
	if at := b.lies(secretText); len(at) > 0 {
		t.Errorf("it can be read in %q", at)
	}
	b.must(b.Undo.Close())
}

// TestWhatCannotBeSealedDoesNotLieThere holds that what could not be sealed for an hour, or for a day while the vault can
// seal nothing, is forgotten, on record, and that nothing is forgotten before.
func TestWhatCannotBeSealedDoesNotLieThere(t *testing.T) {
	for _, locked := range []bool{false, true} {
		b, k := sealedBench(t)
		b.must(os.WriteFile(filepath.Join(b.ws, "f"), []byte(secretText), 0o640))
		b.call("C1", map[string]string{"f": "new\n"})
		b.must(os.WriteFile(filepath.Join(b.ws, "g"), []byte("of another"), 0o640))
		b.call("C2", map[string]string{"g": "new\n"})
		b.sealed()
		b.must(os.WriteFile(filepath.Join(b.ws, "f"), []byte(secretText), 0o640))
		b.call("C3", map[string]string{"f": "newer\n"})
		try := func() { b.SealAll(); b.sealWaiting(t.Context()) }
		patience := mostFailing
		if k.fails = errors.New("it fails"); locked {
			k.fails, k.none, patience = nil, true, mostLocked
		}
		for range mostTries + 2 {
			try()
		}
		b.now = b.now.Add(patience - time.Second)
		try()
		if len(b.lies(secretText)) != 1 || len(b.Problems()) != 1 {
			t.Fatalf("locked %v: forgotten too early, or not told: %q", locked, b.Problems())
		}
		before := len(b.lines)
		b.now = b.now.Add(time.Second)
		try()
		if at := b.lies(secretText); len(at) > 0 {
			t.Fatalf("locked %v: it lies in %q", locked, at)
		}
		if names, err := b.past.Names(); err != nil || len(names) != 2 {
			t.Errorf("locked %v: left are %q, %v", locked, names, err)
		}
		if got := b.Problems(); len(got) != 1 || !strings.Contains(got[0], "1 calls replaced was forgotten") {
			t.Errorf("locked %v: told: %q", locked, got)
		}
		if len(b.lines) != before+1 {
			t.Fatalf("locked %v: %d lines on record", locked, len(b.lines)-before)
		}
		if l := b.lines[before]; l.Call != "C3" || l.Reversal != palyra.ReversalForget || l.By != palyra.SystemDaemon || l.Reason == "" {
			t.Errorf("locked %v: on record: %+v", locked, l)
		}
	}
}
