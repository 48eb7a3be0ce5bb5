package wholeagent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/cli/invocation"
	"palyra/internal/profile"
)

// A program that an agent could have written is not started as the agent's own, whichever way the path leads to it.
func TestProgramsOfAgentsAreRefused(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(words ...string) string { return filepath.Join(append([]string{top}, words...)...) }
	for _, dir := range []string{"work/node_modules/.bin", "home/bin", "links", "twice", "by"} {
		if err := os.MkdirAll(at(dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"work/node_modules/.bin/claude", "home/bin/claude"} {
		if err := os.WriteFile(at(name), []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for from, to := range map[string]string{
		"links/claude": at("work/node_modules/.bin/claude"), // a link into the workspace
		"work/turn":    at("home/bin/claude"),
		"by/claude":    "../work/turn", // by way of the workspace, to where an agent can turn it
		"twice/bin":    at("work/node_modules/.bin"),
		"work/dir":     at("home/bin"),
		"twice/dir":    at("work/dir"),
	} {
		if err := os.Symlink(to, at(from)); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Find("claude-code")
	if err != nil {
		t.Fatal(err)
	}
	for dirs, refused := range map[string]bool{
		"home/bin": false, "home/bin:work/node_modules/.bin": false, "work/node_modules/.bin:home/bin": true, "links": true, "by": true,
		"twice/bin": true, "twice/dir": true, "links/../home/bin": false,
	} {
		var path []string
		for dir := range strings.SplitSeq(dirs, ":") {
			path = append(path, at(dir))
		}
		inv := &invocation.Invocation{Env: []string{"PATH=" + strings.Join(path, ":")}}
		var st Start
		real, err := st.find(inv, s, new(profile.Furnishing), []string{at("other"), at("work")})
		if refused != (err != nil) || err == nil && real != at("home/bin/claude") {
			t.Errorf("%s: %q %v", dirs, real, err)
		}
		if refused && (!strings.Contains(err.Error(), at("work")) || real != "") {
			t.Errorf("%s: %v", dirs, err)
		}
	}
}
