package e2e

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"palyra"
	"palyra/client"
	"palyra/secrets"
)

// planted is how many secrets there are, and lentNow how many of them a run is lent at once.
const (
	planted = 1000
	lentNow = 12
)

// plantedValue is a secret of one of the shapes that services give out.
func plantedValue(i int) string {
	raw := make([]byte, 24)
	_, _ = rand.Read(raw)
	text, digits := base64.RawURLEncoding.EncodeToString(raw), hex.EncodeToString(raw)
	switch i % 10 {
	case 0:
		return "ghp_" + digits[:36]
	case 1:
		return "sk-proj-" + text
	case 2:
		return digits
	case 3:
		return base64.StdEncoding.EncodeToString(raw)
	case 4:
		return "correct horse " + text[:9] + " battery/" + text[9:20] + "+&=%"
	case 5:
		return "-----BEGIN PRIVATE KEY-----\n" + strings.Repeat(text+text+"\n", 6) + "-----END PRIVATE KEY-----\n"
	case 6:
		return `{"type":"service_account","key":"` + text + `","n":` + strconv.Itoa(i) + `}`
	case 7:
		return "postgres://user:" + text + "@db.example/app"
	case 8:
		return "pässwörd-" + text + "-ünïcode"
	}
	return text[:13]
}

// needles finds many texts at once.
type needles struct {
	of    map[[8]byte][]needle
	sieve [1 << 17]uint64
}

type needle struct{ text, name string }

func needlesOf(values map[string]string) *needles {
	n := &needles{of: map[[8]byte][]needle{}}
	for name, v := range values {
		for _, f := range append(forms(v), strings.TrimSpace(v)) {
			if len(f) < 12 {
				continue
			}
			k := [8]byte([]byte(f))
			n.of[k] = append(n.of[k], needle{f, name})
			h := place(k[:])
			n.sieve[h/64] |= 1 << (h % 64)
		}
	}
	return n
}

// place is where the sieve has the beginning of a text.
func place(b []byte) uint64 { return binary.LittleEndian.Uint64(b) * 0x9e3779b97f4a7c15 >> (64 - 23) }

// in returns the names of what is in b.
func (n *needles) in(b []byte) (found []string) {
	for i := 0; i+8 <= len(b); i++ {
		if h := place(b[i:]); n.sieve[h/64]>>(h%64)&1 == 0 {
			continue
		}
		for _, one := range n.of[[8]byte(b[i:i+8])] {
			if bytes.HasPrefix(b[i:], []byte(one.text)) {
				found = append(found, one.name)
			}
		}
	}
	return found
}

// children are the processes that a process started, and theirs: of a daemon the cells and all that is in rooms.
func children(of int) (all []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	parent := map[int]int{}
	for _, path := range stats {
		b, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		after := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		parent[pid], _ = strconv.Atoi(after[1])
	}
	for pid := range parent {
		for p, n := pid, 0; p != 0 && n < 100; p, n = parent[p], n+1 {
			if p == of && pid != of {
				all = append(all, pid)
				break
			}
		}
	}
	return all
}

// memory looks through the memory and the environment of a process, and returns what it found and how much that was.
func (n *needles) memory(pid int) (found []string, size int) {
	for _, name := range []string{"environ", "cmdline"} {
		if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name)); err == nil {
			found = append(found, n.in(b)...)
		}
	}
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return found, 0
	}
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return found, 0
	}
	defer func() { _ = mem.Close() }()
	for line := range strings.Lines(string(maps)) {
		var from, to int64
		var mode string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &mode); err != nil || mode[0] != 'r' || strings.Contains(line, "[v") {
			continue
		}
		for at := from; at < to; at += 4 << 20 { // the next part begins again with the end of this one
			b := make([]byte, min(to-at, 4<<20+8<<10))
			k, _ := mem.ReadAt(b, at)
			found, size = append(found, n.in(b[:k])...), size+k
		}
	}
	return found, size
}

// files looks through all files below a directory.
func (n *needles) files(t *testing.T, dir string) (found []string, count int) {
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil || !info.Mode().IsRegular() {
			return nil // it went meanwhile
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return nil
		}
		count++
		for _, name := range append(n.in(b), n.in([]byte(path))...) {
			found = append(found, path+": "+name)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return found, count
}

// plant puts the secrets into the vault.
func (d *daemon) plant() map[string]string {
	d.t.Helper()
	values := map[string]string{}
	for i := range planted {
		values[fmt.Sprintf("planted-%d", i)] = plantedValue(i)
	}
	var all sync.WaitGroup
	for worker := range 4 {
		c := d.client(client.OperatorDoor)
		all.Go(func() {
			for i := worker; i < planted; i += 4 {
				name := fmt.Sprintf("planted-%d", i)
				if _, err := c.PutSecret(d.t.Context(), secrets.Value{
					Scope: "global", Name: name, Value: palyra.NewSecret([]byte(values[name])),
				}); err != nil {
					d.t.Error(name, err)
					return
				}
			}
		})
	}
	all.Wait()
	return values
}

// busyProgram is what runs in the rooms: it uses all that it was lent, shows what it has, fails in its own ways, and then holds
// still, with a request under way, to be looked at.
const busyProgram = `import json, os, subprocess, sys, urllib.request, urllib.error
url = sys.argv[1]
for i in range(int(sys.argv[2])):
    key = os.environ["LENT_%d" % i]
    r = urllib.request.Request(url + "/use/%d" % i, headers={"X-Key-%d" % i: "Bearer " + key, "X-Elsewhere": key})
    try: print(urllib.request.urlopen(r).read().decode())
    except urllib.error.HTTPError as e: print(e, e.headers, e.read())
print(open(".env").read(), open("prod.link").read(), dict(os.environ))
subprocess.run("cat .env prod.link; env; set; python3 -c 'import os; raise Exception(os.environ)'; curl -sv -H \"X-Key-0: $LENT_0\" " + url +
    "/curl; curl -s -d @.env " + url + "/body; ls -la; cat /nowhere", shell=True)
kept = [bytes(v, "utf8") for v in os.environ.values()]
print(urllib.request.urlopen(urllib.request.Request(url + "/hold", headers={"X-Key-0": os.environ["LENT_0"]})).read().decode())
raise Exception(os.environ["LENT_1"])
`

// plantedService echoes all that it is sent, and has "/hold" wait.
type plantedService struct {
	*service
	held, release chan struct{}
	got           sync.Map
}

// ServeHTTP implements http.Handler.
func (s *plantedService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	for name, values := range r.Header {
		if strings.HasPrefix(name, "X-Key-") {
			s.got.Store(strings.TrimPrefix(values[0], "Bearer "), true)
		}
	}
	if r.URL.Path == "/hold" {
		s.held <- struct{}{}
		<-s.release
	}
	if strings.HasPrefix(r.URL.Path, "/use/1") {
		w.WriteHeader(http.StatusTeapot)
	}
	_, _ = fmt.Fprintf(w, "%s %v %s", r.URL, r.Header, body)
}

// Of 1,000 secrets none is found: not in the memory or the environments of what runs in rooms, not in a file of the daemon's,
// its journal or its log, whatever was done with them; also when the daemon crashes. One that is put in sight is found.
func TestPlantedSecretsAreNowhere(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("UNPROVEN HERE: only root may look into the memory of others")
	}
	d := newDaemon(t)
	s := &plantedService{held: make(chan struct{}, 4), release: make(chan struct{})}
	s.service = serviceOf(t, s)
	d.ownWork()
	crashes := t.TempDir()
	env := append([]string{
		"PALYRA_EGRESS_RESOLVER=" + nameServer(t), "PALYRA_EGRESS_PRIVATE_RANGES=127.0.0.0/8", "PALYRA_EGRESS_ASK=off",
		"SSL_CERT_FILE=" + s.ca, "PALYRA_LOG_LEVEL=debug", "GOTRACEBACK=crash",
	}, unlimited...)
	d.env = env
	d.command("/bin/sh", "-c", "ulimit -c unlimited; cd "+crashes+" && exec "+bin(t, "palyrad"))
	if !d.serving() {
		t.Fatal(d.log)
	}
	d.inWorkspace()
	values := d.plant()
	var dotenv strings.Builder
	dotenv.WriteString("PORT=8731\n")
	for i := range 60 {
		if v := values[fmt.Sprintf("planted-%d", 10*i+2)]; true {
			fmt.Fprintf(&dotenv, "KEY_%d=%s\n", i, v)
		}
	}
	d.put(".env", dotenv.String())
	d.put("prod.env", dotenv.String())
	if err := os.Symlink("prod.env", filepath.Join(d.work, "prod.link")); err != nil {
		t.Fatal(err)
	}
	var bindings []string
	for i := range lentNow {
		name := fmt.Sprintf("lent-%d", i)
		bindings = append(bindings, name)
		d.mustVault("", "bind", name, "--secret", fmt.Sprintf("planted-%d", 10*i), "--host", s.at, "--header", fmt.Sprintf("X-Key-%d", i),
			"--env", fmt.Sprintf("LENT_%d", i))
	}
	control := "in-sight-" + plantedValue(2)
	all := needlesOf(values)
	visible := needlesOf(map[string]string{"control": control})

	// Two rooms hold still, one with a value in sight.
	d.put("busy.py", busyProgram)
	d.put("control.txt", control)
	outs := make(chan palyra.Outcome, 2)
	line := fmt.Sprintf("%s python3 busy.py https://%s %d", "%s", s.at, lentNow)
	for _, before := range []string{"", `SEEN="$(cat control.txt)"; export SEEN; `} {
		r := d.using(bindings, fmt.Sprintf(line, before))
		go func() {
			out, _ := d.agreed(r)
			outs <- out
		}()
		select {
		case <-s.held:
		case <-time.After(waitMost):
			t.Fatalf("the run does not come to its end:\n%s", d.log)
		}
	}
	looked, size, seen := 0, 0, 0
	for _, pid := range children(d.cmd.Process.Pid) {
		found, n := all.memory(pid)
		if looked, size = looked+1, size+n; len(found) > 0 {
			cmd, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			t.Errorf("process %d (%.60q) has %q", pid, cmd, found[:min(5, len(found))])
		}
		if seen == 0 {
			if found, _ := visible.memory(pid); len(found) > 1 { // environment and memory
				seen++
			}
		}
	}
	if looked < 6 || size < 20<<20 || seen == 0 {
		t.Errorf("%d processes, %d bytes were looked at; what is in sight was seen %d times", looked, size, seen)
	}
	t.Logf("%d processes, %d MiB", looked, size>>20)
	close(s.release)
	for range 2 {
		out := <-outs
		text, _ := json.Marshal(out)
		if found := append(all.in([]byte(out.Stdout+out.Stderr)), all.in(text)...); len(found) > 0 || !strings.Contains(out.Stdout, "/use/11") ||
			!strings.Contains(out.Stderr, "Exception") {
			t.Errorf("the run tells %q: %s %s\n%.3000s", found, out.Outcome, out.Reason, out.Stdout+out.Stderr)
		}
	}
	for i := range lentNow {
		if _, ok := s.got.Load(strings.TrimSpace(values[fmt.Sprintf("planted-%d", 10*i)])); !ok {
			t.Errorf("the server did not see secret %d", 10*i)
		}
	}
	d.everySurface(t, all, values)
	d.crashed(t, all, crashes, env)

	found, count := all.files(t, d.home)
	if len(found) > 0 || count < 5 {
		t.Errorf("%d files, found %q", count, found)
	}
	if found, _ := all.files(t, crashes); len(found) > 0 {
		t.Errorf("found %q", found)
	}
	hidden := filepath.Join(d.home, "hidden") // the search finds what is there
	d.write(hidden, "x"+base64.StdEncoding.EncodeToString([]byte("..."+values["planted-42"])), 0o600)
	if found, _ := all.files(t, d.home); len(found) == 0 || !strings.Contains(found[0], "hidden") {
		t.Errorf("the search finds nothing that is there: %q", found)
	}
}

// everySurface has people and agents do what can be done, and looks at all that they are shown.
func (d *daemon) everySurface(t *testing.T, all *needles, values map[string]string) {
	look := func(what string, text []byte) {
		t.Helper()
		if found := all.in(text); len(found) > 0 {
			t.Errorf("%s shows %q", what, found[:min(5, len(found))])
		}
	}
	for _, args := range [][]string{
		{"vault", "list"},
		{"vault", "list", "--json"},
		{"vault", "status"},
		{"vault", "bindings"},
		{"vault", "get", "missing"},
		{"vault", "delete", "missing"},
		{"vault", "bind", "x", "--secret", "planted-1"},
		{"vault", "rotate"},
		{"vault", "status", "--json"},
		{"tools", "call", "palyra.fs.read", "--input", `{"path":".env"}`},
		{"tools", "call", "palyra.fs.read", "--input", `{"path":"prod.link"}`},
		{"tools", "call", "palyra.fs.search", "--input", `{"pattern":"KEY"}`},
		{"exec", "--", "cat", ".env"},
		{"exec", "--", "cat", "prod.link"},
		{"journal", "export"},
		{"journal", "verify"},
		{"approvals", "export"},
		{"calls", "list", "--json"},
		{"config", "show"},
		{"doctor"},
		{"undo", "--list"},
	} {
		out, _ := d.palyra(args...).CombinedOutput()
		look("palyra "+strings.Join(args, " "), out)
	}
	if _, errs, err := d.vault(values["planted-3"], "put", "no good name/../x", "--from-stdin"); err == nil {
		t.Error("it was put")
	} else {
		look("a refused put", []byte(errs+err.Error()))
	}
	if _, errs, err := d.vault(values["planted-4"][:5], "put", "short", "--from-stdin"); err == nil {
		t.Error("it was put")
	} else {
		look("a refused put", []byte(errs))
	}
	if _, err := d.client(client.OperatorDoor).ExportVault(t.Context(), palyra.NewSecret([]byte("a recovery passphrase of this test")), true,
		newExport(t, filepath.Join(d.home, "export.age"))); err != nil {
		t.Error(err)
	}
	for _, name := range []string{".env", "prod.link"} {
		says, _, errs := d.hook(d.preToolUse("Read", map[string]any{"file_path": filepath.Join(d.work, name)}))
		look("the hook's Read of "+name, []byte(says.Specific.Reason+errs))
		if !strings.Contains(says.Specific.Reason, "PORT=8731") {
			t.Errorf("the hook's Read of %s: %+v %s", name, says, errs)
		}
	}
	look("MCP", d.overMCP(t))
	d.recordsLook(look)
	look("the log", d.log.Bytes())
}

// recordsLook looks through the journal and what attests the calls.
func (d *daemon) recordsLook(look func(string, []byte)) {
	d.t.Helper()
	attested := 0
	for _, e := range d.entries() {
		raw, _ := json.Marshal(e)
		look("the journal", raw)
		if e.Kind == "call.finished" {
			attested++
			out, _ := d.palyra("calls", "show", string(e.Call), "--json").CombinedOutput()
			look("calls show", out)
		}
	}
	if attested < 5 {
		d.t.Errorf("%d calls finished", attested)
	}
}

// overMCP is what a client over pipes is told: the tools, .env, a program that prints it, and errors.
func (d *daemon) overMCP(t *testing.T) []byte {
	cmd := exec.Command(bin(t, "palyra"), d.mcpArgs()...)
	var in bytes.Buffer
	for i, m := range []string{
		`"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}`,
		`"tools/list","params":{}`,
		`"tools/call","params":{"name":"palyra_fs_read","arguments":{"path":".env"}}`,
		`"tools/call","params":{"name":"palyra_fs_read","arguments":{"path":"prod.link"}}`,
		`"tools/call","params":{"name":"palyra_fs_read","arguments":{"path":"/nowhere"}}`,
		`"tools/call","params":{"name":"palyra_fs_write","arguments":{"path":".env","content":"x"}}`,
	} {
		fmt.Fprintf(&in, `{"jsonrpc":"2.0","id":%d,"method":%s}`+"\n", i+1, m)
	}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out safeBuffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = pipe.Write(in.Bytes())
	for start := time.Now(); strings.Count(out.String(), "PORT=8731") < 2 && time.Since(start) < waitMost; {
		<-time.After(20 * time.Millisecond)
	}
	_ = pipe.Close()
	_ = cmd.Process.Signal(os.Interrupt)
	_ = cmd.Wait()
	if got := out.String(); strings.Count(got, "PORT=8731") < 2 {
		t.Errorf("over MCP came %s", got)
	}
	return []byte(out.String())
}

// safeBuffer is one that many may use.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// String implements fmt.Stringer.
func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// newExport is a file for an export.
func newExport(t *testing.T, path string) *os.File {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// crashed has the daemon end in a crash that prints and dumps as much as it can: no memory is left behind, and nothing in what
// is printed.
func (d *daemon) crashed(t *testing.T, all *needles, dir string, env []string) {
	_ = d.cmd.Process.Signal(syscall.SIGQUIT)
	<-d.done
	if found := all.in(d.log.Bytes()); len(found) > 0 || !bytes.Contains(d.log.Bytes(), []byte("goroutine ")) {
		t.Errorf("the crash tells %q", found)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 || d.cmd.ProcessState.Sys().(syscall.WaitStatus).CoreDump() {
		t.Errorf("the crash leaves %v: %v, %v", left, d.cmd.ProcessState, err)
	}
	d.mustStart(env...)
	d.verify()
	if out, err := d.palyra("journal", "export").Output(); err != nil || len(all.in(out)) > 0 {
		t.Errorf("after the crash: %q %v", all.in(out), err)
	}
	d.stop()
	if found := all.in(d.log.Bytes()); len(found) > 0 {
		t.Errorf("the log tells %q", found)
	}
}
