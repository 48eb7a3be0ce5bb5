package evidence

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"palyra"
	"palyra/client/evidence"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/questiontest"
)

// sampleVerifier is the sample key as a verifier line.
const sampleVerifier = "palyra/test+0f1d9bbd+AddamAGCsQq31Uv+08lkBzoO4XLz2qYjJa8CGmj3B1Ea"

func TestReadKey(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, c := range map[string]struct{ value, key string }{
		"a key":            {questiontest.SampleKey, questiontest.SampleKey},
		"a verifier line":  {sampleVerifier, sampleVerifier},
		"a key in a file":  {write("key", questiontest.SampleKey+"\n"), questiontest.SampleKey},
		"a line in a file": {write("line", "  "+sampleVerifier+"\n"), sampleVerifier},
	} {
		got, err := readKey(c.value)
		want, ok := evidence.ParseKey(c.key)
		if err != nil || !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v %v", name, got, err)
		}
	}
	for name, value := range map[string]string{
		"no such file":      filepath.Join(dir, "none"),
		"not a trust file":  write("bad", "{}"),
		"empty":             write("empty", ""),
		"too large":         write("large", strings.Repeat("x", maxTrust+1)),
		"a shorter key":     base64.StdEncoding.EncodeToString(make([]byte, ed25519.PublicKeySize-1)),
		"a directory":       dir,
		"a line of RSA":     "n+00000000+" + base64.StdEncoding.EncodeToString(append([]byte{2}, make([]byte, 32)...)),
		"a line with spice": sampleVerifier + "!",
	} {
		if keys, err := readKey(value); err == nil || exit.Of(err) != exit.Failure {
			t.Errorf("%s: %+v %v", name, keys, err)
		}
	}
}

func TestReadTrust(t *testing.T) {
	if _, err := readTrust(nil); exit.Of(err) != exit.Usage {
		t.Errorf("no key at all: %v", err)
	}
	if _, err := readTrust([]string{questiontest.SampleKey, "no such file"}); exit.Of(err) != exit.Failure {
		t.Errorf("one bad key among good ones: %v", err)
	}
	if _, err := readJournalTrust(nil); exit.Of(err) != exit.Usage {
		t.Errorf("no key for a journal: %v", err)
	}
	if _, err := readJournalTrust([]string{questiontest.SampleKey}); exit.Of(err) != exit.Usage {
		t.Errorf("a journal was to be checked with a bare key: %v", err)
	}
	if tr, err := readJournalTrust([]string{questiontest.SampleKey, sampleVerifier}); err != nil || !tr.ForJournal() {
		t.Errorf("a verifier line after a bare key: %v", err)
	}
}

func TestReportOf(t *testing.T) {
	r, err := reportOf(evidence.JournalReport{From: 2, To: 4, Root: questiontest.SampleDigest, Key: "k"}, nil)
	if err != nil || !r.OK || r.Entries != 3 || r.KeyIDs[0] != "k" || r.Root != questiontest.SampleDigest {
		t.Errorf("%+v %v", r, err)
	}
	bad := evidence.JournalReport{Problem: &evidence.JournalProblem{Seq: 7, Why: "the hash differs"}}
	r, err = reportOf(bad, errors.New("does not verify"))
	if err != nil || r.OK || len(r.Problems) != 1 || !strings.Contains(r.Problems[0], "7") {
		t.Errorf("%+v %v", r, err)
	}
	// An error without a report of the problem is an error, of the ordinary kind.
	_, err = reportOf(evidence.JournalReport{}, palyra.Errorf(palyra.Denied, palyra.ReasonUnknownKey, "another key"))
	if exit.Of(err) != exit.Failure || err.Error() != "another key" {
		t.Errorf("%v", err)
	}
	// Nor is a report good that comes with an error.
	if r, _ := reportOf(evidence.JournalReport{}, errors.New("x")); r.OK {
		t.Error("good in spite of an error")
	}
}
