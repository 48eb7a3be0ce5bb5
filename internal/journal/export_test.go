package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"palyra"
	"palyra/internal/canon"
)

// export writes a segment and checks that it verifies.
func export(t testing.TB, f *fixture, from, to int64) []byte {
	t.Helper()
	var buf bytes.Buffer
	n, err := f.Export(context.Background(), &buf, from, to)
	if err != nil {
		t.Fatal(err)
	}
	r, err := checkExport(f, buf.Bytes())
	mustVerify(t, r, err)
	if lines := int64(bytes.Count(buf.Bytes(), []byte("\n"))); lines != n+2 || r.To-r.From+1 != n {
		t.Errorf("%d entries, %d lines, report %+v", n, lines, r)
	}
	return buf.Bytes()
}

func checkExport(f *fixture, raw []byte) (Report, error) {
	k, err := parseKeys(f.keys())
	if err != nil {
		return Report{}, err
	}
	return verifyExport(context.Background(), bytes.NewReader(raw), k, nil)
}

func TestExport(t *testing.T) {
	f := newFixture(t)
	f.fill(t, 2*tileWidth+90)
	for _, span := range [][2]int64{{1, 1}, {1, 602}, {0, 0}, {2, 2}, {7, 20}, {256, 257}, {257, 512}, {513, 602}, {602, 602}, {300, 601}} {
		if span[1] == 602 && span[0] != 0 {
			span[1] = 0
		}
		export(t, f, span[0], span[1])
	}
	for _, bad := range [][2]int64{{5, 4}, {1, 603}, {603, 0}, {700, 800}} {
		if _, err := f.Export(t.Context(), io.Discard, bad[0], bad[1]); palyra.CodeOf(err) != palyra.Invalid {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

// The lines are the entries, readable by anything that reads JSON.
func TestExportLines(t *testing.T) {
	f := newFixture(t)
	odd := palyra.SessionClosed{Session: "s", By: "<b>&\u2028\x00\"\\ žluť 🐈"}
	if _, err := f.Record(t.Context(), event(0), odd, event(3)); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(export(t, f, 0, 0)), "\n"), "\n")
	for i, text := range lines {
		v, err := canon.Parse([]byte(text))
		if err != nil {
			t.Fatalf("line %d: %v", i, err)
		}
		if again, err := canon.JSON(v); err != nil || string(again) != text {
			t.Errorf("line %d is not canonical: %s", i, text)
		}
	}
	list, err := f.Entries(t.Context(), palyra.EntryFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range list {
		var got struct {
			Entry palyra.Entry `json:"entry"`
		}
		if err := json.Unmarshal([]byte(lines[i+1]), &got); err != nil || got.Entry.Seq != want.Seq || got.Entry.Kind != want.Kind {
			t.Errorf("%v: %s", err, lines[i+1])
		}
	}
	if !strings.Contains(lines[2], "<b>&") {
		t.Errorf("HTML is escaped: %s", lines[2])
	}
}

// Every byte of an export is changed, and every length cut, and all of it is
// noticed.
func TestEveryByteOfAnExport(t *testing.T) {
	f := newFixture(t)
	f.fill(t, 8)
	for name, raw := range map[string][]byte{"whole": export(t, f, 0, 0), "middle": export(t, f, 6, 7)} {
		lineOf, seq := 0, int64(0)
		first := int64(1)
		if name == "middle" {
			first = 6
		}
		last := int64(bytes.Count(raw, []byte("\n"))) - 2
		for i := range raw {
			for _, flip := range []byte{1, 2, 0x20, 0x80} {
				other := bytes.Clone(raw)
				other[i] ^= flip
				r, err := checkExport(f, other)
				if err == nil || r.Problem == nil {
					t.Fatalf("%s: byte %d of line %d changed from %q to %q: %+v", name, i, lineOf, raw[i], other[i], r)
				}
				if lineOf > 0 && int64(lineOf) <= last && raw[i] != '\n' && other[i] != '\n' && r.Problem.Seq != seq {
					t.Fatalf("%s: byte %d of entry %d changed: %v", name, i, seq, r.Problem)
				}
			}
			if raw[i] == '\n' {
				lineOf++
				seq = first + int64(lineOf) - 1
			}
		}
		for i := range raw {
			if r, err := checkExport(f, raw[:i]); err == nil {
				t.Fatalf("%s: cut to %d bytes: %+v", name, i, r)
			}
		}
	}
}

func TestExportStructure(t *testing.T) {
	f := newFixture(t)
	f.fill(t, 20)
	raw := string(export(t, f, 3, 18))
	lines := strings.SplitAfter(strings.TrimSuffix(raw, "\n"), "\n")
	lines[len(lines)-1] += "\n"
	edit := func(do func([]string) []string) string {
		return strings.Join(do(append([]string{}, lines...)), "")
	}
	other := strings.SplitAfter(string(export(t, f, 3, 17)), "\n")
	for name, c := range map[string]struct {
		raw string
		seq int64
	}{
		"empty":               {"", 0},
		"more after it":       {raw + "\n", 0},
		"twice":               {raw + raw, 0},
		"a blank before it":   {" " + raw, 0},
		"carriage returns":    {strings.ReplaceAll(raw, "\n", "\r\n"), 0},
		"no first line":       {edit(func(l []string) []string { return l[1:] }), 0},
		"no last line":        {edit(func(l []string) []string { return l[:len(l)-1] }), 0},
		"first removed":       {edit(func(l []string) []string { return append(l[:1], l[2:]...) }), 3},
		"one removed":         {edit(func(l []string) []string { return append(l[:5], l[6:]...) }), 7},
		"last removed":        {edit(func(l []string) []string { return append(l[:len(l)-2], l[len(l)-1]) }), 18},
		"one repeated":        {edit(func(l []string) []string { return append(l[:6], l[5:]...) }), 8},
		"two swapped":         {edit(func(l []string) []string { l[5], l[6] = l[6], l[5]; return l }), 7},
		"another's last line": {edit(func(l []string) []string { l[len(l)-1] = other[len(other)-2]; return l }), 3},
		"another's first":     {edit(func(l []string) []string { l[0] = other[0]; return l }), 0},
		"blank lines":         {edit(func(l []string) []string { l[4] += "\n"; return l }), 7},
		"a long line":         {edit(func(l []string) []string { l[4] = strings.Repeat("x", maxLine+100) + "\n"; return l }), 6},
		"a short line":        {edit(func(l []string) []string { l[4] = "{}\n"; return l }), 6},
		"spaces in a line":    {edit(func(l []string) []string { l[4] = strings.Replace(l[4], `"kind":`, `"kind": `, 1); return l }), 6},
		"escapes in a line":   {edit(func(l []string) []string { l[4] = strings.Replace(l[4], `"kind":`, `"\u006bind":`, 1); return l }), 6},
		"not JSON":            {strings.Repeat("no\n", 20), 0},
	} {
		r, err := checkExport(f, []byte(c.raw))
		if wantProblem(t, r, err, c.seq); t.Failed() {
			t.Fatalf("%s: %v", name, r.Problem)
		}
	}
	stranger := *f
	stranger.signer = newSigner(testOrigin, 9)
	r, err := checkExport(&stranger, []byte(raw))
	wantProblem(t, r, err, 0)
}

// An export made by someone with the entries and another key, or with a genuine
// checkpoint and other entries, is not taken.
func TestExportForged(t *testing.T) {
	f := newFixture(t)
	f.fill(t, 20)
	forged := newFixture(t)
	forged.fill(t, 19)
	if _, err := forged.Record(t.Context(), palyra.DaemonStopped{Instance: "forged"}); err != nil {
		t.Fatal(err)
	}
	head, err := f.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	raw := export(t, forged, 0, 0) // the same key: only the checkpoint can tell
	fake, err := forged.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	was, _ := canon.JSON(fake.Note)
	is, _ := canon.JSON(head.Note)
	r, err := checkExport(f, bytes.Replace(raw, was, is, 1))
	wantProblem(t, r, err, 20)
}

// The chain before a segment in the middle is not in the tree: the seal is what
// holds it.
func TestExportChainForged(t *testing.T) {
	f := newFixture(t)
	f.fill(t, 20)
	lines := strings.SplitAfter(string(export(t, f, 5, 9)), "\n")
	was, err := f.Entries(t.Context(), palyra.EntryFilter{From: 5, To: 9})
	if err != nil {
		t.Fatal(err)
	}
	chain := chainStart("another past")
	var h exportHeader
	if err := json.Unmarshal([]byte(lines[0]), &h); err != nil {
		t.Fatal(err)
	}
	h.Prev = digest(chain)
	first, err := canonical(h)
	if err != nil {
		t.Fatal(err)
	}
	lines[0] = string(first) + "\n"
	for i, e := range was {
		b, err := canon.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		chain = link(chain, tlog.RecordHash(b))
		lines[i+1] = lineStart + string(digest(chain)) + lines[i+1][len(lineStart)+chainText:]
	}
	r, err := checkExport(f, []byte(strings.Join(lines, "")))
	wantProblem(t, r, err, 5)
	if !strings.Contains(r.Problem.Why, "sealed") {
		t.Errorf("problem %v", r.Problem)
	}
}

// A journal that was changed is not sealed.
func TestExportOfAChangedJournal(t *testing.T) {
	f := newFixture(t)
	f.fill(t, 300)
	db := f.raw(t)
	for name, change := range map[string]string{
		"entry":   "UPDATE journal_entries SET entry = CAST(substr(entry, 1, length(entry)-1) || '~' AS BLOB) WHERE seq = 21",
		"chain":   "UPDATE journal_entries SET chain = leaf WHERE seq = 21",
		"before":  "UPDATE journal_entries SET chain = leaf WHERE seq = 9",
		"short":   "UPDATE journal_entries SET chain = x'00' WHERE seq = 9",
		"missing": "DELETE FROM journal_entries WHERE seq > 20",
		"none":    "DELETE FROM journal_entries",
		"tile":    "UPDATE journal_tiles SET hashes = zeroblob(8192)",
	} {
		f.undone(t, db, func() {
			mustExec(t, db, change)
			var buf bytes.Buffer
			_, err := f.Export(t.Context(), &buf, 10, 40)
			if palyra.AsError(err).Reason != palyra.ReasonVerifyFailed {
				t.Errorf("%s: %v", name, err)
			}
			if r, err := checkExport(f, buf.Bytes()); err == nil {
				t.Errorf("%s: what was written verifies: %+v", name, r)
			}
		})
	}
	f.undone(t, db, func() { // every hash fits, only the tree tells
		forge(t, db, func(n int64, d *draft) bool {
			if n == 290 {
				d.body = []byte("m1:s6:forgedt")
			}
			return true
		})
		if _, err := f.Export(t.Context(), io.Discard, 260, 0); palyra.AsError(err).Reason != palyra.ReasonVerifyFailed {
			t.Errorf("forged: %v", err)
		}
	})
}

type brokenWriter struct{ left int }

func (w *brokenWriter) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, errOwn
	}
	return len(p), nil
}

func TestExportToABrokenWriter(t *testing.T) {
	f := newFixture(t)
	f.fill(t, 600)
	for _, room := range []int{0, 70_000, 140_000} {
		if _, err := f.Export(t.Context(), &brokenWriter{left: room}, 0, 0); !errors.Is(err, errOwn) {
			t.Errorf("room for %d bytes: %v", room, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Export(ctx, io.Discard, 0, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	f.signer.fail = errOwn
	if _, err := f.Export(t.Context(), io.Discard, 0, 0); !errors.Is(err, errOwn) {
		t.Errorf("without a key: %v", err)
	}
}

func FuzzExport(f *testing.F) {
	x := newFixture(f)
	x.fill(f, 4)
	raw := export(f, x, 2, 3)
	f.Add(raw)
	f.Add([]byte("{}\n"))
	f.Fuzz(func(t *testing.T, other []byte) {
		if r, err := checkExport(x, other); err == nil && !bytes.Equal(other, raw) {
			t.Errorf("forged: %+v", r)
		}
	})
}
