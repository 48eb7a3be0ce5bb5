package profile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"palyra/internal/subpath"
)

// Toolchain is something that programs are run from, found in a home.
type Toolchain struct {
	Name   string            `json:"name"`
	What   string            `json:"what"`   // for people: "Node.js 22.1.0 by nvm"
	Mounts []string          `json:"mounts"` // with ~/ for the home
	Path   []string          `json:"path"`
	Env    map[string]string `json:"env,omitempty"`
}

// finder looks for one kind of toolchain.
type finder struct {
	name, what string
	mount      string // a directory, %/ in Homebrew's; with a star every one that fits is mounted
	bins       string // a pattern of directories with programs; the newest is taken
	each       bool   // the pattern is TOOL/VERSION/bin: the newest of each tool is taken
	choice     string // a file that names the version that the person chose: alone in its first line, or after the tool's name
	env        map[string]string
}

// brew is where Homebrew puts everything on Linux. Its programs were built for that place.
const brew = "/home/linuxbrew/.linuxbrew"

// finders are the kinds that are known, in the order in which they are shown.
var finders = []finder{
	{name: "go-sdk", what: "Go", mount: "~/sdk/go*", bins: "~/sdk/go*/bin"},
	{name: "go-bin", what: "programs installed with go install", mount: "~/go/bin", bins: "~/go/bin"},
	{name: "go-modules", what: "Go modules that were downloaded already", mount: "~/go/pkg/mod/cache/download", env: map[string]string{
		"GOPROXY": "file://~/go/pkg/mod/cache/download,direct",
	}},
	{name: "nvm", what: "Node.js by nvm", mount: "~/.nvm/versions/node", bins: "~/.nvm/versions/node/v*/bin", choice: "~/.nvm/alias/default"},
	{
		name: "fnm", what: "Node.js by fnm", mount: "~/.local/share/fnm/node-versions",
		bins: "~/.local/share/fnm/node-versions/v*/installation/bin",
	},
	{name: "fnm-old", what: "Node.js by fnm", mount: "~/.fnm/node-versions", bins: "~/.fnm/node-versions/v*/installation/bin"},
	{name: "volta", what: "Node.js by volta", mount: "~/.volta/tools/image", bins: "~/.volta/tools/image/node/*/bin"},
	{name: "bun", what: "Bun", mount: "~/.bun/bin", bins: "~/.bun/bin"},
	{name: "deno", what: "Deno", mount: "~/.deno/bin", bins: "~/.deno/bin"},
	{name: "pyenv", what: "Python by pyenv", mount: "~/.pyenv/versions", bins: "~/.pyenv/versions/*/bin", choice: "~/.pyenv/version"},
	{name: "uv", what: "Python by uv", mount: "~/.local/share/uv/python", bins: "~/.local/share/uv/python/cpython-*/bin"},
	{
		name: "mise", what: "programs by mise", mount: "~/.local/share/mise/installs",
		bins: "~/.local/share/mise/installs/*/*/bin", each: true, choice: "~/.tool-versions",
	},
	{
		name: "asdf", what: "programs by asdf", mount: "~/.asdf/installs",
		bins: "~/.asdf/installs/*/*/bin", each: true, choice: "~/.tool-versions",
	},
	{
		name: "homebrew", what: "programs by Homebrew", mount: "%/{Cellar,bin,sbin,lib,libexec,opt,share,include}",
		bins: "%/bin",
	},
	{name: "rustup", what: "Rust by rustup", mount: "~/.rustup", env: map[string]string{"RUSTUP_HOME": "~/.rustup"}},
	{name: "cargo-bin", what: "programs installed with cargo", mount: "~/.cargo/bin", bins: "~/.cargo/bin"},
}

// Find looks for toolchains in a home. It reads names of directories only.
func Find(home string) ([]Toolchain, error) { return find(home, brew) }

func find(home, brew string) ([]Toolchain, error) {
	if !isCleanAbs(home) {
		return nil, fmt.Errorf("profile: the home directory %q is no whole path", home)
	}
	var out []Toolchain
	for _, f := range finders {
		dirs, err := glob(home, brew, f.mount)
		if err != nil {
			return nil, err
		}
		if len(dirs) == 0 {
			continue
		}
		t := Toolchain{Name: f.name, What: f.what, Mounts: dirs, Path: []string{}, Env: f.env}
		if f.bins != "" {
			bins, err := glob(home, brew, f.bins)
			if err != nil {
				return nil, err
			}
			if len(bins) == 0 {
				continue
			}
			t.Path = f.pick(home, bins)
			if v := version(t.Path[0]); v != "" && !f.each {
				t.What = f.what + ", " + v
			}
		}
		out = append(out, t)
	}
	return out, nil
}

// pick takes the directories whose programs are run: the newest, or the one that the person chose, of each tool.
func (f finder) pick(home string, bins []string) (best []string) {
	chosen := f.chosen(home)
	byTool := map[string][]string{}
	for _, dir := range bins {
		tool := ""
		if f.each {
			tool = path.Base(path.Dir(path.Dir(dir)))
		}
		byTool[tool] = append(byTool[tool], dir)
	}
	for _, tool := range slices.Sorted(maps.Keys(byTool)) {
		is := func(dir string) bool {
			name := path.Base(path.Dir(dir))
			return name == chosen[tool] || name == "v"+chosen[tool]
		}
		if i := slices.IndexFunc(byTool[tool], is); i >= 0 {
			best = append(best, byTool[tool][i])
			continue
		}
		best = append(best, slices.MaxFunc(byTool[tool], versions))
	}
	return best
}

// chosen reads which versions the person uses, by tool; a file that names only a version has it for the tool "".
func (f finder) chosen(home string) map[string]string {
	out := map[string]string{}
	if f.choice == "" {
		return out
	}
	b, err := os.ReadFile(filepath.Join(home, strings.TrimPrefix(f.choice, "~/")))
	if err != nil || len(b) > 4096 {
		return out
	}
	for line := range strings.Lines(string(b)) {
		switch words := strings.Fields(line); {
		case len(words) == 1 && !f.each && out[""] == "":
			out[""] = words[0]
		case len(words) > 1 && f.each:
			out[words[0]] = words[1]
		}
	}
	return out
}

// glob lists the directories that fit a pattern, which may name some in braces at its end. Those below a home have ~/
// for it. A link is followed for what it leads to, not out of curiosity: it has to be a directory.
func glob(home, brew, pattern string) (out []string, err error) {
	if stem, names, ok := strings.Cut(strings.TrimSuffix(pattern, "}"), "{"); ok {
		for name := range strings.SplitSeq(names, ",") {
			some, err := glob(home, brew, stem+name)
			if err != nil {
				return nil, err
			}
			out = append(out, some...)
		}
		return out, nil
	}
	top, rest, _ := strings.Cut(pattern, "/")
	found, err := filepath.Glob(path.Join(escape(map[string]string{"~": home, "%": brew}[top]), rest))
	if err != nil {
		return nil, fmt.Errorf("profile: find: %w", err)
	}
	const most = 64
	for _, dir := range found {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() || len(out) == most {
			continue
		}
		if rest, below := subpath.Rel(home, dir); below {
			dir = "~/" + rest
		}
		if isPlace(dir) && !strings.Contains(dir, ":") {
			out = append(out, dir)
		}
	}
	return out, nil
}

// escape makes a path mean itself in a pattern.
func escape(p string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(p)
}

// version is the part of a path that has digits, for people.
func version(p string) string {
	for part := range strings.SplitSeq(p, "/") {
		if strings.ContainsAny(part, "0123456789") && strings.Contains(part, ".") && !strings.HasPrefix(part, ".") {
			return part
		}
	}
	return ""
}

// versions compares paths with the numbers in them as numbers.
func versions(a, b string) int {
	x, y := numbers(a), numbers(b)
	return cmp.Or(slices.Compare(x, y), strings.Compare(a, b))
}

func numbers(s string) []int {
	var out []int
	for _, f := range strings.FieldsFunc(s, func(r rune) bool { return r < '0' || r > '9' }) {
		n, err := strconv.Atoi(f)
		if err != nil {
			n = 0
		}
		out = append(out, n)
	}
	return out
}

// toolchainFile is what 'palyra setup' writes.
type toolchainFile struct {
	Description string            `toml:"description"`
	Path        []string          `toml:"path,omitempty"`
	Env         map[string]string `toml:"env,omitempty"`
	Mounts      []mountEntry      `toml:"mounts,omitempty"`
}

// Document is the profile that shows toolchains to runs, read-only. Equal toolchains give equal documents.
func Document(list []Toolchain) ([]byte, error) {
	f := toolchainFile{Description: "toolchains of the home directory, found by 'palyra setup'", Env: map[string]string{}}
	for _, t := range list {
		f.Path = append(f.Path, t.Path...)
		for k, v := range t.Env {
			f.Env[k] = v
		}
		for _, m := range t.Mounts {
			f.Mounts = append(f.Mounts, mountEntry{Source: m, Optional: true})
		}
	}
	var b bytes.Buffer
	b.WriteString("# Written by 'palyra setup', which replaces it. The profiles go, node, python,\n# rust and dev include it. Remove " +
		"what sandboxes are not to see.\n\n")
	if err := toml.NewEncoder(&b).Encode(f); err != nil {
		return nil, fmt.Errorf("profile: document: %w", err)
	}
	if _, err := parse(Toolchains, "what was found", b.Bytes()); err != nil {
		return nil, errors.Join(errors.New("profile: document"), err)
	}
	return b.Bytes(), nil
}
