package sandboxtest

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
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
	own    string // a feature without which it fails
}

var tasks = []task{
	{"a pipeline", "sh", `printf '3\n1\n2\n' | sort | tr '\n' ' ' | tee out | cat; cat out`, "1 2 3", ""},
	{"coreutils", "sh", `mkdir -p a/b && echo x > a/b/f && cp -a a c && mv c d && ls -lR d && wc -c d/b/f && touch -d 2020-01-01 d/b/f && chmod +x d/b/f && ln -s f d/b/l && readlink d/b/l && ln d/b/f hard && mv d/b/f moved && rmdir --ignore-fail-on-non-empty d/b && rm -r a d && df . && id && uname -a && date && du -s . && find . -maxdepth 1 && echo done`, "done", ""},
	{"here documents and substitution", "bash", `bash -c 'x=$(cat <<< "here"); echo $x; diff <(echo a) <(echo a) && echo ok'`, "ok", ""},
	{"temporary files", "mktemp", `f=$(mktemp) && echo ok > $f && cat $f && rm $f && cd "$HOME" && echo home > h && cat h`, "home", ""},
	{
		"grep, sed, awk, tar, gzip", "tar",
		`echo hello > h; tar czf h.tgz h && tar tzf h.tgz && grep -r ell h && sed s/h/H/ h && awk '{print $1}' h && tar xzf h.tgz && echo done`,
		"done", "",
	},
	{"odd names", "sh", `n=$(printf 'a b\t"\n*é\377'); echo x > "$n" && cat "$n" && mv -- "$n" -dash && rm -- -dash && echo done`, "done", ""},
	{
		"devices", "sh", `echo x > /dev/null && head -c 4 /dev/zero | wc -c && head -c 4 /dev/urandom | wc -c && : < /dev/null && echo done`,
		"done", "",
	},
	{
		"jobs in the background", "sh",
		`for i in 1 2 3 4; do (sleep 0.01; echo $i > j$i) & done; wait; cat j1 j2 j3 j4 | wc -l; trap 'echo got' USR1; kill -USR1 $$; echo done`, "done", "",
	},
	{"git", "git", `git init -q g && cd g && echo x > f && git add f && git commit -q -m one && echo y >> f && git commit -qam two && git status --short && git diff HEAD~1 --stat && git log --oneline | wc -l && git checkout -q -b side && git stash list && git gc -q && git clone -q . ../clone && echo done`, "done", ""},
	{"make", "make", `printf 'all: f\n\techo made\nf:\n\ttouch f\n' > Makefile && make -j2`, "made", ""},
	{"gcc", "gcc", `printf '#include <stdio.h>\nint main(void){puts("compiled");return 0;}\n' > h.c && gcc -o h h.c && ./h`, "compiled", ""},
	{"python", "/usr/bin/python3", `/usr/bin/python3 -c 'import json,os,subprocess,threading,tempfile,concurrent.futures as f
ex=f.ThreadPoolExecutor(4); print(sum(ex.map(int,range(10))))
tempfile.NamedTemporaryFile().write(b"x"); print(subprocess.run(["echo","done"],capture_output=True,text=True).stdout, os.getuid())'`, "done", ""},
	{"node", "node", `node -e 'const fs=require("fs"),cp=require("child_process");fs.writeFileSync("n.js","console.log(\"child\")");console.log(cp.execFileSync(process.execPath,["n.js"]).toString(),require("os").cpus().length>0,"done")'`, "done", ""},
	{"npm", "npm", `printf '{"name":"p","version":"1.0.0","scripts":{"test":"node t.js","build":"echo built"}}' > package.json && echo 'require("assert")(true);console.log("tested")' > t.js &&
mkdir dep && printf '{"name":"dep","version":"1.0.0","main":"i.js"}' > dep/package.json && echo 'module.exports="dependency"' > dep/i.js && npm install --offline --no-audit --no-fund --silent ./dep && npm test --silent && node -e 'console.log(require("dep"), "done")'`, "dependency done", ""},
	{"python with files", "/usr/bin/python3", `/usr/bin/python3 -c 'import sqlite3,os,shutil,mmap,fcntl,multiprocessing as m,unittest
d=sqlite3.connect("d.db"); d.execute("create table t(a)"); d.execute("insert into t values(1)"); d.commit(); print(d.execute("select * from t").fetchall())
os.makedirs("x/y"); open("x/y/z","w").write("z"); shutil.copytree("x","c"); os.rename("c","e"); shutil.rmtree("x")
q=m.Pipe(); p=m.Process(target=lambda c: c.send("done"), args=(q[1],)); p.start(); print(q[0].recv()); p.join()'`, "done", ""},
	{"ripgrep", "rg", `mkdir -p s/t && echo needle > s/t/f && echo hay > s/g && rg -n needle && rg --files | wc -l`, "needle", ""},
	{"a server of python", "/usr/bin/python3", `echo served > f; /usr/bin/python3 -c 'import http.server,threading,urllib.request
s=http.server.ThreadingHTTPServer(("127.0.0.1",0),http.server.SimpleHTTPRequestHandler); threading.Thread(target=s.serve_forever,daemon=True).start()
print(urllib.request.urlopen("http://localhost:%d/f"%s.server_address[1]).read().decode())'`, "served", ownNetwork},
	{
		"a server of node", "node",
		`node -e 'const h=require("http");const s=h.createServer((q,r)=>r.end("served"));s.listen(0,"127.0.0.1",()=>fetch("http://localhost:"+s.address().port).then(r=>r.text()).then(x=>{console.log(x,Object.keys(require("os").networkInterfaces()).join());process.exit(0)}))'`, "served lo", ownNetwork,
	},
	{
		"watching files", "node",
		`mkdir w; node -e 'const fs=require("fs");const w=fs.watch("w",()=>{console.log("seen");process.exit(0)});setTimeout(()=>fs.writeFileSync("w/f","x"),50);setTimeout(()=>process.exit(3),3000)'`, "seen", ownFiles,
	},
	{"perl", "perl", `perl -MFile::Temp=tempfile -e 'my($f,$n)=tempfile(); print $f "x"; close $f; print "done\n" if -s $n'`, "done", ""},
}

// everydayWork is what people and agents do all day. It must succeed.
func everydayWork(t *testing.T, b *bench) {
	if b.thorough(t) {
		b.eachTask(t)
	} else {
		b.allTasks(t)
	}
	b.dir(t, b.ws+"/many")
	many := "1000"
	if b.thorough(t) {
		many = "10000"
		manyThreads(t, b)
		goBuild(t, b)
	}
	b.allow(t, "many "+b.ws+"/many "+many, "threads 100", "fsync "+b.ws+"/synced", "children 20", "clock", "random", "pair")
	b.works(t, order{argv: []string{b.probe, "execs", "100"}})
	if e := b.works(t, order{argv: []string{"cat"}, stdin: "through"}); e.stdout != "through" {
		t.Errorf("stdin: %q", clip(e.stdout))
	}
	ownRepository(t, b)
}

var taskEnv = []string{"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.org"}

// eachTask runs every task by itself.
func (b *bench) eachTask(t *testing.T) {
	for _, k := range tasks {
		t.Run(k.name, func(t *testing.T) {
			if !k.possible(t) {
				return
			}
			b.dir(t, b.ws+"/work")
			defer func() { _ = os.RemoveAll(b.ws + "/work") }()
			e := b.run(t, order{argv: []string{"sh", "-c", k.script}, env: taskEnv, cwd: "/work"})
			b.accept(t, k, e.Code == 0 && e.Signal == "" && e.Limit == "", e.stdout, e.stderr)
		})
	}
}

// heavy are programs that take their time to start.
var heavy = []string{"npm", "node", "gcc", "/usr/bin/python3"}

// allTasks runs the quick ones one after the other in one run.
func (b *bench) allTasks(t *testing.T) {
	b.dir(t, b.ws+"/work")
	for i, k := range tasks {
		if !slices.Contains(heavy, k.needs) && k.possible(t) {
			b.file(t, fmt.Sprintf("work/%d.sh", i), k.script)
		}
	}
	const script = `for s in *.sh; do n=${s%.sh}; mkdir $n; (cd $n && exec sh ../$s > ../out$n 2> ../err$n) && echo > ok$n; done; true`
	b.works(t, order{argv: []string{"sh", "-c", script}, env: taskEnv, cwd: "/work", slow: true})
	for i, k := range tasks {
		dir := b.ws + "/work/"
		out, err := os.ReadFile(fmt.Sprintf("%sout%d", dir, i))
		if err != nil && (slices.Contains(heavy, k.needs) || !k.possible(t)) {
			continue
		}
		said, _ := os.ReadFile(fmt.Sprintf("%serr%d", dir, i))
		_, err = os.Stat(fmt.Sprintf("%sok%d", dir, i))
		b.accept(t, k, err == nil, string(out), string(said))
	}
}

// possible reports whether the host has what a task needs.
func (k task) possible(t *testing.T) bool {
	t.Helper()
	_, err := exec.LookPath(k.needs)
	if err != nil {
		t.Logf("UNPROVEN HERE: %s is not installed", k.needs)
	}
	return err == nil
}

// accept judges a task: it must have worked, or failed where the tier lacks what it needs.
func (b *bench) accept(t *testing.T, k task, ok bool, stdout, stderr string) {
	t.Helper()
	if (k.own != "" && b.lacks(t, k.own)) || b.lacks(t, "work: "+k.name) {
		if ok {
			t.Errorf("%s: the tier is said to lack what this needs, but it works: %q", k.name, clip(stdout))
		}
		return
	}
	if !ok || !strings.Contains(stdout, k.prints) {
		t.Errorf("%s: stdout %q, stderr %q", k.name, clip(stdout), clip(stderr))
	}
}

// unhurried reports whether the suite takes its time, as 'make faults' does.
func unhurried(t *testing.T) bool {
	t.Helper()
	return tries(t) >= 100
}

// thorough reports whether what takes seconds is done for this identity, and attempts one by one, with their
// controls: always where the suite takes its time, else for an ordinary user.
func (b *bench) thorough(t *testing.T) bool {
	t.Helper()
	return !b.hasty && (unhurried(t) || os.Geteuid() != 0)
}

// manyThreads: a thread's stack is address space, not memory; a memory limit that refuses it is another limit.
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
