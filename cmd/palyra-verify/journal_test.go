package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/internal/attest/attesttest"
	"palyra/internal/journal"
	"palyra/internal/store"
	"palyra/internal/store/sqlite"

	"golang.org/x/mod/sumdb/note"
)

const origin = "palyra/test/journal"

// pen signs the journal of the tests.
type pen struct{ attesttest.Key }

func (pen) Name() string { return origin }

func (p pen) Verifier() string {
	pub, _ := publicKey(p.Public())
	line, err := note.NewEd25519VerifierKey(origin, pub)
	if err != nil {
		panic(err)
	}
	return line
}

func trusted(t testing.TB, text string) []named {
	t.Helper()
	var keys trust
	if err := keys.add(text); err != nil {
		t.Fatal(err)
	}
	return keys.journal
}

// opened is an empty journal; now nil: of the real time.
func opened(t *testing.T, now func() time.Time) *journal.Journal {
	t.Helper()
	engine, err := sqlite.Open(filepath.Join(t.TempDir(), "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(t.Context(), engine, journal.Schema())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	j, err := journal.New(t.Context(), journal.Config{DB: db, Signer: pen{attesttest.Daemon}, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// written returns a journal of n entries.
func written(t *testing.T, n int) *journal.Journal {
	t.Helper()
	j := opened(t, func() time.Time { return time.Date(2026, 11, 15, 12, 0, 0, 7, time.UTC) })
	events := make([]palyra.Event, n)
	for i := range events {
		events[i] = palyra.CallRefused{
			Call: palyra.CallID(fmt.Sprintf("call-%d", i)), Layer: palyra.LayerPolicy,
			Reason: "a <b> & \u2028 \"é\"\n",
		}
		if i%3 == 0 {
			events[i] = palyra.DoorFlood{Door: "api", Count: 1 << 60}
		}
	}
	if _, err := j.Record(t.Context(), events...); err != nil {
		t.Fatal(err)
	}
	return j
}

func exported(t *testing.T, j *journal.Journal, from, to int64) []byte {
	t.Helper()
	var buf bytes.Buffer
	if _, err := j.Export(t.Context(), &buf, from, to); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// Every segment of journals of many sizes is accepted: the tree's arithmetic
// is the same as that of the journal's library.
func TestExports(t *testing.T) {
	keys := trusted(t, pen{attesttest.Daemon}.Verifier())
	for _, n := range []int{1, 2, 3, 7, 8, 9, 20} {
		j := written(t, n)
		for from := int64(1); from <= int64(n); from++ {
			for to := from; to <= int64(n); to++ {
				facts, err := verifyExport(bytes.NewReader(exported(t, j, from, to)), keys)
				if err != nil || facts["from"] != from || facts["to"] != to || facts["size"] != int64(n) {
					t.Fatalf("%d to %d of %d: %v %v", from, to, n, facts, err)
				}
			}
		}
	}
}

func TestProofs(t *testing.T) {
	keys := trusted(t, attesttest.Daemon.Public())
	for _, n := range []int{1, 2, 3, 6, 8, 21} {
		j := written(t, n)
		for seq := int64(1); seq <= int64(n); seq++ {
			p, err := j.Proof(t.Context(), seq)
			if err != nil {
				t.Fatal(err)
			}
			raw, _ := json.MarshalIndent(p, "", "  ")
			if facts, err := verifyProof(raw, keys); err != nil || facts["seq"] != seq {
				t.Errorf("%d of %d: %v %v", seq, n, facts, err)
			}
		}
	}
}

// An export has no freedom at all: every byte counts.
func TestEveryByteOfAnExportCounts(t *testing.T) {
	keys := trusted(t, attesttest.Daemon.Public())
	text := exported(t, written(t, 5), 2, 4)
	attesttest.Mutants(text, func(pos int, mutant []byte, _ bool) {
		if _, err := verifyExport(bytes.NewReader(mutant), keys); err == nil {
			t.Errorf("byte %d: %.60q…", pos, mutant[max(0, pos-20):])
		}
	})
	for cut := range text {
		if _, err := verifyExport(bytes.NewReader(text[:cut]), keys); err == nil {
			t.Errorf("accepted the first %d of %d bytes", cut, len(text))
		}
	}
}

// Both verifiers of the journal agree on changed evidence.
func TestAgreesWithJournal(t *testing.T) {
	line := pen{attesttest.Daemon}.Verifier()
	keys := trusted(t, line)
	j := written(t, 6)
	proof, err := j.Proof(t.Context(), 3)
	if err != nil {
		t.Fatal(err)
	}
	raw, _ := json.Marshal(proof)
	export := exported(t, j, 2, 6)
	file := filepath.Join(t.TempDir(), "export.ndjson")
	rnd := rand.New(rand.NewPCG(3, 5))
	for range 600 {
		changed := attesttest.Mutate(rnd, raw)
		_, theirs := journal.VerifyProof(changed, []string{line})
		if _, ours := verifyProof(changed, keys); (ours == nil) != (theirs == nil) {
			t.Errorf("proof: journal says %v, palyra-verify %v: %s", theirs, ours, changed)
		}
		changed = attesttest.Mutate(rnd, export)
		if err := os.WriteFile(file, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		_, theirs = journal.VerifyFile(context.Background(), file, []string{line}, nil)
		if _, ours := verifyExport(bytes.NewReader(changed), keys); (ours == nil) != (theirs == nil) {
			t.Errorf("export: journal says %v, palyra-verify %v: %s", theirs, ours, changed)
		}
	}
}

func TestJournalKeysMatter(t *testing.T) {
	text := exported(t, written(t, 3), 0, 0)
	other := strings.Replace(pen{attesttest.Daemon}.Verifier(), origin, "palyra/other", 1)
	for name, c := range map[string]struct {
		key string
		ok  bool
	}{
		"bare key": {attesttest.Daemon.Public(), true}, "verifier line": {pen{attesttest.Daemon}.Verifier(), true},
		"another key": {attesttest.Ada.Public(), false}, "key of another journal": {other, false},
	} {
		if _, err := verifyExport(bytes.NewReader(text), trusted(t, c.key)); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := verifyExport(bytes.NewReader(text), nil); err == nil {
		t.Error("accepted without a key")
	}
}

func TestProofsRefused(t *testing.T) {
	keys := trusted(t, attesttest.Daemon.Public())
	j := written(t, 7)
	for name, change := range map[string]func(*journal.Proof){
		"format":     func(p *journal.Proof) { p.Format = "x" },
		"entry":      func(p *journal.Proof) { p.Entry.Kind = "call.granted" },
		"seq":        func(p *journal.Proof) { p.Entry.Seq++ },
		"body":       func(p *journal.Proof) { p.Entry.Body["layer"] = "grant" },
		"body gone":  func(p *journal.Proof) { p.Entry.Body = nil },
		"leaf":       func(p *journal.Proof) { p.Leaf = palyra.SumBytes(nil) },
		"index":      func(p *journal.Proof) { p.Index++ },
		"size":       func(p *journal.Proof) { p.Size++ },
		"path short": func(p *journal.Proof) { p.Hashes = p.Hashes[1:] },
		"path long":  func(p *journal.Proof) { p.Hashes = append(p.Hashes, palyra.SumBytes(nil)) },
		"path order": func(p *journal.Proof) { p.Hashes[0], p.Hashes[1] = p.Hashes[1], p.Hashes[0] },
		"path hash":  func(p *journal.Proof) { p.Hashes[0] = "sha256:00" },
		"checkpoint": func(p *journal.Proof) { p.Checkpoint = strings.Replace(p.Checkpoint, "\n7\n", "\n8\n", 1) },
		"note":       func(p *journal.Proof) { p.Checkpoint = strings.TrimSuffix(p.Checkpoint, "\n") },
		"no note":    func(p *journal.Proof) { p.Checkpoint = "" },
	} {
		p, err := j.Proof(t.Context(), 2)
		if err != nil {
			t.Fatal(err)
		}
		change(&p)
		raw, _ := json.Marshal(p)
		if _, err := verifyProof(raw, keys); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	p, _ := j.Proof(t.Context(), 2)
	raw, _ := json.Marshal(p)
	for name, text := range map[string]string{
		"member twice": strings.Replace(string(raw), `{"format"`, `{"index":5,"format"`, 1),
		"entry twice":  strings.Replace(string(raw), `"seq":`, `"seq":9,"seq":`, 1),
		"extra":        strings.Replace(string(raw), `{"format"`, `{"x":5,"format"`, 1), "two": string(raw) + string(raw), "nothing": "",
		"list": "[]", "not UTF-8": string(raw) + "\xff",
	} {
		if _, err := verifyProof([]byte(text), keys); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestJournalCommand(t *testing.T) {
	j := written(t, 4)
	export := exported(t, j, 0, 0)
	if code, out, _ := runs(t, export, "--key", attesttest.Daemon.Public()); code != 0 || !strings.Contains(out, `"journal export"`) {
		t.Errorf("%d %s", code, out)
	}
	p, _ := j.Proof(t.Context(), 4)
	raw, _ := json.Marshal(p)
	if code, out, _ := runs(t, raw, "--key", pen{attesttest.Daemon}.Verifier()); code != 0 || !strings.Contains(out, `"journal proof"`) {
		t.Errorf("%d %s", code, out)
	}
	if code, out, _ := runs(t, export[1:], "--key", attesttest.Daemon.Public()); code != 1 || !strings.HasPrefix(out, "BAD: ") {
		t.Errorf("%d %s", code, out)
	}
	if code, out, _ := runs(t, export[:len(export)-1], "--key", attesttest.Daemon.Public()); code != 1 || !strings.HasPrefix(out, "BAD: ") {
		t.Errorf("%d %s", code, out)
	}
}
