package profile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra"
)

func TestCheckNamesEverything(t *testing.T) {
	s := newStage(t)
	if got := Check(s.dir); len(got) != 0 {
		t.Errorf("an empty directory: %v", got)
	}
	if got := Check(s.dir + "/none"); len(got) != 0 {
		t.Errorf("no directory: %v", got)
	}
	s.profile("fine", "commands = [\"x\"]\n")
	s.profile("key", "# a line\nno_such_key = 1\n")
	s.profile("syntax", "\n\ncommands = [\n")
	s.profile("value", "commands = [\"a/b\"]\n")
	s.profile("Bad Name", "")
	want := map[string]string{
		s.dir + "/key.toml:2": "there is no key no_such_key", s.dir + "/syntax.toml:3": "column", s.dir + "/value.toml": "a/b",
		s.dir + "/Bad Name.toml": "its name must be",
	}
	got := Check(s.dir)
	for _, f := range got {
		text, ok := want[f.Where()]
		if !ok && strings.HasPrefix(f.Where(), s.dir+"/syntax.toml:") { // parsers differ in where they notice
			text, ok = "column", true
		}
		if !ok || !strings.Contains(f.Text, text) {
			t.Errorf("%s: %s", f.Where(), f.Text)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d flaws: %v", len(got), got)
	}
	// The refusal names file and line as well.
	_, err := s.set.Resolve("fine", s.ws)
	e := palyra.AsError(err)
	if e.Reason != palyra.ReasonBadProfile || !strings.Contains(e.Text, ".toml") || !strings.Contains(e.Remedy, "config check") {
		t.Errorf("%v, %q", err, e.Remedy)
	}
}

func TestCheckLooksAtWhatProfilesMeanTogether(t *testing.T) {
	s := newStage(t)
	s.profile("a", "includes = [\"nobody\"]\n")
	s.profile("b", "includes = [\"c\"]\n")
	s.profile("c", "includes = [\"b\"]\n")
	s.profile("d", "unseal = [\".not-sealed\"]\n")
	s.profile("e", "includes = [\"git\", \"nobody?\"]\nseals = [\".mine\"]\nunseal = [\".mine\", \".envrc\"]\nasks = true\n")
	want := map[string]string{"a": "includes nobody", "b": "includes itself", "c": "includes itself", "d": "unseals \".not-sealed\""}
	got := Check(s.dir)
	for _, f := range got {
		name := strings.TrimSuffix(filepath.Base(f.Path), ".toml")
		if want[name] == "" || !strings.Contains(f.Text, want[name]) {
			t.Errorf("%s: %s", f.Where(), f.Text)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%v", got)
	}
}

func TestCheckRefusesWhatOthersMayWrite(t *testing.T) {
	s := newStage(t)
	s.profile("a", "")
	must(t, os.Chmod(s.dir+"/a.toml", 0o666))
	if got := Check(s.dir); len(got) != 1 || got[0].Path != s.dir+"/a.toml" || !strings.Contains(got[0].Text, "chmod go-w") {
		t.Errorf("%v", got)
	}
	must(t, os.Chmod(s.dir, 0o777))
	if got := Check(s.dir); len(got) != 1 || got[0].Path != s.dir {
		t.Errorf("%v", got)
	}
}
