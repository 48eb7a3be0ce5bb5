package confine

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// everyday is what people do all day. Each must work inside as it does outside.
var everyday = []struct {
	name, needs, script, want string
}{
	{"shell", "sh", `for i in 1 2 3; do echo $((i*i)); done | tail -1`, "9"},
	{"bash process substitution", "bash", `bash -c 'diff <(echo a) <(echo a) && echo same'`, "same"},
	{"here document", "bash", "bash -c 'cat <<X\nhi\nX'", "hi"},
	{"coreutils", "sort", `mkdir -p a/b && touch a/x && cp -a a c && mv c/x c/y && ls c | sort && ln -s y c/z && cat c/z && rm -r c a && stat -c %a . >/dev/null && date +%Y >/dev/null && echo ok`, "ok"},
	{
		"move and link between directories", "ln", `mkdir sub && echo m > f && ln f sub/hard && mv f sub/moved && rm sub/hard && cat sub/moved`,
		"m",
	},
	{"find and xargs", "find", `mkdir d && for i in 1 2 3; do echo $i > d/$i; done; find d -type f | xargs cat | wc -l`, "3"},
	{"sed, awk, grep", "awk", `printf 'a 1\nb 2\n' > f; sed -i s/a/z/ f; grep -c z f; awk '{s+=$2} END {print s}' f`, "3"},
	{"tar", "tar", `mkdir t && echo x > t/x && tar czf t.tgz t && rm -r t && tar xzf t.tgz && cat t/x`, "x"},
	{"chmod and run what was made", "sh", `printf '#!/bin/sh\necho made\n' > m && chmod +x m && ./m`, "made"},
	{"temporary files", "mktemp", `f=$(mktemp) && echo t > $f && cat $f && case $f in $TMPDIR/*) ;; *) echo $f;; esac`, "t"},
	{"home", "sh", `echo h > ~/x && cat ~/x`, "h"},
	{"devices", "head", `head -c 4 /dev/urandom | wc -c; echo x > /dev/null; head -c 2 /dev/zero | wc -c`, "2"},
	{"who am I", "id", `id -un >/dev/null; id -u >/dev/null && echo ok`, "ok"},
	{"own process", "cat", `cat /proc/self/comm`, "cat: /proc/self/comm: Permission denied"}, // a child's is not the launcher's
	{"git", "git", `git init -q . && git config user.email a@b && git config user.name n && echo a > a && git add a && git commit -qm one && git status --short | wc -l && git log --oneline | wc -l && echo b >> a && git diff --stat | tail -1 | grep -c insertion && git checkout -q -b other && git branch | wc -l`, "2"},
	{"python", "/usr/bin/python3", `/usr/bin/python3 -c 'import json,os,sys,subprocess,tempfile,threading,random,ssl
t=threading.Thread(target=lambda:None);t.start();t.join()
tempfile.TemporaryFile().close()
print(subprocess.run(["echo","p"],capture_output=True,text=True).stdout.strip())'`, "p"},
	{"python asyncio", "/usr/bin/python3", `/usr/bin/python3 -c 'import asyncio
async def f():
    p=await asyncio.create_subprocess_exec("echo","q",stdout=asyncio.subprocess.PIPE);print((await p.communicate())[0].decode().strip())
asyncio.run(f())'`, "q"},
	{"perl", "perl", `perl -MFile::Temp -MPOSIX -e 'print join(",", map { $_*2 } 1..3), "\n"'`, "2,4,6"},
	{"node", "node", `node -e 'const c=require("child_process"),fs=require("fs"),{Worker}=require("worker_threads");fs.writeFileSync("n","1");new Worker("1",{eval:true}).on("exit",()=>console.log(c.execSync("echo n").toString().trim()))'`, "n"},
	{"make", "make", `printf 'all: x\n\t@echo made\nx:\n\t@touch x\n' > Makefile && make -j2`, "made"},
	{"gcc", "gcc", `echo 'int main(void){puts("c");}' > c.c && gcc -w -include stdio.h -pthread -o c c.c && ./c`, "c"},
	// The suite of all tiers links and tests a program; here nothing of the library is compiled.
	{"go", "go", `mkdir g && cd g && printf 'module m\ngo 1.20\n' > go.mod && printf 'package m\nfunc F() int { return 1 }\n' > m.go && go build . && go list -export -f '{{.Name}}' .`, "m"},
}

func TestEverydayPrograms(t *testing.T) {
	c := config(t)
	c.Warm = 1
	b := open(t, c)
	for _, e := range everyday {
		t.Run(e.name, func(t *testing.T) {
			if _, err := exec.LookPath(e.needs); err != nil {
				t.Skipf("UNPROVEN HERE: there is no %s on this machine", e.needs)
			}
			s := newStage(t)
			code, out := s.script(b, e.script)
			lines := strings.Split(out, "\n")
			if last := lines[len(lines)-1]; last != e.want || (code != 0 && !strings.Contains(e.want, "denied")) {
				t.Errorf("exit %d, printed:\n%s", code, out)
			}
		})
	}
}

func TestManySmallFilesAndOddNames(t *testing.T) {
	s := newStage(t)
	b := open(t, config(t))
	if code, out := s.script(b,
		`i=0; while [ $i -lt 2000 ]; do : > f$i; i=$((i+1)); done; ls | wc -l; : > "$(printf 'a b\n\342\230\203')"; ls | wc -l`); code != 0 ||
		!strings.HasPrefix(out, "2000") {
		t.Errorf("exit %d: %s", code, out)
	}
	if n, err := os.ReadDir(s.workspace); err != nil || len(n) != 2001 {
		t.Errorf("%d files, %v", len(n), err)
	}
}
