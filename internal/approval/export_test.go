package approval

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"palyra"
)

type signer struct {
	key  ed25519.PrivateKey
	fail error
}

func newSigner(seed byte) signer {
	return signer{key: ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))}
}

func (s signer) KeyID() string                   { return "export-key" }
func (s signer) Sign(msg []byte) ([]byte, error) { return ed25519.Sign(s.key, msg), s.fail }
func (s signer) public() string {
	return base64.StdEncoding.EncodeToString(s.key.Public().(ed25519.PublicKey))
}

func export(t testing.TB, w *world, format Format, s Signer) []byte {
	t.Helper()
	var out bytes.Buffer
	if _, err := w.desk.Export(context.Background(), &out, format, "user:alice", s); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// somewhat fills a world with questions in several states, one with arguments
// that are hard to keep.
func somewhat(t testing.TB) *world {
	w := newWorld(t)
	w.decide(w.ask(call(t, "src/a.txt")), palyra.AnswerAllow)
	w.decide(w.ask(call(t, "src/b.txt", withNeed(palyra.Need{Votes: 2}))), palyra.AnswerAllow)
	c := call(t, "src/c.txt")
	c.Plan.Arguments = json.RawMessage(`{ "deep" : ` + strings.Repeat("[", 60) + `1.50, 12345678901234567890, "\u00e9\u2028<\/>"` +
		strings.Repeat("]", 60) + `}`)
	c.Digest, _ = c.Plan.Digest()
	w.decide(w.ask(c), palyra.AnswerDeny)
	w.pass(time.Second)
	return w
}

func TestExportVerifies(t *testing.T) {
	w, s := somewhat(t), newSigner(1)
	for _, format := range []Format{NDJSON, JSON} {
		raw := export(t, w, format, s)
		report, err := VerifyExport(bytes.NewReader(raw), []string{newSigner(2).public(), s.public()})
		if err != nil {
			t.Fatalf("%s: %v\n%s", format, err, raw)
		}
		want := Report{
			Format: format, Count: 3, Pending: 1, By: "user:alice", ExportedAt: palyra.Time(epoch.Add(time.Second)),
			KeyID: "export-key", PublicKey: s.public(), Head: report.Head,
		}
		if diff := cmp.Diff(want, report); diff != "" || !report.Head.Valid() {
			t.Errorf("%s: %s", format, diff)
		}
		lines := bytes.Split(bytes.TrimSpace(raw), []byte("\n"))
		if format == JSON {
			var list []map[string]any
			if err := json.Unmarshal(raw, &list); err != nil || len(list) != 5 || list[1]["kind"] != "approval" {
				t.Errorf("not an array of lines: %v", err)
			}
			lines = lines[1 : len(lines)-1]
		}
		if len(lines) != 5 {
			t.Errorf("%s: %d lines", format, len(lines))
		}
	}
	exported := w.lines("approvals.exported")
	if len(exported) != 2 || exported[0].body["count"] != 3.0 || exported[0].body["by"] != "user:alice" {
		t.Errorf("journal %v", exported)
	}
}

func TestEmptyExport(t *testing.T) {
	w, s := newWorld(t), newSigner(1)
	for _, format := range []Format{NDJSON, JSON} {
		report, err := VerifyExport(bytes.NewReader(export(t, w, format, s)), []string{s.public()})
		if err != nil || report.Count != 0 {
			t.Errorf("%+v, %v", report, err)
		}
	}
}

// The records of an export are the approvals, whole.
func TestExportHoldsTheRecords(t *testing.T) {
	w, s := somewhat(t), newSigner(1)
	for i, raw := range bytes.Split(bytes.TrimSpace(export(t, w, NDJSON, s)), []byte("\n"))[1:4] {
		var l exportLine
		if err := decodeLine(raw, &l); err != nil {
			t.Fatal(err)
		}
		want := w.get(l.Approval.ID)
		want.Payer = "" // how it is counted is nobody's business
		if diff := cmp.Diff(want, l.Approval); diff != "" || l.Seq != int64(i+1) {
			t.Errorf("line %d: %s", i, diff)
		}
		if i == 0 && l.Approval.Votes[0].Signature.Fields["big"] != json.Number("9007199254740993") {
			t.Errorf("a signed number changed: %v", l.Approval.Votes[0].Signature.Fields)
		}
	}
}

func TestEveryChangedByteIsNoticed(t *testing.T) {
	w, s := newWorld(t), newSigner(1)
	w.decide(w.ask(call(t, "src/a.txt")), palyra.AnswerAllow)
	keys := []string{s.public()}
	for _, format := range []Format{NDJSON, JSON} {
		raw := export(t, w, format, s)
		refuse := func(what string, b []byte) {
			t.Helper()
			if _, err := VerifyExport(bytes.NewReader(b), keys); palyra.CodeOf(err) != palyra.Invalid || err == nil {
				t.Errorf("%s: %s: %v", format, what, err)
			}
		}
		for i := range raw {
			b := bytes.Clone(raw)
			b[i] ^= []byte{0x20, 1}[i%2] // 0x20 changes the case of letters
			refuse(fmt.Sprintf("byte %d changed", i), b)
		}
		for i := 0; i < len(raw); i += 7 {
			refuse(fmt.Sprintf("cut at %d", i), raw[:i])
			refuse(fmt.Sprintf("byte %d removed", i), append(bytes.Clone(raw[:i]), raw[i+1:]...))
			refuse(fmt.Sprintf("space at %d", i), append(append(bytes.Clone(raw[:i]), ' '), raw[i:]...))
		}
		lines := strings.SplitAfter(string(raw), "\n")
		for i := range lines[:len(lines)-1] {
			without := strings.Join(append(append([]string(nil), lines[:i]...), lines[i+1:]...), "")
			refuse(fmt.Sprintf("line %d removed", i), []byte(without))
			twice := strings.Join(append(append([]string(nil), lines[:i+1]...), lines[i:]...), "")
			refuse(fmt.Sprintf("line %d twice", i), []byte(twice))
		}
		refuse("newline at the end", append(bytes.Clone(raw), '\n'))
		refuse("another export after it", append(bytes.Clone(raw), raw...))
		refuse("carriage returns", bytes.ReplaceAll(raw, []byte("\n"), []byte("\r\n")))
	}
	lines := strings.Split(strings.TrimSpace(string(export(t, w, NDJSON, s))), "\n")
	framed := "[\n" + strings.Join(lines, ",\n") + "\n]\n"
	if _, err := VerifyExport(strings.NewReader(framed), keys); err == nil {
		t.Error("the other framing was accepted")
	}
}

// Records that were changed and chained again do not get past the signature,
// nor past the plan's digest when the signer itself is asked.
func TestAChainMadeAnewIsNoticed(t *testing.T) {
	w, s := somewhat(t), newSigner(1)
	raw := bytes.Split(bytes.TrimSpace(export(t, w, NDJSON, s)), []byte("\n"))
	var header exportHeader
	if err := decodeLine(raw[0], &header); err != nil {
		t.Fatal(err)
	}
	forge := func(s Signer, change func(*palyra.Approval)) []byte {
		var out bytes.Buffer
		c := &chain{w: bufio.NewWriter(&out), format: NDJSON}
		_ = c.add(header)
		for i := 1; i <= 3; i++ {
			var l exportLine
			if err := decodeLine(raw[i], &l); err != nil {
				t.Fatal(err)
			}
			change(&l.Approval)
			l.Prev = c.prev
			_ = c.add(l)
		}
		if err := c.close(exportTrailer{Kind: kindTrailer, Count: 3, Prev: c.prev, KeyID: s.KeyID()}, s); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	keys := []string{s.public()}
	if _, err := VerifyExport(bytes.NewReader(forge(s, func(*palyra.Approval) {})), keys); err != nil {
		t.Fatalf("the forge does not make good copies: %v", err)
	}
	other := forge(newSigner(2), func(a *palyra.Approval) { a.Decision.By = "user:mallory" })
	if _, err := VerifyExport(bytes.NewReader(other), keys); err == nil {
		t.Error("signed by a stranger, accepted")
	}
	plan := forge(s, func(a *palyra.Approval) { a.Plan.Writes = []string{"etc/passwd"} })
	if _, err := VerifyExport(bytes.NewReader(plan), keys); err == nil || !strings.Contains(err.Error(), "digest") {
		t.Errorf("another plan under the old digest: %v", err)
	}
	header.Count = 4 // the header promises one more than there is
	if _, err := VerifyExport(bytes.NewReader(forge(s, func(*palyra.Approval) {})), keys); err == nil ||
		!strings.Contains(err.Error(), "missing") {
		t.Errorf("fewer approvals than the header says: %v", err)
	}
}

func TestExportRefuses(t *testing.T) {
	w, s := somewhat(t), newSigner(1)
	if _, err := w.desk.Export(t.Context(), &bytes.Buffer{}, "xml", "user:alice", s); palyra.CodeOf(err) != palyra.Invalid {
		t.Errorf("format: %v", err)
	}
	var out bytes.Buffer
	w.journal.fail = func(palyra.Event) error { return errors.New("no journal") }
	if _, err := w.desk.Export(t.Context(), &out, NDJSON, "user:alice", s); err == nil || out.Len() != 0 {
		t.Errorf("%d bytes left without a journal line, %v", out.Len(), err)
	}
	w.journal.fail = nil
	s.fail = errors.New("no key")
	if _, err := w.desk.Export(t.Context(), &out, NDJSON, "user:alice", s); !errors.Is(err, s.fail) {
		t.Errorf("unsigned: %v", err)
	}
	if _, err := w.desk.Export(t.Context(), full{}, NDJSON, "user:alice", newSigner(1)); !errors.Is(err, errFull) {
		t.Errorf("a writer that fails: %v", err)
	}
	good := export(t, w, NDJSON, newSigner(1))
	for _, keys := range [][]string{nil, {""}, {"x"}, {base64.StdEncoding.EncodeToString([]byte("short"))}, {newSigner(1).public() + "="}} {
		if _, err := VerifyExport(bytes.NewReader(good), keys); palyra.CodeOf(err) != palyra.Invalid || err == nil {
			t.Errorf("keys %q: %v", keys, err)
		}
	}
}

var errFull = errors.New("full")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

var update = flag.Bool("update", false, "make testdata/export.* anew")

func golden(t testing.TB, format Format) []byte {
	t.Helper()
	raw, err := os.ReadFile("testdata/export." + string(format))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// Exports that were made once verify for ever.
func TestOldExportsVerify(t *testing.T) {
	s := newSigner(1)
	for _, format := range []Format{NDJSON, JSON} {
		if *update {
			if err := os.WriteFile("testdata/export."+string(format), export(t, somewhat(t), format, s), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		report, err := VerifyExport(bytes.NewReader(golden(t, format)), []string{s.public()})
		if err != nil || report.Count != 3 || report.Format != format {
			t.Errorf("%s: %+v, %v", format, report, err)
		}
	}
}

// Property: nothing but the exports themselves verifies under the key.
func FuzzVerifyExport(f *testing.F) {
	s := newSigner(1)
	good := map[string]bool{}
	for _, format := range []Format{NDJSON, JSON} {
		raw := golden(f, format)
		good[string(raw)] = true
		f.Add(raw)
		f.Add(raw[:len(raw)/2])
		f.Add(bytes.ToUpper(raw))
	}
	f.Add([]byte("[\n]\n"))
	f.Add([]byte("{}\n{}\n"))
	keys := []string{s.public()}
	f.Fuzz(func(t *testing.T, raw []byte) {
		_, err := VerifyExport(bytes.NewReader(raw), keys)
		if (err == nil) != good[string(raw)] {
			t.Fatalf("verified is %v for %d bytes", err == nil, len(raw))
		}
	})
}
