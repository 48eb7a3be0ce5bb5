package seatbelt

import (
	"net/netip"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"palyra"
	"palyra/internal/cell"
	"palyra/internal/sandbox"
	"palyra/internal/seal"
)

const work = "/Users/ada/work"

func sample() (sandbox.Job, place) {
	j := sandbox.Job{
		Call: "01JABCDEFGHJKMNPQRSTVWXYZ0", Path: "/usr/bin/make", Argv: []string{"make", "all"}, Cwd: work, Workspace: work, UID: 501, GID: 20,
		Mounts: []palyra.Mount{
			{Source: "/Users/ada/.rustup", Target: "/Users/ada/.rustup"},
			{Source: "/Users/ada/Library/Palyra/caches/x/go", Target: "/home/agent/.cache/go", Writable: true},
		},
		Files:  []palyra.RoomFile{{Target: "/home/agent/.gitconfig", Text: "[user]\n"}},
		Seals:  seal.Default,
		Doors:  []cell.Listener{{Addr: netip.MustParseAddrPort("198.18.0.1:3128")}, {Addr: netip.MustParseAddrPort("198.18.0.1:53"), UDP: true}},
		Open:   func([]*os.File) error { return nil },
		Limits: withDefaults(palyra.Limits{}),
	}
	p := place{
		root: "/private/var/palyra/run-1", proxy: 49152,
		marks: []mark{{Path: ".git", Keep: true}, {Path: ".git/config"}, {Path: ".git/hooks"}, {Path: "sub/deep/tool/.git", Keep: true}},
	}
	p.pins = pinned(p.marks)
	return j, p
}

func mustPolicy(t testing.TB, j sandbox.Job, p place) policy {
	t.Helper()
	text, err := profile(j, p)
	if err != nil {
		t.Fatal(err)
	}
	pol, err := readPolicy(text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return pol
}

func TestProfileAllowsWork(t *testing.T) {
	j, p := sample()
	pol := mustPolicy(t, j, p)
	for _, a := range []act{
		{op: "file-read-data", path: work + "/main.go"},
		{op: "file-write-create", path: work + "/main.go"},
		{op: "file-write-unlink", path: work + "/old dir"},
		{op: "file-write-create", path: work + "/.git/objects/ab/cdef"},
		{op: "file-write-create", path: work + "/.git/index.lock"},
		{op: "file-write-create", path: work + "/.github/ISSUE_TEMPLATE.md"},
		{op: "file-write-create", path: work + "/node_modules/x/.travis.yml"},
		{op: "file-write-data", path: work + "/config"},
		{op: "file-write-data", path: work + "/.gitignore"},
		{op: "file-write-create", path: p.home() + "/.npmrc"},
		{op: "file-write-create", path: p.tmp() + "/go-build1"},
		{op: "process-exec", path: p.tmp() + "/go-build1/a.out"},
		{op: "process-exec", path: "/usr/bin/git"},
		{op: "process-exec", path: shell},
		{op: "process-exec", path: work + "/run.sh"},
		{op: "process-exec", path: "/Users/ada/.rustup/toolchains/x/bin/rustc"},
		{op: "process-fork"},
		{op: "file-read-data", path: "/Users/ada/.rustup/settings.toml"},
		{op: "file-write-create", path: "/Users/ada/Library/Palyra/caches/x/go/a"},
		{op: "file-read-metadata", path: "/Users/ada"},
		{op: "file-read-data", path: "/"},
		{op: "file-read-data", path: "/usr/lib/libSystem.dylib"},
		{op: "file-read-data", path: "/private/etc/hosts"},
		{op: "file-write-data", path: "/dev/null"},
		{op: "network-outbound", to: "tcp localhost:49152"},
		{op: "signal", self: true},
		{op: "mach-lookup", name: "com.apple.logd"},
	} {
		if !pol.allows(a) {
			t.Errorf("%+v is denied", a)
		}
	}
}

func TestProfileDeniesTheRest(t *testing.T) {
	j, p := sample()
	pol := mustPolicy(t, j, p)
	for _, a := range []act{
		{op: "file-read-data", path: "/Users/ada/.ssh/id_ed25519"},
		{op: "file-read-data", path: "/Users/ada"},
		{op: "file-read-metadata", path: "/Users/ada/.ssh"},
		{op: "file-read-data", path: "/Users/ada/workother/x"},
		{op: "file-read-data", path: "/System/Volumes/Data/Users/ada/.ssh/id_ed25519"},
		{op: "file-read-data", path: "/private/etc/master.passwd"},
		{op: "file-read-data", path: "/opt/homebrew/var/postgres/x"},
		{op: "file-write-create", path: "/usr/local/bin/x"},
		{op: "file-write-create", path: "/Users/ada/.rustup/x"},
		{op: "file-write-create", path: "/private/tmp/x"},
		{op: "file-write-unlink", path: work},
		{op: "file-write-setugid", path: work + "/x"},
		{op: "file-write-data", path: p.exe() + "/make"},
		{op: "file-write-data", path: p.profile()},
		{op: "file-write-data", path: p.home() + "/.gitconfig"},
		{op: "file-write-unlink", path: p.home() + "/.cache/go"},
		{op: "file-write-unlink", path: p.home()},
		{op: "file-link", path: work + "/x"},
		{op: "process-exec", path: "/Users/ada/bin/x"},
		{op: "process-exec", path: "/Applications/Mail.app/Contents/MacOS/Mail"},
		{op: "network-outbound", to: "tcp localhost:22"},
		{op: "network-outbound", to: "udp localhost:49152"},
		{op: "network-outbound", to: "tcp *:443"},
		{op: "network-outbound", path: "/private/var/run/mDNSResponder"},
		{op: "network-outbound", path: work + "/s.sock"},
		{op: "network-bind", path: work + "/s.sock"},
		{op: "network-inbound"},
		{op: "signal"},
		{op: "process-info-pidinfo"},
		{op: "mach-lookup", name: "com.apple.securityd.xpc"},
		{op: "mach-lookup", name: "com.apple.trustd.agent"},
		{op: "mach-lookup", name: "com.apple.coreservices.launchservicesd"},
		{op: "mach-priv-task-port"},
		{op: "iokit-open"},
		{op: "sysctl-write"},
		{op: "appleevent-send"},
		{op: "file-ioctl", path: "/dev/ttys001"},
	} {
		if pol.allows(a) {
			t.Errorf("%+v is allowed", a)
		}
	}
}

func TestProfileHoldsSeals(t *testing.T) {
	j, p := sample()
	pol := mustPolicy(t, j, p)
	for _, sealed := range []string{
		".git", ".git/config", ".git/hooks", ".git/hooks/pre-commit", ".git/info/attributes", ".GIT", ".Git/CONFIG", "a/b/.git", "a/.git/config",
		".envrc", "deep/er/.envrc", ".ENVRC", ".vscode/tasks.json", ".v\u017fcode", ".git/con\ufb01g", ".git/hoo\u212as",
		".github/workflows/x.yml",
		".palyra", "my.code-workspace", "Jenkinsfile", ".git/modules/a/b/config", ".mcp.json", ".vscode/node_modules/x",
		"a/.github/workflows/node_modules/b/c", "node_modules/x/.git/hooks", "node_modules/x/.git",
	} {
		for _, op := range []string{"file-write-create", "file-write-data", "file-write-unlink", "file-write-mode", "file-write-xattr"} {
			if pol.allows(act{op: op, path: work + "/" + sealed}) {
				t.Errorf("%s of %s is allowed", op, sealed)
			}
		}
		if !pol.allows(act{op: "file-read-data", path: work + "/" + sealed}) {
			t.Errorf("%s cannot be read", sealed)
		}
	}
	for _, pin := range []string{"sub", "sub/deep", "sub/deep/tool"} {
		if pol.allows(act{op: "file-write-unlink", path: work + "/" + pin}) {
			t.Errorf("%s can be moved away", pin)
		}
		if !pol.allows(act{op: "file-write-create", path: work + "/" + pin + "/new"}) {
			t.Errorf("nothing can be made in %s", pin)
		}
	}
}

// What only the walk can tell to be sealed is held by its path.
func TestProfileHoldsMarks(t *testing.T) {
	j, p := sample()
	p.marks = []mark{{Path: whole, Keep: true}, {Path: "bare", Keep: true}, {Path: "bare/config"}, {Path: "bare/hooks"}}
	p.pins = pinned(p.marks)
	pol := mustPolicy(t, j, p)
	for _, sealed := range []string{"bare/config", "bare/hooks", "bare/hooks/update"} {
		if pol.allows(act{op: "file-write-data", path: work + "/" + sealed}) ||
			pol.allows(act{op: "file-write-create", path: work + "/" + sealed}) {
			t.Errorf("%s can be written", sealed)
		}
	}
	if pol.allows(act{op: "file-write-unlink", path: work + "/bare"}) || !pol.allows(
		act{op: "file-write-create", path: work + "/bare/objects/x"}) {
		t.Error("the repository can be moved, or not be worked in")
	}
}

// What the daemon laid into the place stays, even where a mount would let the run
// write there.
func TestProfileKeepsThePlace(t *testing.T) {
	j, p := sample()
	j.Mounts = append(j.Mounts, palyra.Mount{Source: path.Dir(p.root), Target: path.Dir(p.root), Writable: true})
	pol := mustPolicy(t, j, p)
	for _, kept := range []string{p.root, p.exe(), p.exe() + "/make", p.profile(), p.home() + "/.gitconfig", p.home() + "/.cache/go"} {
		if pol.allows(act{op: "file-write-create", path: kept}) || pol.allows(act{op: "file-write-unlink", path: kept}) {
			t.Errorf("%s can be written", kept)
		}
	}
}

// A workspace that lies below node_modules itself has no exception.
func TestProfileInModules(t *testing.T) {
	j, p := sample()
	j.Workspace = "/Users/ada/Node_Modules/x"
	j.Cwd = j.Workspace
	if mustPolicy(t, j, p).allows(act{op: "file-write-create", path: j.Workspace + "/.envrc"}) {
		t.Error(".envrc can be made")
	}
}

func TestProfileVariants(t *testing.T) {
	j, p := sample()
	p.proxy = 0
	for to := range strings.FieldsSeq("localhost:49152 localhost:0 *:80") {
		if mustPolicy(t, j, p).allows(act{op: "network-outbound", to: "tcp " + to}) {
			t.Errorf("without a proxy %s is reached", to)
		}
	}
	j.Unix = true
	if pol := mustPolicy(t, j, p); !pol.allows(act{op: "network-outbound", path: work + "/s"}) ||
		pol.allows(act{op: "network-outbound", path: "/private/var/run/docker.sock"}) {
		t.Error("unix sockets are not those of the run")
	}
	j.Limits.Processes = 1
	if mustPolicy(t, j, p).allows(act{op: "process-fork"}) {
		t.Error("one process may fork")
	}
	p.tty = "/dev/ttys003"
	if pol := mustPolicy(t, j, p); !pol.allows(act{op: "file-ioctl", path: "/dev/ttys003"}) ||
		pol.allows(act{op: "file-write-data", path: "/dev/ttys004"}) {
		t.Error("the terminal is not the run's own")
	}
	for _, tty := range []string{"/dev/ttys003 ", "/dev/disk0", "/dev/ttys", "/dev/ttys0\n", `/dev/ttys1")(allow default)`} {
		p.tty = tty
		if _, err := profile(j, p); err == nil {
			t.Errorf("the terminal %q was taken", tty)
		}
	}
}

// shape is a profile without what its strings say.
func shape(t testing.TB, text string) string {
	t.Helper()
	all, err := readAll(text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	var b strings.Builder
	var write func(atom)
	write = func(a atom) {
		switch a.kind {
		case '(':
			b.WriteByte('(')
			for _, x := range a.list {
				write(x)
			}
			b.WriteByte(')')
		case 's':
			b.WriteString(a.text + " ")
		default:
			b.WriteByte(a.kind)
		}
	}
	for _, a := range all {
		write(a)
	}
	return b.String()
}

// ascend is how many directories are above a path: each is a filter.
func ascend(p string) int { return strings.Count(p, "/") }

// Whatever the paths are, a profile has the same shape, or there is none: no path
// becomes a rule.
func injected(t testing.TB, name string) {
	t.Helper()
	j, p := sample()
	dir := "/Users/" + name
	j.Workspace, j.Cwd, p.marks = dir, dir, []mark{{Path: name + "/.envrc"}}
	p.pins = pinned(p.marks)
	plainJob, plainPlace := j, p
	plainJob.Workspace, plainJob.Cwd = "/Users/plain"+strings.Repeat("/x", max(0, ascend(dir)-2)), ""
	plainPlace.marks = []mark{{Path: "plain/.envrc"}}
	plainPlace.pins = slices.Clone(p.pins)
	for i := range plainPlace.pins {
		plainPlace.pins[i] = "plain"
	}
	got, err := profile(j, p)
	if err != nil {
		return
	}
	want, err := profile(plainJob, plainPlace)
	if err != nil {
		t.Fatal(err)
	}
	if shape(t, got) != shape(t, want) {
		t.Errorf("%q changes the profile:\n%s", name, got)
	}
	pol, err := readPolicy(got)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range []act{
		{op: "file-read-data", path: "/Users/ada/.ssh/id"},
		{op: "network-outbound", to: "tcp *:443"},
		{op: "mach-lookup", name: "com.apple.securityd.xpc"},
		{op: "file-write-create", path: dir + "/.envrc"},
		{op: "file-write-unlink", path: dir + "/" + name + "/.envrc"},
	} {
		if pol.allows(a) && !strings.HasPrefix("/Users/ada/.ssh", dir) {
			t.Errorf("%q allows %+v", name, a)
		}
	}
	if !pol.allows(act{op: "file-write-create", path: dir + "/x"}) {
		t.Errorf("%q cannot be written", name)
	}
}

var nasty = []string{
	`a"b`, `a\`, `a\"b`, `")(allow default)(deny file-read* (subpath "`, "a\nb", "(", ")", "()", `#"x"`, "a b", ";", "'", "`", "a\x00b",
	"a\x7fb", "ünï", "\xff", `\\`, `\n`, "$", "${x}",
	`"))` + "\n" + `(allow network-outbound)`,
}

func TestNoPathBecomesARule(t *testing.T) {
	for _, n := range nasty {
		injected(t, n)
	}
	rapid.Check(t, func(r *rapid.T) {
		parts := rapid.SliceOfN(rapid.SampledFrom(append([]string{"a", "\"", "\\", "(", ")", " ", "\n", "#", ";", "allow", "default", "/"},
			nasty...)), 1, 12).Draw(r, "name")
		name := strings.Join(parts, "")
		if path.Clean("/"+name) == "/"+name && name != "" {
			injected(t, name)
		}
	})
}

func FuzzProfilePaths(f *testing.F) {
	for _, n := range nasty {
		f.Add(n)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if name != "" && path.Clean("/"+name) == "/"+name {
			injected(t, name)
		}
	})
}

func TestQuote(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := rapid.String().Draw(r, "text")
		q, err := quote(s)
		if strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c == 0x7f }) {
			if err == nil {
				t.Errorf("%q was quoted", s)
			}
			return
		}
		all, err2 := readAll(q)
		if err != nil || err2 != nil || len(all) != 1 || all[0].kind != '"' || all[0].text != s {
			t.Errorf("%q became %s: %+v, %v, %v", s, q, all, err, err2)
		}
	})
}
