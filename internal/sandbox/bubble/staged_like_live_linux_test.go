package bubble

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"palyra"
	"palyra/internal/sandbox/celltest"
	"palyra/internal/stage"
)

// dayWork is what developers do, so that doing it twice gives the same bytes.
var dayWork = []struct{ name, shell string }{
	{"git mv DIR", "git mv d e && git commit -q -m moved && git mv e d && git mv d/deep d/deeper && git mv d/deeper d/deep && git " +
		"commit -q -m back && git status --short"},
	{"git rebase", "git checkout -q -b side HEAD~1 && echo side > side && git add side && git commit -q -m side && git rebase -q " +
		"main && git checkout -q main && git reset -q --hard side && git branch -q -D side"},
	{"made and renamed", "mkdir -p t/s-working/x && echo o > t/s-working/x/o && mv -T t/s-working t/s-final && python3 -c 'import " +
		"os; os.mkdir(\"t/a\"); open(\"t/a/b\",\"w\").close(); os.rename(\"t/a\",\"t/c\")' && node -e 'const f=require(\"fs\"); " +
		"f.mkdirSync(\"t/n/m\",{recursive:true}); f.renameSync(\"t/n\",\"t/o\")'"},
	{"packages", "mkdir -p v/p && printf 1 > v/p/f && mv v/p v/.p-old && mkdir v/p && printf 2 > v/p/f && rm -r v/.p-old && mv v v2 " +
		"&& cp -r v2 v && rm -r v2"},
	{"go build", "cd mod && GOCACHE=/tmp/c GOFLAGS=-buildvcs=false CGO_ENABLED=0 go build -trimpath -o ../bin/m.a . && go mod tidy " +
		"&& gofmt -l -w ."},
	{"npm run", "cd pkg && npm run --silent build && ls dist"},
	{"git", "rm gone && git add -A && git commit -q -m two && git mv d/f d/g && git stash -q && git checkout -q -b other && git " +
		"status --short"},
	{"make", "make -s all && make -s all"},
	{"files", "mv d d2; cp -a d2 d3; ln -s d2 l; ln hay hard; rm -r d3/deep; mkdir -p d3/deep; echo x > d3/deep/y; chmod 750 d2; " +
		"chmod 600 hay; sed -i s/old/new/ d2/f; touch \"$(printf 'raw\\377')\"; " +
		"tar cf t.tar --mtime=@0 d2 && mkdir out && tar xf t.tar -C out; mkfifo p; : > empty; truncate -s 100000 holes"},
}

// dayTree is a project to work on.
func (s *site) dayTree() {
	s.dir("d/deep")
	for name, text := range map[string]string{
		"hay": "needle\n", "gone": "old\n", "d/f": "old\n", "d/deep/x": "old\n",
		"mod/go.mod": "module example.org/m\n\ngo 1.20\n", "mod/m.go": "package m\n\nfunc One() int {\nreturn 1 }\n",
		"pkg/package.json": `{"name":"p","version":"1.0.0","scripts":{"build":"mkdir -p dist && cp package.json dist/ && node -e 'require(\"fs\").writeFileSync(\"dist/x\",\"x\")'"}}`,
		"Makefile": "all: a.o link\na.o: hay\n\tcp hay a.o\nlink: a.o\n\tln -sf a.o link; mkdir -p deps; mv -f a.o deps/; ln -s " +
			"deps/a.o a.o\n",
	} {
		s.dir(filepath.Dir(name))
		s.file(name, text)
	}
	s.git("init", "-q", "-b", "main")
	s.git("config", "user.name", "t")
	s.git("config", "user.email", "t@example.org")
	s.git("config", "safe.directory", "*")
	s.git("add", "-A")
	s.git("commit", "-q", "-m", "one")
}

// look is all that is in a workspace: names, kinds, modes, how many names a file has,
// targets and content. What git writes about inodes and times is only there.
func (s *site) look() map[string]string {
	s.t.Helper()
	got := map[string]string{}
	err := filepath.WalkDir(s.workspace, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st syscall.Stat_t
		if err := syscall.Lstat(path, &st); err != nil {
			return err
		}
		rel, text := strings.TrimPrefix(path, s.workspace), fmt.Sprintf("%o %d:%d", st.Mode, st.Uid, st.Gid)
		switch {
		case rel == "/.git/index" || rel == "/t.tar":
		case st.Mode&syscall.S_IFMT == syscall.S_IFREG:
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text += fmt.Sprintf(" %q", b) // a second name is a second file on a stage
		case st.Mode&syscall.S_IFMT == syscall.S_IFLNK:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			text += " " + target
		}
		got[rel] = text
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return got
}

// TestBackendStagedIsLikeLive: everyday work leaves the same tree on a stage as it does
// without.
func TestBackendStagedIsLikeLive(t *testing.T) {
	staged(t, 0, func(t *testing.T, b *Backend, s *site) {
		live := newSite(t, s.who)
		s.dayTree()
		if out, err := exec.Command("cp", "-a", s.workspace+"/.", live.workspace).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for _, work := range dayWork {
			said := map[*site]string{}
			for _, at := range []*site{s, live} {
				j := at.job("/bin/sh", "-c", "umask 022; "+work.shell)
				if j.Seals = nil; j.Staged {
					j.Renames = []string{"d", "d/deep", "not/there", "hay", "../x"}
				}
				j.Env = append(j.Env, "GIT_AUTHOR_DATE=@1700000000 +0000", "GIT_COMMITTER_DATE=@1700000000 +0000")
				x := runJob(t, b, j)
				if said[at] = at.printed(); x.Code != 0 || len(x.Effects.Conflicts) > 0 || x.Effects.Lost != "" || len(x.Quarantined) > 0 {
					t.Errorf("%s, staged %v: %+v\n%s", work.name, at.staged, x, said[at])
				}
			}
			if said[s] != said[live] {
				t.Errorf("%s: staged it said\n%s\nlive\n%s", work.name, said[s], said[live])
			}
			want, got := live.look(), s.look()
			for path := range want {
				if got[path] != want[path] {
					t.Errorf("%s: %q is %.200s\nlive %.200s", work.name, path, got[path], want[path])
				}
			}
			for path := range got {
				if _, there := want[path]; !there {
					t.Errorf("%s: %q is there, and not live", work.name, path)
				}
			}
		}
	})
}

// TestBackendStagedGitStatus: git finds on a stage that nothing changed without reading a file, wherever it does so
// without a stage: inode numbers, owners and times are those of the workspace.
func TestBackendStagedGitStatus(t *testing.T) {
	staged(t, 0, func(t *testing.T, b *Backend, s *site) {
		for i := range 300 {
			if i%100 == 0 {
				s.dir(fmt.Sprint("d", i/100))
			}
			s.file(fmt.Sprintf("d%d/f%d", i/100, i), fmt.Sprint("text ", i))
		}
		s.mustHost(`find . -type f -exec touch -d '1 hour ago' {} +
			git init -q && git add -A && git -c user.name=t -c user.email=t@example.org commit -q -m one`)
		read := func(staged bool) string {
			s.staged = staged
			j := s.job("/usr/bin/git", "status", "--short")
			j.Env = append(j.Env, "GIT_OPTIONAL_LOCKS=0", "GIT_TRACE2_EVENT=2", "GIT_TRACE2_EVENT_NESTING=10",
				"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*")
			x := runJob(t, b, j)
			_, n, found := strings.Cut(s.printed(), `"key":"refresh/sum_scan","value":"`)
			if x.Code != 0 || !found {
				t.Fatalf("%+v %s", x, s.printed())
			}
			n, _, _ = strings.Cut(n, `"`)
			return n
		}
		onStage, live := read(true), read(false)
		if onStage != live || s.who.UID != 0 && onStage != "0" { // in root's rooms nobody is root
			t.Errorf("git read %s files on a stage, and %s without", onStage, live)
		}
	})
}

// BenchmarkStaged compares, in one run and in turns, a launch on a stage, with a
// bound script on it, with one that writes to the workspace directly: from the call to
// the end of the program, without a ready room.
func BenchmarkStaged(b *testing.B) {
	for _, who := range celltest.Residents() {
		for _, files := range []int{0, 10_000} {
			b.Run(fmt.Sprintf("%s/%d-files", who.Name, files), func(b *testing.B) { benchStaged(b, who, files) })
		}
	}
}

func benchStaged(b *testing.B, who celltest.Resident, files int) {
	c := configOf(b)
	c.Log = nil
	backend := openBackend(b, c)
	s := newSite(b, who)
	const text = "exit 0\n"
	s.file("s.sh", text)
	for i := range files {
		if i%100 == 0 {
			s.dir(fmt.Sprint("d", i/100))
		}
		s.file(fmt.Sprintf("d%d/f%d", i/100, i), "")
	}
	bound := []stage.Bound{{Path: "s.sh", Digest: string(palyra.SumBytes([]byte(text)))}}
	var live, onStage []time.Duration
	one := func(staged bool) time.Duration {
		s.staged = staged
		j := s.job("/bin/sh", "s.sh")
		_ = os.Remove(j.Stdout.Name())
		if staged {
			j.Bound, j.Seals = bound, nil // as plans have it
		}
		return celltest.Timed(func() { runJob(b, backend, j) })
	}
	one(true)
	for b.Loop() {
		live = append(live, one(false))
		onStage = append(onStage, one(true))
	}
	b.ReportMetric(float64(celltest.At(live, 50).Microseconds()), "live-µs")
	b.ReportMetric(float64(celltest.At(onStage, 50))/float64(celltest.At(live, 50)), "staged/live")
	b.ReportMetric(float64(celltest.At(onStage, 99))/float64(celltest.At(live, 99)), "staged/live-p99")
}
