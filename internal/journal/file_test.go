package journal

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"palyra"
)

func TestVerifyFile(t *testing.T) {
	f := newFixture(t)
	f.fill(t, 300)
	var buf bytes.Buffer
	if _, err := f.Export(t.Context(), &buf, 0, 0); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "segment.ndjson")
	if err := os.WriteFile(file, buf.Bytes(), 0o400); err != nil {
		t.Fatal(err)
	}
	live, err := f.verify(t) // beside the daemon
	mustVerify(t, live, err)
	f.shut(t)
	state, err := f.verify(t)
	mustVerify(t, state, err)
	var seen []int64
	segment, err := VerifyFile(t.Context(), file, f.keys(), func(done, total int64) { seen = append(seen, done, total) })
	mustVerify(t, segment, err)
	if diff := cmp.Diff([]int64{300, 300}, seen); diff != "" {
		t.Error(diff)
	}
	if state.Source != "database" || segment.Source != "export" || state.Root != segment.Root || live.Root != state.Root {
		t.Errorf("%+v\n%+v\n%+v", live, state, segment)
	}
}

// What a daemon leaves behind when it is killed, file and log as they are, is a
// journal with everything that was acknowledged.
func TestCrashImage(t *testing.T) {
	f := newFixture(t)
	f.fill(t, 300)
	head, err := f.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	image := filepath.Join(t.TempDir(), "state.db")
	for _, suffix := range []string{"", "-wal"} {
		raw, err := os.ReadFile(f.path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(image+suffix, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r, err := VerifyFile(t.Context(), image, f.keys(), nil)
	mustVerify(t, r, err)
	j, err := open(t, image, Config{Signer: f.signer})
	if err != nil {
		t.Fatal(err)
	}
	if again, err := j.Head(t.Context()); err != nil || again != head {
		t.Errorf("head %+v, %v; want %+v", again, err, head)
	}
	if pos, err := j.Record(t.Context(), event(0)); err != nil || pos.Seq != 301 {
		t.Errorf("%v, %v", pos, err)
	}
}

func TestVerifyFileRefuses(t *testing.T) {
	f := newFixture(t)
	f.fill(t, 3)
	f.shut(t)
	other := filepath.Join(t.TempDir(), "noise")
	if err := os.WriteFile(other, []byte("hello\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := VerifyFile(t.Context(), other+"-none", f.keys(), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := VerifyFile(t.Context(), other, f.keys(), nil); palyra.AsError(err).Reason != palyra.ReasonVerifyFailed {
		t.Errorf("noise: %v", err)
	}
	for _, keys := range [][]string{nil, {""}, {"x"}} {
		if _, err := VerifyFile(t.Context(), f.path, keys, nil); palyra.AsError(err).Reason != palyra.ReasonUnknownKey {
			t.Errorf("keys %q: %v", keys, err)
		}
	}
	r, err := VerifyFile(t.Context(), f.path, []string{newSigner(testOrigin, 5).Verifier()}, nil)
	wantProblem(t, r, err, 0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := VerifyFile(ctx, f.path, f.keys(), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	db := f.raw(t)
	for _, name := range []string{"entries", "tiles", "head", "checkpoints"} {
		mustExec(t, db, "DELETE FROM journal_"+name)
	}
	r, err = f.verify(t)
	wantProblem(t, r, err, 0)
	mustExec(t, db, "DROP TABLE journal_entries")
	if _, err := f.verify(t); palyra.AsError(err).Reason != palyra.ReasonMalformedInput {
		t.Errorf("a file without a journal: %v", err)
	}
}

// A state file that was damaged anywhere either does not verify or still has
// every entry as it was written.
func TestDamagedFile(t *testing.T) {
	f := newFixture(t)
	f.fill(t, 300)
	want, err := f.Entries(t.Context(), palyra.EntryFilter{Limit: maxLimit})
	if err != nil {
		t.Fatal(err)
	}
	f.shut(t)
	good, err := os.ReadFile(f.path)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	noticed := 0
	for range 300 {
		bad := bytes.Clone(good)
		at := random.IntN(len(bad))
		bad[at] ^= 1 << random.IntN(8)
		if err := os.WriteFile(f.path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := f.verify(t); err != nil {
			noticed++
			continue
		}
		for i, e := range copyEntries(t, f.path) {
			if diff := cmp.Diff(want[i], e); diff != "" {
				t.Fatalf("byte %d: verified, and entry %d differs: %s", at, i+1, diff)
			}
		}
	}
	if noticed < 100 {
		t.Errorf("only %d of 300 damages touched the journal: the test proves little", noticed)
	}
	t.Logf("%d of 300 damages noticed; the rest left the entries as they were", noticed)
}

// copyEntries reads the entries of a file that verified.
func copyEntries(t testing.TB, path string) (list []palyra.Entry) {
	t.Helper()
	f := &fixture{path: path}
	rows, err := f.raw(t).Query("SELECT entry FROM journal_entries ORDER BY seq")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var b []byte
		if err := rows.Scan(&b); err != nil {
			t.Fatal(err)
		}
		e, err := decodeRow(b)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, e)
	}
	return list
}
