package profile

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"palyra"
	"palyra/internal/seal"
	"palyra/internal/subpath"
)

// stage is a machine with a home, a workspace and Palyra's own directories.
type stage struct {
	t                     *testing.T
	top, home, dir, cache string
	ws                    palyra.WorkspaceRef
	set                   *Set
}

func newStage(t *testing.T) *stage {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	s := &stage{t: t, top: top, home: top + "/home/ann", dir: top + "/etc/profiles", cache: top + "/cache"}
	s.ws = palyra.WorkspaceRef{Path: top + "/home/ann/shop", Owner: int64(os.Geteuid())}
	for _, d := range []string{s.home, s.dir, s.cache, s.ws.Path} {
		must(t, os.MkdirAll(d, 0o700))
	}
	s.set, err = New(Config{Dir: s.dir, Caches: s.cache, Home: func(uid int64) (string, error) {
		if uid != s.ws.Owner {
			return "", errors.New("nobody")
		}
		return s.home, nil
	}})
	must(t, err)
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (s *stage) profile(name, text string) {
	s.t.Helper()
	must(s.t, os.WriteFile(filepath.Join(s.dir, name+".toml"), []byte(text), 0o600))
}

func (s *stage) file(path, text string) {
	s.t.Helper()
	p := filepath.Join(s.home, path)
	must(s.t, os.MkdirAll(filepath.Dir(p), 0o700))
	must(s.t, os.WriteFile(p, []byte(text), 0o600))
}

func (s *stage) resolve(name string) Resolved {
	s.t.Helper()
	r, err := s.set.Resolve(name, s.ws)
	must(s.t, err)
	return r
}

func (s *stage) refused(name, want string) {
	s.t.Helper()
	_, err := s.set.Resolve(name, s.ws)
	e := palyra.AsError(err)
	if err == nil || e.Remedy == "" || !strings.Contains(e.Text, want) ||
		(e.Reason != palyra.ReasonBadProfile && e.Reason != palyra.ReasonUnsafePermissions) {
		s.t.Errorf("%v (reason %s, remedy %q), want a text with %q", err, e.Reason, e.Remedy, want)
	}
}

func env(r Resolved, name string) string {
	for _, v := range r.Env {
		if v.Name == name {
			if v.Digest != palyra.SumBytes([]byte(v.Value)) {
				return "wrong digest"
			}
			return v.Value
		}
	}
	return ""
}

func TestShippedProfiles(t *testing.T) {
	s := newStage(t)
	list, err := s.set.List()
	must(t, err)
	var names []string
	for _, i := range list {
		names = append(names, i.Name)
		r := s.resolve(i.Name)
		if r.Digest == "" || !r.Digest.Valid() || i.Description == "" {
			t.Errorf("%s: digest %q, description %q", i.Name, r.Digest, i.Description)
		}
		if len(r.Egress) > 0 || r.UnixSockets || r.Asks != (i.Name == "git-setup") {
			t.Errorf("%s: %+v", i.Name, r)
		}
		for _, m := range r.Mounts {
			if m.Writable && !subpath.Below(s.cache, m.Source) {
				t.Errorf("%s: %s is writable", i.Name, m.Source)
			}
		}
	}
	if want := []string{"dev", "git", "git-setup", "go", "node", "python", "rust"}; !slices.Equal(names, want) {
		t.Errorf("%q", names)
	}
}

func TestFor(t *testing.T) {
	s := newStage(t)
	for command, want := range map[string]string{
		"git": "git", "/usr/bin/git": "git", "git-lfs": "git", "go": "go", "npm": "node", "python3.12": "python", "cargo-clippy": "rust",
		"make": "dev", "": "dev", "ls": "dev",
	} {
		if got := s.set.For(command); got != want {
			t.Errorf("%q: %s, want %s", command, got, want)
		}
	}
	s.profile("mine", `commands = ["make", "g*"]`)
	for command, want := range map[string]string{"make": "mine", "go": "mine", "npm": "node"} {
		if got := s.set.For(command); got != want {
			t.Errorf("with one of the operator's: %q: %s, want %s", command, got, want)
		}
	}
}

func TestResolve(t *testing.T) {
	s := newStage(t)
	must(t, os.MkdirAll(s.home+"/.rustup/toolchains", 0o700))
	must(t, os.MkdirAll(s.home+"/.cargo/bin", 0o700))
	must(t, os.MkdirAll(s.top+"/opt/tool", 0o700))
	must(t, os.Symlink(s.top+"/opt/tool", s.home+"/tool"))
	s.profile("toolchains", `
path = ["~/.cargo/bin", "~/missing/bin"]
[env]
RUSTUP_HOME = "~/.rustup"
GOPROXY = "file://~/go/x,https://proxy.example"
[[mounts]]
source = "~/.rustup"
[[mounts]]
source = "~/.cargo/bin"
[[mounts]]
source = "~/gone"
optional = true
`)
	s.profile("mine", `
includes = ["rust"]
egress = ["b.example:443", "a.example:443", "a.example:443"]
seals = ["deploy.sh"]
unseal = [".vscode"]
unix_sockets = true
files = [{target = "/home/agent/.toolrc", text = "x = 1\n"}]
[env]
CARGO_HOME = "/home/agent/elsewhere"
[[mounts]]
source = "~/tool"
target = "/srv/tool"
`)
	r := s.resolve("mine")
	cargo := filepath.Join(s.cache, cacheKey(s.ws), "cargo")
	if d := cmp.Diff([]palyra.Mount{
		{Source: cargo, Target: "/home/agent/.cache/cargo", Writable: true},
		{Source: s.top + "/opt/tool", Target: "/srv/tool"},
		{Source: s.home + "/.cargo/bin", Target: s.home + "/.cargo/bin"},
		{Source: s.home + "/.rustup", Target: s.home + "/.rustup"},
	}, r.Mounts); d != "" {
		t.Error(d)
	}
	for name, want := range map[string]string{
		"RUSTUP_HOME": s.home + "/.rustup", "CARGO_HOME": "/home/agent/elsewhere",
		"GOPROXY": "file://" + s.home + "/go/x,https://proxy.example", "GIT_TERMINAL_PROMPT": "0",
	} {
		if got := env(r, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if !slices.Equal(r.Path, []string{s.home + "/.cargo/bin"}) || !slices.Equal(r.Egress, []string{"a.example:443", "b.example:443"}) ||
		!r.UnixSockets {
		t.Errorf("%+v", r)
	}
	if slices.Contains(r.Seals, ".vscode") || !slices.Contains(r.Seals, "deploy.sh") || !slices.Contains(r.Seals, ".git/hooks") ||
		len(r.Seals) != len(seal.Default) {
		t.Errorf("seals %q", r.Seals)
	}
	if _, err := os.Stat(cargo); err == nil {
		t.Error("planning made a cache")
	}
	if len(r.Files) != 2 || r.Files[1].Target != "/home/agent/.toolrc" {
		t.Errorf("files %+v", r.Files)
	}
	if again := s.resolve("mine"); again.Digest != r.Digest {
		t.Error("the digest changes by itself")
	}
	other := s.ws
	other.Path += "/sub"
	if o, err := s.set.Resolve("mine", other); err != nil || o.Digest == r.Digest || o.Mounts[0].Source == r.Mounts[0].Source {
		t.Errorf("another workspace has the same caches: %v", err)
	}
}

func TestNoneAndUnknown(t *testing.T) {
	s := newStage(t)
	r := s.resolve(palyra.NoProfile)
	if len(r.Mounts)+len(r.Files)+len(r.Env) > 0 || len(r.Seals) != len(seal.Default) {
		t.Errorf("%+v", r)
	}
	_, err := s.set.Resolve("rusty", s.ws)
	if e := palyra.AsError(err); e.Code != palyra.NotFound || !strings.Contains(e.Remedy, "git-setup, go, node") {
		t.Errorf("%v, %s", err, e.Remedy)
	}
}

func TestOperatorsProfilesAreReadAgain(t *testing.T) {
	s := newStage(t)
	before := s.resolve("go").Digest
	s.profile("go", `description = "mine"`)
	mine := s.resolve("go")
	if mine.Digest == before || len(mine.Mounts) > 0 {
		t.Errorf("%+v", mine)
	}
	s.profile("go", "description = 1")
	s.refused("go", "line 1")
	s.refused("git", "go.toml")
	if s.set.For("npm") != "node" {
		t.Error("a bad file changed what commands get")
	}
	must(t, os.Remove(filepath.Join(s.dir, "go.toml")))
	if s.resolve("go").Digest != before {
		t.Error("the shipped one did not come back")
	}
}

func TestProfilesOfOthersAreRefused(t *testing.T) {
	s := newStage(t)
	s.profile("mine", `description = "x"`)
	p := filepath.Join(s.dir, "mine.toml")
	must(t, os.Chmod(p, 0o666))
	s.refused("git", "mode 0666")
	must(t, os.Chmod(p, 0o600))
	s.resolve("mine")
	must(t, os.Chmod(s.dir, 0o777))
	s.profile("mine", `description = "xy"`)
	s.refused("git", "mode 0777")
	must(t, os.Chmod(s.dir, 0o700))
	must(t, os.Rename(p, s.top+"/away"))
	must(t, os.Symlink(s.top+"/away", p))
	s.refused("git", "symbolic link")
	if os.Geteuid() == 0 {
		must(t, os.Remove(p))
		s.profile("mine", `description = "x"`)
		must(t, os.Chown(p, 1002, 1002))
		s.refused("git", "uid 1002")
	}
}

func TestBadProfiles(t *testing.T) {
	for text, want := range map[string]string{
		`includes = ["nope"]`:                                   "includes nope",
		`includes = ["mine"]`:                                   "includes itself",
		`includes = ["../x"]`:                                   "cannot be a profile",
		`writable = true`:                                       "no key writable",
		"[[mounts]]\nsource = \"/x\"\nwritable = true":          "no key mounts.writable",
		"[[mounts]]\nsource = \"x\"":                            "whole paths",
		"[[mounts]]\nsource = \"~/../x\"":                       "whole paths",
		"[[mounts]]\nsource = \"~\"":                            "whole paths",
		"[[mounts]]\nsource = \"/\"":                            "whole paths",
		"[[mounts]]\nsource = \"~/not-there\"":                  "cannot be found",
		"[[caches]]\nname = \"../x\"":                           "plain name",
		"[[caches]]\nname = \"x\"\ntarget = \"/etc\"":           "below /home/agent",
		"[[caches]]\nname = \"x\"\nenv = \"PATH\"":              "cannot set",
		"[env]\nHOME = \"/x\"":                                  "cannot be set",
		"[env]\nPALYRA_X = \"/x\"":                              "cannot be set",
		`path = ["bin"]`:                                        "no whole path",
		`path = ["/a:/b"]`:                                      "no whole path",
		`seals = ["**"]`:                                        "sealed name",
		`unseal = [".nothing"]`:                                 "not sealed",
		`commands = ["[a"]`:                                     "no plain name",
		`commands = ["a/b"]`:                                    "no plain name",
		`egress = ["a\nb"]`:                                     "control characters",
		`files = [{target = "x", text = ""}]`:                   "whole path",
		"description = \"" + strings.Repeat("x", maxFile) + `"`: "larger than",
		"x":    "line 1",
		"\xff": "UTF-8",
	} {
		s := newStage(t)
		s.profile("mine", text)
		s.refused("mine", want)
	}
	s := newStage(t)
	s.profile("Mine", "")
	s.refused("git", "small letters")
}

func TestSecretsAreNeverMounted(t *testing.T) {
	for source, want := range map[string]string{
		"~/.ssh": "private data", "~/.ssh/id": "private data", "~/.aws": "private data", "~/.config": "private data",
		"~/.config/gh": "private data", "~/.SSH": "private data",
		"~/.local/share": "private data", "~/.cargo": "private data", "~/.gnupg/x": "private data", "~/.netrc": "private data",
		"~/.mozilla/firefox": "private data",
		"~/sneaky":           "private data", "~/whole": "may not mount", "~/root": "everything", "/etc": "no sandbox sees",
		"/proc": "no sandbox sees", "/home": "", "/root": "",
		"~/shop": "overlaps with the workspace", "~/shop/sub": "overlaps with the workspace",
	} {
		s := newStage(t)
		for _, d := range []string{
			".ssh/id", ".SSH", ".aws", ".config/gh", ".local/share/keyrings", ".cargo/bin", ".gnupg/x", ".netrc",
			".mozilla/firefox", "shop/sub",
		} {
			must(t, os.MkdirAll(s.home+"/"+d, 0o700))
		}
		must(t, os.Symlink(s.home+"/.ssh", s.home+"/sneaky"))
		must(t, os.Symlink(s.home, s.home+"/whole"))
		must(t, os.Symlink("/", s.home+"/root"))
		s.profile("mine", "[[mounts]]\nsource = \""+source+"\"\ntarget = \"/srv/x\"")
		s.refused("mine", want)
	}
	s := newStage(t)
	for _, own := range []string{s.dir, filepath.Dir(s.dir), s.cache, s.home, s.top} {
		s.profile("mine", "[[mounts]]\nsource = \""+own+"\"\ntarget = \"/srv/x\"")
		s.refused("mine", "may not mount")
	}
	away := newStage(t)
	away.ws.Path = away.top + "/elsewhere"
	for _, whole := range []string{away.home, filepath.Dir(away.home)} {
		away.profile("mine", "[[mounts]]\nsource = \""+whole+"\"\ntarget = \"/srv/x\"")
		away.refused("mine", "whole home")
	}
	must(t, os.MkdirAll(s.home+"/tool", 0o700))
	for _, target := range []string{
		"/usr", "/usr/lib/x", "/home/agent", "/home", "/tmp", "/etc/x", s.ws.Path, s.ws.Path + "/x", s.home,
		"/proc/1",
	} {
		s.profile("mine", "[[mounts]]\nsource = \"~/tool\"\ntarget = \""+target+"\"")
		s.refused("mine", "lies there")
	}
	for p, home := range map[string]string{"/home/bob/.ssh": "/home/bob", "/home": "/home", "/Users/x/y": "/Users/x", "/opt": ""} {
		if got := strings.Join(homeAbove(p), " "); got != home {
			t.Errorf("%s: %q", p, got)
		}
	}
}

// Without a workspace nothing can be told to overlap with it: no profile is resolved then.
func TestResolveNeedsAWorkspace(t *testing.T) {
	s := newStage(t)
	for _, path := range []string{"", "shop"} {
		if _, err := s.set.Resolve("git", palyra.WorkspaceRef{Path: path, Owner: s.ws.Owner}); err == nil {
			t.Errorf("%q is accepted", path)
		}
	}
}
