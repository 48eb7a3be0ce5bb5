package profile

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"palyra/internal/subpath"
)

func TestFind(t *testing.T) {
	s := newStage(t)
	for _, d := range []string{
		".nvm/versions/node/v9.11.0/bin", ".nvm/versions/node/v22.3.0/bin", ".pyenv/versions/3.9.18/bin", ".pyenv/versions/3.13.0/bin",
		".rustup", ".cargo/bin", "sdk/go1.9/bin",
		"sdk/go1.26.1/bin", "sdk/android", "go/pkg/mod/cache/download", ".volta/tools/image", ".ssh", ".config/gh",
	} {
		must(t, os.MkdirAll(s.home+"/"+d, 0o700))
	}
	must(t, os.WriteFile(s.home+"/.deno", nil, 0o600))
	list, err := Find(s.home)
	must(t, err)
	got := map[string]string{}
	for _, x := range list {
		got[x.Name] = strings.Join(x.Mounts, " ") + " | " + strings.Join(x.Path, " ")
	}
	if d := cmp.Diff(map[string]string{
		"nvm": "~/.nvm/versions/node | ~/.nvm/versions/node/v22.3.0/bin", "pyenv": "~/.pyenv/versions | ~/.pyenv/versions/3.13.0/bin",
		"rustup":    "~/.rustup | ",
		"cargo-bin": "~/.cargo/bin | ~/.cargo/bin", "go-sdk": "~/sdk/go1.26.1 ~/sdk/go1.9 | ~/sdk/go1.26.1/bin",
		"go-modules": "~/go/pkg/mod/cache/download | ",
	}, got); d != "" {
		t.Error(d)
	}
	doc, err := Document(list)
	must(t, err)
	if again, err := Document(list); err != nil || string(again) != string(doc) {
		t.Errorf("not the same twice: %v", err)
	}
	s.profile(Toolchains, string(doc))
	r := s.resolve("dev")
	seen := map[string]bool{}
	for _, m := range r.Mounts {
		seen[m.Target] = true
		if m.Writable != subpath.Below(s.cache, m.Source) {
			t.Errorf("%+v", m)
		}
	}
	for _, want := range []string{s.home + "/.nvm/versions/node", s.home + "/.rustup", s.home + "/sdk/go1.9", "/home/agent/.cache/npm"} {
		if !seen[want] {
			t.Errorf("%s is not mounted", want)
		}
	}
	if r.Path[0] != s.home+"/sdk/go1.26.1/bin" && r.Path[0] != "/usr/local/go/bin" {
		t.Errorf("path %q", r.Path)
	}
	if env(r, "GOPROXY") != "file://"+s.home+"/go/pkg/mod/cache/download,direct" {
		t.Error(env(r, "GOPROXY"))
	}
}

// Those who keep several tools have the newest of each, or the one that the person chose, and Homebrew is not in a home.
func TestFindManagers(t *testing.T) {
	home, brew := t.TempDir(), t.TempDir()
	for _, d := range []string{
		home + "/.local/share/mise/installs/node/22.3.0/bin", home + "/.local/share/mise/installs/node/9.1.0/bin",
		home + "/.local/share/mise/installs/go/1.26.1/bin", home + "/.local/share/mise/installs/empty/1.0",
		home + "/.asdf/installs/nodejs/20.1.0/bin", home + "/.asdf/installs/nodejs/24.0.0/bin", home + "/.asdf/plugins",
		home + "/.nvm/versions/node/v20.1.0/bin", home + "/.nvm/versions/node/v22.1.0/bin", home + "/.nvm/alias",
		brew + "/bin", brew + "/Cellar/jq/1.7", brew + "/opt", brew + "/var/secret", brew + "/etc",
	} {
		must(t, os.MkdirAll(d, 0o700))
	}
	must(t, os.Symlink("22.3.0", home+"/.local/share/mise/installs/node/latest"))
	must(t, os.WriteFile(home+"/.tool-versions", []byte("# mine\nnodejs 20.1.0\npython\n"), 0o600))
	must(t, os.WriteFile(home+"/.nvm/alias/default", []byte("20.1.0\n"), 0o600))
	list, err := find(home, brew)
	must(t, err)
	got := map[string]string{}
	for _, x := range list {
		got[x.Name] = strings.ReplaceAll(strings.Join(x.Mounts, " ")+" | "+strings.Join(x.Path, " "), brew, "BREW")
	}
	if d := cmp.Diff(map[string]string{
		"mise": "~/.local/share/mise/installs | ~/.local/share/mise/installs/go/1.26.1/bin ~/.local/share/mise/installs/node/22.3.0/bin",
		"asdf": "~/.asdf/installs | ~/.asdf/installs/nodejs/20.1.0/bin", "nvm": "~/.nvm/versions/node | ~/.nvm/versions/node/v20.1.0/bin",
		"homebrew": "BREW/Cellar BREW/bin BREW/opt | BREW/bin",
	}, got); d != "" {
		t.Error(d)
	}
	if _, err := Document(list); err != nil {
		t.Error(err)
	}
}

func TestFindInAnOddHome(t *testing.T) {
	home := t.TempDir() + "/a*[b"
	must(t, os.MkdirAll(home+"/.cargo/bin", 0o700))
	list, err := Find(home)
	if err != nil || len(list) != 1 || list[0].Mounts[0] != "~/.cargo/bin" {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := Find("relative"); err == nil {
		t.Error("a relative home was taken")
	}
}

func FuzzProfile(f *testing.F) {
	for _, d := range []string{"dev", "git", "go", "node", "git-setup"} {
		raw, err := shippedFiles.ReadFile("shipped/" + d + ".toml")
		must(f, err)
		f.Add(raw)
	}
	f.Add([]byte("[[mounts]]\nsource = \"~/x\"\n[env]\nA = \"b\""))
	f.Fuzz(func(t *testing.T, raw []byte) {
		d, err := parse("mine", "here", raw)
		if err != nil {
			return
		}
		for _, m := range d.file.Mounts {
			if !isPlace(m.Source) || strings.Contains(m.Source, "/../") || strings.HasSuffix(m.Source, "/..") {
				t.Errorf("mount %q", m.Source)
			}
		}
		for _, c := range d.file.Caches {
			if strings.ContainsAny(c.Name, "/.") {
				t.Errorf("cache %q", c.Name)
			}
		}
		for name := range d.file.Env {
			if strings.ContainsAny(name, "=\x00") || name == "PATH" {
				t.Errorf("variable %q", name)
			}
		}
		d.info()
	})
}
