package bwrap

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/sandbox/celltest"
)

// work is something that people do every day, and how it shows that it was done.
type work struct {
	needs  string // a program of the system; where the host lacks it there is nothing to prove
	script string
	want   string // is in what it prints
}

var everyday = []work{
	{"/usr/bin/git", `git init -q r && cd r && git config user.name a && git config user.email a@b && echo x >f && git add f && git commit -qm one && git status --short --branch && git log --oneline`, "one"},
	{"/usr/local/go/bin/go", `export PATH=/usr/local/go/bin:$PATH GOPROXY=off GOFLAGS=-mod=mod GOTOOLCHAIN=local
		printf 'module m\n' >go.mod; printf 'package main\nfunc main() { println("built") }\n' >main.go; go env GOOS`, "linux"},
	{"/usr/bin/node", `node -e 'const os=require("os"); require("fs").writeFileSync("/tmp/x", "y"); console.log("node", os.userInfo().username, os.cpus().length > 0, os.hostname())'`, "node agent true palyra"},
	{"/usr/bin/npm", `npm --version && npm config get cache`, "/home/agent/.npm"},
	{"/usr/bin/python3", `/usr/bin/python3 -c '
import ssl, socket, pwd, os, time, tempfile, locale, multiprocessing
assert len(ssl.create_default_context().get_ca_certs()) > 10
print(pwd.getpwuid(os.getuid()).pw_name, socket.getservbyname("https"), tempfile.gettempdir(), multiprocessing.cpu_count() > 0, socket.gethostbyname("localhost"))'`, "agent 443 /tmp True 127.0.0.1"},
	{"/usr/bin/python3", `/usr/bin/python3 -c 'import multiprocessing as m; q=m.Lock(); print("semaphore", q.acquire())'`, "semaphore True"},
	{"/usr/bin/gcc", `printf '#include <stdio.h>\n#include <math.h>\nint main(int c,char**v){printf("compiled %%d\\n",(int)sqrt(c*4.0));}' >a.c && gcc a.c -o a -lm && ./a`, "compiled 2"},
	{"/usr/bin/make", `printf 'all:\n\t@echo made $(shell uname)\n' >Makefile && make`, "made Linux"},
	{"/usr/bin/rg", `echo needle >hay && rg -n needle .`, "1:needle"},
	{"/usr/bin/curl", `curl -sS http://127.0.0.1:1/ 2>&1; curl --version | head -n 1`, "curl"},
	{
		"/usr/bin/curl", `openssl version -d; test -r /etc/ssl/openssl.cnf && test -s /etc/ssl/certs/ca-certificates.crt && echo certificates`,
		"certificates",
	},
	{"/usr/bin/perl", `perl -MPOSIX -MFile::Temp=tempfile -e '($h,$n)=tempfile(); print "perl $n ", getpwuid($<), "\n"'`, "perl /tmp/"},
	{"/usr/bin/java", `java -XX:-UsePerfData -version 2>&1 && echo ran`, "ran"},
	{"/usr/bin/locale", `LC_ALL=C.UTF-8 locale charmap`, "UTF-8"},
	{"/usr/bin/date", `TZ=Asia/Tokyo date -d @0 +%H:%M; date +%Z`, "09:00"},
	{
		"/usr/bin/getent", `getent services https; getent protocols tcp; getent passwd agent; getent group agent; getent hosts localhost`,
		"agent",
	},
	{"/usr/bin/tput", `TERM=xterm-256color tput colors`, "256"},
	{"/usr/bin/awk", `echo a b | awk '{print $2}'`, "b"},
	{"/usr/bin/vi", `readlink -f /usr/bin/vi`, "/usr/"},
	{"/usr/bin/df", `df / . >/dev/null && cat /etc/mtab | wc -l >/dev/null && echo mounts`, "mounts"},
	{"/bin/sh", `echo x | tee /dev/stderr /dev/null >/dev/stdout; head -c 4 /dev/urandom | wc -c; ls /dev/fd/ >/dev/null && echo descriptors`, "descriptors"},
	{"/bin/sh", `mkdir d && cd d && i=0; while [ $i -lt 300 ]; do : >"odd 'name' $i"; i=$((i+1)); done; ls | wc -l`, "300"},
}

func TestRoomEverydayWork(t *testing.T) {
	celltest.EachResident(t, func(t *testing.T, s celltest.Resident) {
		for _, w := range everyday {
			if _, err := os.Stat(w.needs); err != nil {
				t.Logf("%s is not on this host", w.needs)
				continue
			}
			r := newRoom(t, s)
			r.Tmp = 256 << 20
			a := inRoom(t, r, "export HOME=/home/agent TMPDIR=/tmp PATH=/usr/local/bin:/usr/bin:/bin; cd "+quote(r.Workspace)+"\n"+w.script)
			if a.err != nil || !strings.Contains(a.out, w.want) {
				t.Errorf("%s: %v\n%s%s", filepath.Base(w.needs), a.err, a.out, a.said)
			}
		}
	})
}
