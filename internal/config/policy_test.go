package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPolicySettings(t *testing.T) {
	for value, good := range map[string]bool{
		"policy.preset=ask":    true,
		"policy.preset=strict": true, "policy.preset=ci": true, "policy.preset=readonly": true, "policy.preset=default": true,
		"policy.preset=": false, "policy.preset=lax": false, "policy.dir=": true, "policy.dir=/etc/palyra/policy": true,
		"policy.dir=policy": false, "policy.dir=/a/../b": false,
	} {
		key, text, _ := strings.Cut(value, "=")
		_, err := Load(Options{Home: t.TempDir(), Env: []string{}, Flags: map[string]string{key: text}})
		if (err == nil) != good {
			t.Errorf("%s: %v", value, err)
		}
	}
	if c := Default(); c.Policy.Preset != "default" || c.Policy.Dir != "" {
		t.Errorf("%+v", c.Policy)
	}
}

func TestOurs(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	for path, good := range map[string]bool{dir: true, file: true, link: false, filepath.Join(dir, "none"): false} {
		if err := Ours(path); (err == nil) != good {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := os.Chmod(file, 0o646); err != nil {
		t.Fatal(err)
	}
	if err := Ours(file); !Unsafe(err) {
		t.Errorf("a file that anybody can write: %v", err)
	}
}
