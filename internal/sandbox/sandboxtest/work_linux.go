package sandboxtest

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"palyra"
)

// task is ordinary work: what it prints must hold a text.
type task struct {
	name   string
	needs  string // a program; where it is missing the work cannot be done
	script string // for sh
	prints string
}

var tasks = []task{
	{"a pipeline", "sh", `printf '3\n1\n2\n' | sort | tr '\n' ' ' | tee out | cat; cat out`, "1 2 3"},
	{"coreutils", "sh", `mkdir -p a/b && echo x > a/b/f && cp -a a c && mv c d && ls -lR d && wc -c d/b/f && touch -d 2020-01-01 d/b/f && chmod +x d/b/f && ln -s f d/b/l && readlink d/b/l && ln d/b/f hard && mv d/b/f moved && rmdir --ignore-fail-on-non-empty d/b && rm -r a d && df . && id && uname -a && date && du -s . && find . -maxdepth 1 && echo done`, "done"},
	{"here documents and substitution", "bash", `bash -c 'x=$(cat <<< "here"); echo $x; diff <(echo a) <(echo a) && echo ok'`, "ok"},
	{"temporary files", "mktemp", `f=$(mktemp) && echo ok > $f && cat $f && rm $f && cd "$HOME" && echo home > h && cat h`, "home"},
	{"grep, sed, awk, tar, gzip", "tar", `echo hello > h; tar czf h.tgz h && tar tzf h.tgz && grep -r ell h && sed s/h/H/ h && awk '{print $1}' h && tar xzf h.tgz && echo done`, "done"},
	{"odd names", "sh", `n=$(printf 'a b\t"\n*é\377'); echo x > "$n" && cat "$n" && mv -- "$n" -dash && rm -- -dash && echo done`, "done"},
	{"devices", "sh", `echo x > /dev/null && head -c 4 /dev/zero | wc -c && head -c 4 /dev/urandom | wc -c && : < /dev/null && echo done`, "done"},
	{"jobs in the background", "sh", `for i in 1 2 3 4; do (sleep 0.01; echo $i > j$i) & done; wait; cat j1 j2 j3 j4 | wc -l; trap 'echo got' USR1; kill -USR1 $$; echo done`, "done"},
	{"git", "git", `git init -q g && cd g && echo x > f && git add f && git commit -q -m one && echo y >> f && git commit -qam two && git status --short && git diff HEAD~1 --stat && git log --oneline | wc -l && git checkout -q -b side && git stash list && git gc -q && git clone -q . ../clone && echo done`, "done"},
	{"make", "make", `printf 'all: f\n\techo made\nf:\n\ttouch f\n' > Makefile && make -j2`, "made"},
	{"gcc", "gcc", `printf '#include <stdio.h>\nint main(void){puts("compiled");return 0;}\n' > h.c && gcc -o h h.c && ./h`, "compiled"},
	{"python", "/usr/bin/python3", `/usr/bin/python3 -c 'import json,os,subprocess,threading,tempfile,concurrent.futures as f
ex=f.ThreadPoolExecutor(4); print(sum(ex.map(int,range(10))))
tempfile.NamedTemporaryFile().write(b"x"); print(subprocess.run(["echo","done"],capture_output=True,text=True).stdout, os.getuid())'`, "done"},
	{"node", "node", `node -e 'const fs=require("fs"),cp=require("child_process");fs.writeFileSync("n.js","console.log(\"child\")");console.log(cp.execFileSync(process.execPath,["n.js"]).toString(),require("os").cpus().length>0,"done")'`, "done"},
	{"perl", "perl", `perl -MFile::Temp=tempfile -e 'my($f,$n)=tempfile(); print $f "x"; close $f; print "done\n" if -s $n'`, "done"},
}

// everydayWork is what people and agents do all day. It must succeed.
func everydayWork(t *testing.T, b *bench) {
	env := []string{"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.org"}
	for _, k := range tasks {
		t.Run(k.name, func(t *testing.T) {
			if _, err := exec.LookPath(k.needs); err != nil {
				t.Logf("UNPROVEN HERE: %s is not installed", k.needs)
				return
			}
			b.dir(t, b.ws+"/work")
			defer func() { _ = os.RemoveAll(b.ws + "/work") }()
			e := b.works(t, order{argv: []string{"sh", "-c", k.script}, env: env, cwd: "/work"})
			if !strings.Contains(e.stdout, k.prints) {
				t.Errorf("stdout %q, stderr %q", clip(e.stdout), clip(e.stderr))
			}
		})
	}
	b.dir(t, b.ws+"/many")
	b.allow(t, "many "+b.ws+"/many 1000", "threads 100", "children 20", "clock", "random", "pair")
	b.works(t, order{argv: []string{b.probe, "execs", "100"}})
	if e := b.works(t, order{argv: []string{"cat"}, stdin: "through"}); e.stdout != "through" {
		t.Errorf("stdin: %q", clip(e.stdout))
	}
	manyThreads(t, b)
	goBuild(t, b)
}

// manyThreads: a thread's stack is address space, not memory; a memory limit that
// refuses it is another limit.
func manyThreads(t *testing.T, b *bench) {
	t.Helper()
	const python = "/usr/bin/python3"
	if _, err := os.Stat(python); err != nil {
		t.Logf("UNPROVEN HERE: there is no %s", python)
		return
	}
	l := roomy
	l.MemoryBytes = 256 << 20
	e := b.works(t, order{limits: l, argv: []string{python, "-c", `import threading
e = threading.Event()
all = [threading.Thread(target=e.wait, daemon=True) for _ in range(80)]
[x.start() for x in all]; e.set(); [x.join() for x in all]; print("done")`}})
	if e.stdout != "done\n" {
		t.Errorf("80 threads in 256 MiB: %q", clip(e.stdout))
	}
}

// goTool is where Go is expected.
const goTool = "/usr/local/go/bin/go"

// goBuild builds with a cache of its own. A program needs the whole runtime
// compiled, so it is built for one identity only, the others build a package.
func goBuild(t *testing.T, b *bench) {
	t.Helper()
	if _, err := os.Stat(goTool); err != nil {
		t.Logf("UNPROVEN HERE: there is no %s", goTool)
		return
	}
	env := []string{"GOTOOLCHAIN=local", "GOFLAGS=-mod=mod", "CGO_ENABLED=0", "GOTELEMETRY=off"}
	b.dir(t, b.ws+"/hello")
	b.file(t, "hello/go.mod", "module hello\n")
	b.file(t, "hello/hello.go", "package hello\n\nfunc Hello() string { return \"hello\" }\n")
	b.works(t, order{argv: []string{"sh", "-c", goTool + " build . && " + goTool + " env GOCACHE"}, cwd: "/hello", env: env, slow: true})
	if os.Getenv(builtVar) != "" || (os.Geteuid() == 0 && b.who.uid == 0) {
		return
	}
	b.file(t, "hello/hello.go", "package main\n\nfunc main() { println(\"built\") }\n")
	e := b.works(t, order{argv: []string{"sh", "-c", goTool + " build -o hello . && ./hello"}, cwd: "/hello", env: env, slow: true})
	if e.stderr != "built\n" {
		t.Errorf("go: %q", clip(e.stderr))
	}
}

// failures come back as they are.
func failures(t *testing.T, b *bench) {
	for _, c := range []struct {
		script string
		code   int
		signal string
		stderr string
	}{
		{"echo out; echo bad >&2; exit 7", 7, "", "bad\n"},
		{"exit 255", 255, "", ""},
		{"kill -TERM $$", 0, "SIGTERM", ""},
		{"kill -SEGV $$", 0, "SIGSEGV", ""},
		{"/nonexistent", 127, "", "not found"},
		{"ls /nonexistent", 2, "", "/nonexistent"},
	} {
		e := b.run(t, order{argv: []string{"sh", "-c", c.script}})
		if (c.signal == "" && e.Code != c.code) || e.Signal != c.signal || !strings.Contains(e.stderr, c.stderr) || e.Limit != "" {
			t.Errorf("%s: code %d, signal %q, limit %q, stderr %q", c.script, e.Code, e.Signal, e.Limit, clip(e.stderr))
		}
	}
	j, _, _ := b.job(t, order{argv: []string{b.probe, "exit", "0"}})
	j.Path = b.ws + "/nothing"
	if p, err := b.backend.Start(t.Context(), j); err == nil {
		_, _ = p.Wait()
		t.Error("a program that is not there was started")
	}
	j, _, _ = b.job(t, order{argv: []string{b.probe, "exit", "0"}})
	j.Cwd = b.ws + "/nothing"
	if p, err := b.backend.Start(t.Context(), j); err == nil {
		_, _ = p.Wait()
		t.Error("a program was started in a directory that is not there")
	}
	j, _, _ = b.job(t, order{argv: []string{b.probe, "exit", "0"}})
	j.Expect = palyra.Enforcement{Mechanisms: []string{"what nobody has"}}
	p, err := b.backend.Start(t.Context(), j)
	if err == nil {
		_, _ = p.Wait()
	}
	if palyra.AsError(err).Reason != palyra.ReasonWeakEnforcement {
		t.Errorf("more was expected than the tier gives: %v", err)
	}
}
