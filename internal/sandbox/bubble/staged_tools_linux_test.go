package bubble

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"palyra"
)

// toolWork is what the tools of developers do to a project, offline. What each leaves must be there for the machine's
// own tools when the run has ended.
var toolWork = []struct {
	name  string
	shell string // in the room
	sees  string // on the host afterwards
	want  string
}{
	{
		"npm install", "cd web && npm install --offline ./packs/a-1.0.0.tgz",
		"cd web && node -p 'require(\"a\")' && test -f package-lock.json && echo locked", "a 1.0.0\nlocked\n",
	},
	{
		"npm ci", "cd web && echo old > node_modules/stray && npm ci --offline",
		"cd web && node -p 'require(\"a\")' && ls node_modules", "a 1.0.0\na\n",
	},
	{
		"npm install over an existing tree", "cd web && npm install --offline ./packs/a-2.0.0.tgz ./packs/b-1.0.0.tgz",
		"cd web && node -p 'require(\"a\")+require(\"b\")' && npm ls --offline --parseable | wc -l", "a 2.0.0b 1.0.0\n3\n",
	},
	{
		"tsc", "cd ts && node node_modules/typescript/bin/tsc -p .",
		"cd ts && node out/main.js && ls out", "2\nmain.d.ts\nmain.js\nmain.js.map\n",
	},
	{"go mod tidy", "cd mod && go mod tidy", "cd mod && grep -c example.org/dep go.mod", "2\n"},
	{"go build", "cd mod && go build -o m . && ./m", "cd mod && ./m 2>&1", "two\n"},
	{"go test", "cd mod && go test -vet=off -coverprofile=cover.out .", "cd mod && head -1 cover.out", "mode: set\n"},
	{
		"pip install into a venv",
		`cd py && /usr/bin/python3 -m venv --copies env &&
			env/bin/pip install --no-index --disable-pip-version-check ./thing-1.0-py3-none-any.whl`,
		"cd py && env/bin/python -c 'import thing; print(thing.said)' && env/bin/thing", "1.0\nrun\n",
	},
	{
		"pip install over it", "cd py && env/bin/pip install --no-index --disable-pip-version-check ./thing-2.0-py3-none-any.whl",
		"cd py && env/bin/python -c 'import thing; print(thing.said)' && cd env/lib/python3*/site-packages && ls -d thing-*",
		"2.0\nthing-2.0.dist-info\n",
	},
	{"make", "cd c && make -s", "cd c && cat all.o && make -s -q && echo made", "one\ntwo\nmade\n"},
	{"git add", "git add -A && git commit -q -m work", "git status --short", ""},
	{
		"git mv DIR", "git mv web site && git commit -q -m moved",
		"git status --short && git ls-files site/packs | wc -l && ls site/node_modules", "3\na\nb\n",
	},
	{"git mv back", "git mv site web && git commit -q -m back", "git status --short && git ls-files web/packs | wc -l", "3\n"},
	{"git stash", "echo x >> c/one && git stash -q && git status --short", "git stash list | wc -l && cat c/one", "1\none\n"},
	{"git stash pop", "git stash pop -q", "git stash list | wc -l && cat c/one && git checkout -q c/one", "0\none\nx\n"},
	{
		"git rebase",
		"git checkout -q -b side HEAD~1 && echo s > side && git add side && git commit -q -m side && git rebase -q main",
		"git log --format=%s -2 && git status --short && git checkout -q main", "side\nback\n",
	},
	{
		"what cargo does", // it writes beside, takes the old one away, and renames a directory into its place
		`cd c && mkdir -p t/inc/s-1-working && echo dep > t/inc/s-1-working/dep && mv -T t/inc/s-1-working t/inc/s-1-final &&
		cp -r t/inc/s-1-final t/inc/s-2-working && echo more >> t/inc/s-2-working/dep &&
		mv -T t/inc/s-2-working t/inc/s-2-final && rm -r t/inc/s-1-final`,
		"cd c && ls t/inc && cat t/inc/s-2-final/dep", "s-2-final\ndep\nmore\n",
	},
	{
		"what cargo does the next time", // the directories are of the workspace by now
		`cd c && cp -r t/inc/s-2-final t/inc/s-3-working && mv -T t/inc/s-3-working t/inc/s-3-final && rm -r t/inc/s-2-final &&
		mv t/inc t/inc2 && mv t/inc2 t/inc`,
		"cd c && ls t/inc && cat t/inc/s-3-final/dep", "s-3-final\ndep\nmore\n",
	},
}

// TestStagedTools: the tools of developers do on a stage what they do anywhere, and what they made works on the
// host afterwards, as root and as a user. It builds, so it is none of those that an ordinary user runs without the sources.
func TestStagedTools(t *testing.T) {
	cache := goCacheSeed(t)
	staged(t, 0, func(t *testing.T, b *Backend, s *site) {
		s.toolTree()
		build := filepath.Join(tempDir(t), "gocache")
		s.give(build, "cp", "-r", cache, build)
		for _, w := range toolWork {
			j := s.job("/bin/sh", "-ec", "umask 022; "+w.shell)
			j.Limits.MemoryBytes = 2 << 30
			j.Mounts = []palyra.Mount{{Source: build, Target: "/home/agent/.cache/go-build", Writable: true}}
			j.Env = append(j.Env, goSeedEnv...)
			if strings.HasPrefix(w.name, "git mv") {
				j.Renames = []string{"web", "site"} // as the words of the command say
			}
			x := runJob(t, b, j)
			if x.Code != 0 || x.Effects.Kept == 0 || len(x.Effects.Conflicts)+len(x.Effects.Refused) > 0 || x.Effects.Lost != "" {
				t.Errorf("%s: %+v\n%s", w.name, x, s.printed())
				continue
			}
			if got, err := s.host(w.sees); err != nil || got != w.want {
				t.Errorf("%s: afterwards %q, %v, want %q\n%s", w.name, got, err, w.want, s.printed())
			}
		}
	})
}

// goSeedEnv is how Go is run: alone, with what is there.
var goSeedEnv = []string{
	"GOTOOLCHAIN=local", "GOFLAGS=-mod=mod -buildvcs=false", "CGO_ENABLED=0", "GOTELEMETRY=off", "GOPROXY=off", "GOSUMDB=off",
}

// goModule has a dependency beside it, a program and a test.
var goModule = map[string]string{
	"mod/go.mod":     "module example.org/m\n\ngo 1.20\n\nreplace example.org/dep => ./dep\n",
	"mod/dep/go.mod": "module example.org/dep\n\ngo 1.20\n",
	"mod/dep/dep.go": "package dep\n\nconst Two = \"two\"\n",
	"mod/m.go":       "package main\n\nimport \"example.org/dep\"\n\nfunc main() { println(dep.Two) }\n",
	"mod/main_test.go": `package main

import (
	"testing"

	"example.org/dep"
)

func TestTwo(t *testing.T) {
	if dep.Two != "two" {
		t.Fatal(dep.Two)
	}
}
`,
}

// goCacheSeed is a build cache with what the module needs of the library, taken from the one that built this test: a run
// has no time to compile it.
func goCacheSeed(t *testing.T) string {
	t.Helper()
	dir := tempDir(t)
	probe, seed := filepath.Join(dir, "probe"), filepath.Join(dir, "seed")
	run := func(at string, env []string, args ...string) string {
		t.Helper()
		c := exec.CommandContext(t.Context(), "go", args...)
		c.Dir, c.Env = at, append(os.Environ(), env...)
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("go %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	run("", nil, "build", "-o", probe, "palyra/internal/sandbox/sandboxtest/probe")
	if err := os.Mkdir(seed, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range goModule {
		writeAll(t, filepath.Join(dir, name), []byte(text))
	}
	env := append([]string{"GOCACHEPROG=" + probe + " gocache " + run("", nil, "env", "GOCACHE") + " " + seed}, goSeedEnv...)
	run(filepath.Join(dir, "mod"), env, "mod", "tidy")
	run(filepath.Join(dir, "mod"), env, "build", "-o", "/dev/null", ".")
	run(filepath.Join(dir, "mod"), env, "test", "-vet=off", "-cover", "-c", "-o", "/dev/null", ".")
	return seed
}

// toolTree is a project for every tool, in one repository.
func (s *site) toolTree() {
	s.t.Helper()
	files := map[string]string{
		".gitignore":       "node_modules\nenv\nt\n",
		"web/package.json": `{"name":"web","version":"1.0.0","private":true}`,
		"ts/tsconfig.json": `{"compilerOptions":{"outDir":"out","declaration":true,"sourceMap":true,"module":"commonjs","types":[]},
			"files":["main.ts"]}`,
		"ts/main.ts": "declare const console: { log(n: number): void };\nexport const two: number = 1 + 1;\nconsole.log(two);\n",
		"c/one":      "one\n", "c/two": "two\n",
		"c/Makefile": "MAKEFLAGS += -r\nall.o: one.o two.o\n\tcat one.o two.o > all.o\none.o two.o: %.o: %\n\tcp $< $@\n",
	}
	for name, text := range goModule {
		files[name] = text
	}
	for _, p := range []string{"a-1.0.0", "a-2.0.0", "b-1.0.0"} {
		name, version, _ := strings.Cut(p, "-")
		files["web/packs/"+p+".tgz"] = string(packed(s.t, map[string]string{
			"package/package.json": `{"name":"` + name + `","version":"` + version + `","main":"i.js"}`,
			"package/i.js":         "module.exports = '" + name + " " + version + "'\n",
		}))
	}
	for name, text := range files {
		writeAll(s.t, filepath.Join(s.workspace, name), []byte(text))
	}
	for _, v := range []string{"1.0", "2.0"} {
		wheel(s.t, filepath.Join(s.workspace, "py", "thing-"+v+"-py3-none-any.whl"), v)
	}
	s.typescript()
	s.give(s.workspace, "true")
	s.mustHost(`git init -q -b main && git config user.name t && git config user.email t@example.org &&
		git add -A && git commit -q -m one && git commit -q --allow-empty -m two`)
}

// give runs a command, and makes everything at a path that of whoever the workspace belongs to.
func (s *site) give(path string, command ...string) {
	s.t.Helper()
	for _, argv := range [][]string{command, {"chown", "-R", fmt.Sprintf("%d:%d", s.who.UID, s.who.GID), path}} {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			s.t.Fatalf("%v: %v: %s", argv, err, out)
		}
	}
}

// typescript puts the compiler into the project.
func (s *site) typescript() {
	s.t.Helper()
	out, err := exec.CommandContext(s.t.Context(), "../../../scripts/node.sh", "testdata/typescript").Output()
	lines := strings.Fields(string(out))
	if err != nil || len(lines) != 2 {
		s.t.Fatalf("scripts/node.sh: %v: %q", err, out)
	}
	s.dir("ts/node_modules")
	to := filepath.Join(s.workspace, "ts", "node_modules")
	s.give(to, "cp", "-rL", filepath.Join(lines[1], "node_modules", "typescript"), to)
}

// host runs a script with the machine's own tools, as whoever the workspace belongs to.
func (s *site) host(script string) (string, error) {
	c := exec.CommandContext(s.t.Context(), "/bin/sh", "-c", script)
	c.Dir = s.workspace
	c.Env = []string{
		"PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/go/bin", "HOME=" + filepath.Dir(s.workspace), "GIT_CONFIG_NOSYSTEM=1", "LANG=C.UTF-8",
		"NPM_CONFIG_UPDATE_NOTIFIER=false",
	}
	if os.Geteuid() == 0 {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(s.who.UID), Gid: uint32(s.who.GID)}}
	}
	out, err := c.CombinedOutput()
	return string(out), err
}

func (s *site) mustHost(script string) {
	s.t.Helper()
	if out, err := s.host(script); err != nil {
		s.t.Fatalf("%s: %v: %s", script, err, out)
	}
}

// packed is a package as npm takes it.
func packed(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for name, text := range files {
		err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))})
		if err == nil {
			_, err = w.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// wheel is a package as pip takes it, with a module and a command.
func wheel(t testing.TB, path, version string) {
	t.Helper()
	info := "thing-" + version + ".dist-info/"
	record := "thing.py,,\n" + info + "METADATA,,\n" + info + "WHEEL,,\n" + info + "entry_points.txt,,\n" + info + "RECORD,,\n"
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for name, text := range map[string]string{
		"thing.py":                "said = '" + version + "'\n\ndef main():\n    print('run')\n",
		info + "METADATA":         "Metadata-Version: 2.1\nName: thing\nVersion: " + version + "\n",
		info + "WHEEL":            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		info + "entry_points.txt": "[console_scripts]\nthing = thing:main\n",
		info + "RECORD":           record,
	} {
		f, err := w.Create(name)
		if err == nil {
			_, err = f.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	writeAll(t, path, out.Bytes())
}

// writeAll writes a file and makes the directories above it.
func writeAll(t testing.TB, path string, text []byte) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
