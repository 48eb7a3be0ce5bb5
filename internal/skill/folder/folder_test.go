package folder

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/skill"
)

func of(text string, more ...string) map[string][]byte {
	files := map[string][]byte{"folder/SKILL.md": []byte(text)}
	for i := 0; i+1 < len(more); i += 2 {
		files["folder/"+more[i]] = []byte(more[i+1])
	}
	return files
}

// Folders in the shapes that people publish: what each is called, which scripts it has, and what these seem to want.
func TestFolders(t *testing.T) {
	for _, c := range []struct {
		files                  map[string][]byte
		id                     string
		scripts, programs, net []string
	}{
		{of("# Only text\n"), "dir", nil, nil, nil},
		{of("---\nname: pdf\ndescription: Reads PDFs.\n---\n# PDF\n"), "pdf", nil, nil, nil},
		{of("---\nname: \"My Skill\"\n---\n"), "my-skill", nil, nil, nil},
		{of("---\nname: x\n# no end\n"), "dir", nil, nil, nil},
		{of("---\r\nname: x\r\n---\r\n"), "x", nil, nil, nil},
		{of("\ufeff---\nname: x\ndescription: >-\n  Folded\n  text.\nmetadata:\n  name: other\n---\n"), "x", nil, nil, nil},
		{of("# t\n", "scripts/a.py", "print(1)\n"), "dir", []string{"scripts/a.py"}, []string{"python3"}, nil},
		{of("# t\n", "run", "#!/usr/bin/env -S bash -e\n"), "dir", []string{"run"}, []string{"bash"}, nil},
		{
			of("# t\n", "run", "#!/bin/sh\ncurl https://API.Example.com/x\n"), "dir",
			[]string{"run"},
			[]string{"curl", "sh"},
			[]string{"api.example.com:443"},
		},
		{of("# t\n", "a.js", "fetch('http://a.example:8080/')\n"), "dir", []string{"a.js"}, []string{"node"}, []string{"a.example:8080"}},
		{of("see https://docs.example/\n", "data.json", "{}"), "dir", nil, nil, nil}, // what only is text reaches nothing
		{
			of("# t\n", "b.rb", "", "a.pl", "x http://h.example y"), "dir",
			[]string{"a.pl", "b.rb"},
			[]string{"perl", "ruby"},
			[]string{"h.example:80"},
		},
		{of("---\nname: a\nname: b\n---\n"), "a", nil, nil, nil},
		{of("---\nname: ---\n---\n"), "", nil, nil, nil},
		{of("# t\n", "LICENSE.txt", "MIT", "reference/x.md", "#"), "dir", nil, nil, nil},
		{of("---\ndescription: \x1b[31mred \u202etxt\n---\n"), "dir", nil, nil, nil},
	} {
		m, err := Manifest(c.files, "dir", "acme")
		if c.id == "" {
			if err == nil {
				t.Errorf("%q: accepted", c.files)
			}
			continue
		}
		if err != nil || m.ID != c.id || !slices.Equal(m.Folder.Scripts, c.scripts) || !slices.Equal(m.Capabilities.Programs, c.programs) ||
			!slices.Equal(m.Capabilities.Hosts, c.net) || strings.ContainsAny(m.Description, "\x1b\u202e") {
			t.Errorf("%q: %+v %v", c.files, m, err)
		}
	}
}

// Hostile ones are refused with a reason.
func TestHostileFolders(t *testing.T) {
	many := ""
	for i := range 40 {
		many += fmt.Sprintf("https://h%d.example/\n", i)
	}
	for name, files := range map[string]map[string][]byte{
		"no text":       {"folder/readme.md": []byte("x")},
		"no UTF-8":      of("\xff\xfe"),
		"too many":      of("# t\n", "a.sh", many),
		"of palyra":     of("---\nname: palyra-core\n---\n"),
		"nothing of it": of("---\nname: \u202e\n---\n"),
	} {
		_, err := Manifest(files, "", "acme")
		if e := palyra.AsError(err); err == nil || !strings.HasPrefix(string(e.Reason), "skill_") || e.Remedy == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzManifest: whatever a folder holds, what is proposed is a manifest that can be read back.
func FuzzManifest(f *testing.F) {
	f.Add("---\nname: x\ndescription: y\n---\n", "a.py", "import os\n# https://a.example\n")
	f.Fuzz(func(t *testing.T, text, name, script string) {
		m, err := Manifest(of(text, name, script), "dir", "acme")
		if err != nil {
			return
		}
		if raw, err := skill.Write(m); err != nil {
			t.Fatal(err)
		} else if _, err := skill.Parse(raw); err != nil {
			t.Fatalf("%v\n%s", err, raw)
		}
	})
}
