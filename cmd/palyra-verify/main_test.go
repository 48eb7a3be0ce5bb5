package main

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra/internal/attest"
	"palyra/internal/attest/attesttest"
)

func key(t testing.TB, text string) ed25519.PublicKey {
	t.Helper()
	pub, err := publicKey(text)
	if err != nil {
		t.Fatal(err)
	}
	return pub
}

// check runs the checker with the keys of the samples.
func check(t testing.TB) func(text []byte) error {
	daemon := []ed25519.PublicKey{key(t, attesttest.Daemon.Public())}
	operators := []ed25519.PublicKey{
		key(t, attesttest.Ada.Public()), key(t, attesttest.Bob.Public()), attesttest.AdasPasskey.DER(), attesttest.BobsPasskey.DER(),
	}
	return func(text []byte) error {
		_, err := verify(text, daemon, operators)
		return err
	}
}

func TestGenuineIsAccepted(t *testing.T) {
	check := check(t)
	for _, s := range attesttest.Genuine() {
		if err := check(s.Text); err != nil {
			t.Errorf("%s: %v\n%s", s.Name, err, s.Text)
		}
	}
}

func TestForgeriesAreRefused(t *testing.T) {
	check := check(t)
	for _, s := range attesttest.Forgeries() {
		err := check(s.Text)
		if err == nil {
			t.Errorf("%s: accepted", s.Name)
		} else if strings.Contains(err.Error(), "runtime error") {
			t.Errorf("%s: refused by accident: %v", s.Name, err)
		}
	}
}

func TestEveryByteCounts(t *testing.T) {
	check := check(t)
	run := attesttest.NewRun()
	attesttest.ByPolicy(run) // the votes of others are inside the payload, where one byte is like another
	outcome, envelope := run.Seal()
	var spaced bytes.Buffer
	if err := json.Indent(&spaced, envelope, "", "  "); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"outcome": outcome, "spaced envelope": spaced.Bytes()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := 0
			attesttest.Mutants(text, func(pos int, mutant []byte, same bool) {
				n++
				if err := check(mutant); (err == nil) != same {
					t.Errorf("byte %d: %.60q…: %v", pos, mutant[max(0, pos-20):], err)
				}
			})
			if n < len(text) {
				t.Errorf("only %d changes of %d bytes tried", n, len(text))
			}
		})
	}
}

// The two verifiers share no code and agree: on samples, on changed texts, and
// on changed payloads that the daemon's key signed.
func TestAgreesWithAttest(t *testing.T) {
	check := check(t)
	compare := func(name string, text []byte) bool {
		_, theirs := attest.Verify(text, attesttest.Trust())
		ours := check(text)
		if (theirs == nil) != (ours == nil) {
			t.Errorf("%s: attest says %v, palyra-verify %v: %s", name, theirs, ours, text)
		}
		return ours == nil
	}
	genuine := attesttest.Genuine()
	for _, s := range append(genuine, attesttest.Forgeries()...) {
		compare(s.Name, s.Text)
	}
	rnd := rand.New(rand.NewPCG(7, 11))
	accepted := 0
	for range 3000 {
		s := genuine[rnd.IntN(len(genuine))]
		if compare("changed: "+s.Name, attesttest.Mutate(rnd, s.Text)) {
			accepted++
		}
		if strings.HasSuffix(s.Name, ", envelope") {
			compare("signed: "+s.Name, attesttest.Envelope(attesttest.Mutate(rnd, attesttest.Payload(s.Text))))
		}
	}
	if accepted == 0 {
		t.Error("no change was one of white space")
	}
}

func TestKeysMatter(t *testing.T) {
	_, envelope := attesttest.NewRun().Seal()
	daemon, ada, bob := key(t, attesttest.Daemon.Public()), key(t, attesttest.Ada.Public()), key(t, attesttest.Bob.Public())
	for name, c := range map[string]struct {
		daemon, operators []ed25519.PublicKey
		ok                bool
	}{
		"daemon":           {[]ed25519.PublicKey{daemon}, nil, true},
		"pinned":           {[]ed25519.PublicKey{ada, daemon}, []ed25519.PublicKey{bob, ada}, true},
		"no key":           {nil, nil, false},
		"another key":      {[]ed25519.PublicKey{ada}, nil, false},
		"another operator": {[]ed25519.PublicKey{daemon}, []ed25519.PublicKey{bob}, false},
	} {
		if _, err := verify(envelope, c.daemon, c.operators); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzAgrees(f *testing.F) {
	check := check(f)
	for _, s := range append(attesttest.Genuine(), attesttest.Forgeries()...) {
		f.Add(s.Text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		_, theirs := attest.Verify(text, attesttest.Trust())
		if ours := check(text); (theirs == nil) != (ours == nil) {
			t.Fatalf("attest says %v, palyra-verify %v", theirs, ours)
		}
	})
}

// runs calls the command on a file with the given content.
func runs(t *testing.T, text []byte, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "evidence.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	code = run(append(args, file), strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

func TestCommand(t *testing.T) {
	outcome, _ := attesttest.NewRun().Seal()
	daemon, ada := attesttest.Daemon.Public(), attesttest.Ada.Public()
	if code, out, _ := runs(t, outcome, "--key", daemon, "--operator-key", ada); code != 0 || !strings.HasPrefix(out, "OK\n") ||
		strings.Contains(out, "note:") || !strings.Contains(out, "palyra.process.run") {
		t.Errorf("%d: %s", code, out)
	}
	if code, out, _ := runs(t, outcome, "--key", daemon); code != 0 || !strings.Contains(out, "note: no --operator-key") {
		t.Errorf("%d: %s", code, out)
	}
	if code, out, _ := runs(t, bytes.Replace(outcome, []byte("hello"), []byte("hallo"), 1), "--key", daemon); code != 1 ||
		!strings.HasPrefix(out, "BAD: ") {
		t.Errorf("%d: %s", code, out)
	}
	var found map[string]any
	code, out, _ := runs(t, outcome, "--json", "--key", daemon)
	if err := json.Unmarshal([]byte(out), &found); err != nil || code != 0 || found["ok"] != true || found["operators_pinned"] != false ||
		found["exit_code"] != 3.0 {
		t.Errorf("%d %v: %s", code, err, out)
	}
	found = nil
	code, out, _ = runs(t, outcome, "--json", "--key", ada)
	if err := json.Unmarshal([]byte(out), &found); err != nil || code != 1 || found["ok"] != false || found["error"] == "" ||
		found["tool"] != nil {
		t.Errorf("%d %v: %s", code, err, out)
	}
	var stdout bytes.Buffer
	if code := run([]string{"--key", daemon, "-"}, bytes.NewReader(outcome), &stdout, &stdout); code != 0 {
		t.Errorf("from stdin: %d %s", code, &stdout)
	}
}

// A reader is told that the approvers were not asked about this run, and which
// plan they saw.
func TestNotes(t *testing.T) {
	earlier, another := "note: an earlier answer", "note: the approvers saw another plan"
	want := map[string][]string{
		"allowed by a person":                          {},
		"allowed by policy":                            {},
		"covered by an earlier answer":                 {earlier},
		"covered by an earlier answer to another plan": {earlier, another},
		"asked about one plan, answered for more":      {},
	}
	for _, s := range attesttest.Genuine() {
		notes, ok := want[s.Name]
		if !ok {
			continue
		}
		delete(want, s.Name)
		code, out, _ := runs(t, s.Text, "--key", attesttest.Daemon.Public(), "--operator-key", attesttest.Ada.Public())
		for _, n := range []string{earlier, another} {
			if code != 0 || strings.Contains(out, n) != slices.Contains(notes, n) {
				t.Errorf("%s: %d, %q: %s", s.Name, code, n, out)
			}
		}
		_, out, _ = runs(t, s.Text, "--json", "--key", attesttest.Daemon.Public())
		if strings.Contains(out, `"reused":true`) != slices.Contains(notes, earlier) {
			t.Errorf("%s: %s", s.Name, out)
		}
	}
	if len(want) > 0 {
		t.Errorf("no samples of %v", want)
	}
}

func TestCommandUsage(t *testing.T) {
	daemon := attesttest.Daemon.Public()
	for name, args := range map[string][]string{
		"nothing": {}, "no key": {"x"}, "no file": {"--key", daemon}, "two files": {"--key", daemon, "x", "y"},
		"bad key":   {"--key", "nonsense", "x"},
		"short key": {"--key", "AAAA", "x"}, "missing file": {"--key", daemon, "/nonexistent"}, "unknown flag": {"--force", "x"},
		"directory":    {"--key", daemon, "/"},
		"bad operator": {"--key", daemon, "--operator-key", "AAAA", "x"},
	} {
		var out, errs bytes.Buffer
		if code := run(args, strings.NewReader(""), &out, &errs); code != 2 || errs.Len() == 0 || out.Len() != 0 {
			t.Errorf("%s: exit %d, %q, %q", name, code, &out, &errs)
		}
	}
}

// Whoever asks for help did not do anything wrong.
func TestCommandHelp(t *testing.T) {
	for _, arg := range []string{"--help", "-h"} {
		var out, errs bytes.Buffer
		if code := run([]string{arg}, strings.NewReader(""), &out, &errs); code != 0 ||
			!strings.Contains(out.String(), "usage: palyra-verify") || errs.Len() > 0 {
			t.Errorf("%s: exit %d, %q, %q", arg, code, &out, &errs)
		}
	}
}

func TestKeyFiles(t *testing.T) {
	outcome, _ := attesttest.NewRun().Seal()
	write := func(text string) string {
		file := filepath.Join(t.TempDir(), "keys")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	entry := func(use, pub string) string {
		raw, _ := base64.StdEncoding.DecodeString(pub)
		line := "palyra/test+00000000+" + base64.StdEncoding.EncodeToString(append([]byte{1}, raw...))
		return `{"use":"` + use + `","public_key":"` + pub + `","verifier":"` + line + `"}`
	}
	daemon, ada := attesttest.Daemon.Public(), attesttest.Ada.Public()
	zero := base64.StdEncoding.EncodeToString(make([]byte, 32))
	for name, c := range map[string]struct {
		text string
		code int
	}{
		"bare key": {daemon + "\n", 0},
		"trust file": {`{"palyra_keys":1,"keys":[` + entry("journal", ada) + "," + entry("attestation", zero) + "," +
			entry("attestation", daemon) + `]}`, 0},
		"journal only": {`{"palyra_keys":1,"keys":[` + entry("journal", daemon) + `]}`, 1},
		"bad journal":  {`{"palyra_keys":1,"keys":[` + entry("journal", "AAAA") + `]}`, 2},
		"verifier":     {"palyra/test+00000000+AQ==", 2},
		"other keys":   {`{"palyra_keys":1,"keys":[` + entry("attestation", ada) + `]}`, 1},
		"bad key":      {`{"palyra_keys":1,"keys":[` + entry("attestation", "AAAA") + `]}`, 2},
		"not keys":     {`{}`, 2},
		"empty":        {``, 2},
	} {
		if code, out, errs := runs(t, outcome, "--key", write(c.text)); code != c.code {
			t.Errorf("%s: exit %d: %s%s", name, code, out, errs)
		}
	}
}

// The attestation checker is to be read in one sitting, and to stand alone.
func TestIndependent(t *testing.T) {
	raw, err := os.ReadFile("attestation.go")
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(raw, []byte("\n")); n > 250 {
		t.Errorf("attestation.go has %d lines", n)
	}
	files, _ := filepath.Glob("*.go")
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		head, _, _ := strings.Cut(string(src), "\n)\n")
		for _, line := range strings.Split(head, "\n") {
			path := strings.Trim(strings.TrimSpace(line), `"`)
			if strings.HasPrefix(line, "\t\"") && (strings.Contains(path, ".") || strings.HasPrefix(path, "palyra")) {
				t.Errorf("%s imports %s", file, path)
			}
		}
	}
}

// What --json of a showing command prints is refused with the way to get what was
// signed.
func TestShownFormIsNamed(t *testing.T) {
	for _, form := range []string{`{"postures":[]}`, `{"attestation_id":"X","envelope":{"payload":""}}`} {
		if code, out, _ := runs(t, []byte(form), "--key", attesttest.Daemon.Public()); code != 1 || !strings.Contains(out, "--envelope") {
			t.Errorf("%s: %d %s", form, code, out)
		}
	}
}
