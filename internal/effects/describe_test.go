package effects

import (
	"fmt"
	"strings"
	"testing"

	"palyra"
)

// What is out of the ordinary stands before the paths, those that were there before come first, and all of it is short.
func TestDescribe(t *testing.T) {
	file := func(mode uint32) *palyra.PathState { return &palyra.PathState{Kind: palyra.PathFile, Mode: mode} }
	var all []palyra.Change
	for i := range 40 {
		path := palyra.PathText(fmt.Sprintf("new/%02d", i))
		all = append(all, palyra.Change{Path: path, Kind: palyra.ChangeCreated, Now: file(0o755)})
	}
	for i := range 30 {
		all = append(all, palyra.Change{Path: palyra.PathText(fmt.Sprintf("old/%02d", i)), Kind: palyra.ChangeRemoved, Was: file(0o644)})
	}
	d := Describe(palyra.EffectFacts{
		Created: 40, Removed: 30, RemovedFiles: 30, Bytes: 7, NeverKept: 1, Omitted: 2,
		Trusted: []palyra.PathText{".envrc", "new/01"}, RunByTools: []palyra.PathText{"Makefile"},
	}, all)
	if d.Summary != "keep what it changed: 30 removed, 40 created (7 bytes); makes other programs run code: new/01" {
		t.Error(d.Summary)
	}
	text := strings.Join(d.Notes, "\n")
	for _, want := range []string{
		"makes other programs run code: new/01\nmakes other programs run code, by git's index or commits: .envrc\n" +
			"removes or empties 30 files that were there before: old/00, old/01, ",
		" old/05 and 24 more\nbuilds and tests run: Makefile",
		"removed  old/00", "and 62 more", "too large to be read: 2", "left out whatever you answer: 1",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if strings.Contains(text, "new/02") || len(d.Notes) > 16 {
		t.Error(text)
	}
}
