package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is wrong on one system only is found there, in code and in tests, and nowhere else.
func TestVet(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":            "module x\n\ngo 1.24\n",
		"x.go":              "package x\n\nimport \"fmt\"\n\nfunc say() { fmt.Println(word()) }\n",
		"x_linux.go":        "package x\n\nfunc word() string { return \"a\" }\n",
		"x_darwin.go":       "package x\n\nimport \"fmt\"\n\nfunc word() string { return fmt.Sprintf(\"%d\", \"a\") }\n",
		"x_windows.go":      "package x\n\nfunc word() string { return 1 }\n",
		"x_linux_test.go":   "package x\n\nimport \"testing\"\n\nfunc TestX(t *testing.T) { say() }\n",
		"x_arm64_test.go":   "package x\n\nimport \"testing\"\n\nfunc TestY(t *testing.T) { missing() }\n",
		"other/o_darwin.go": "package other\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for target, want := range map[string]string{
		"linux/amd64": "", "darwin/amd64": "wrong type", "windows/amd64": "cannot use 1", "linux/arm64": "undefined: missing",
	} {
		found, err := vet(dir, target)
		if err != nil {
			t.Fatal(target, err)
		}
		if got := strings.Join(found, "\n"); len(found) > 1 || !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, not %q", target, got, want)
		}
	}
	if _, err := vet(dir, "plan9"); err == nil {
		t.Error("half a target")
	}
	if found, err := vet(dir, "no/such"); err == nil && len(found) == 0 {
		t.Error("a target that is none has no faults")
	}
}
