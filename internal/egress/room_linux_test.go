package egress

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"palyra"
)

const roomEnv = "PALYRA_EGRESS_ROOM"

// The shape that the guard has in the product: it stands in one network, its
// doors in another, from which nothing else leads out, and real programs use
// them. The test runs itself anew as the root of namespaces of its own, which
// works for any user.
func TestRealClientsInANetworkOfTheirOwn(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "-test.run=^TestInARoom$", "-test.v")
	cmd.Env = append(os.Environ(), roomEnv+"=1", "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS: TestInARoom")) {
		t.Fatalf("%v\n%s", err, out)
	}
}

// room is a network with the doors of a session in it.
type room struct {
	*testing.T
	env []string
}

func TestInARoom(t *testing.T) {
	if os.Getenv(roomEnv) == "" {
		return // it is run by the test above
	}
	r := &room{T: t}
	r.must(exec.Command("ip", "link", "set", "lo", "up").CombinedOutput())
	g, w := newGuard(t, Config{})
	g.base = firstSynthetic
	w.name("repo.example", "127.0.0.1")
	secure, ca := site(t, "good.example")
	w.at(443, secure.Listener.Addr())
	w.at(80, r.repository())
	w.at(8080, r.plain())
	s, err := g.Open(t.Context(), nil, planFor("good.example:443", "good.example:80", "repo.example:80", "good.example:8080"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	dir := t.TempDir()
	roots := filepath.Join(dir, "roots.pem")
	r.write(roots, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.cert.Certificate[0]})))
	r.resolver(dir)
	r.env = append(s.Env(), "PATH="+os.Getenv("PATH"), "HOME="+dir, "CURL_CA_BUNDLE="+roots, "SSL_CERT_FILE="+roots,
		"NODE_EXTRA_CA_CERTS="+roots, "GIT_TERMINAL_PROMPT=0")
	done := make(chan struct{})
	go func() { // the thread of this goroutine is in another network, and ends with it
		defer close(done)
		runtime.LockOSThread()
		r.inside(s, dir)
	}()
	<-done
	flows, _ := s.Close()
	for _, door := range []string{doorDirect, doorConnect, doorHTTP, doorSOCKS} {
		found := false
		for _, f := range flows {
			found = found || f.Door == door && f.Verdict == palyra.FlowAllowed && f.In > 0 && f.Out > 0
		}
		if !found {
			t.Errorf("nothing went through %s", door)
		}
	}
	if _, dials := w.seen(); len(dials) == 0 {
		t.Error("nothing was dialled")
	}
	t.Logf("%d flows", len(flows))
}

func (r *room) must(out []byte, err error) {
	r.Helper()
	if err != nil {
		r.Fatalf("%v: %s", err, out)
	}
}

func (r *room) write(name, text string) {
	r.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		r.Fatal(err)
	}
}

// resolver makes programs ask the session's name server.
func (r *room) resolver(dir string) {
	name := filepath.Join(dir, "resolv.conf")
	r.write(name, "nameserver 198.18.0.1\noptions timeout:2\n")
	if err := unix.Mount(name, "/etc/resolv.conf", "", unix.MS_BIND, ""); err != nil {
		r.Fatal(err)
	}
}

// repository serves a git repository over plain HTTP, and everything else too.
func (r *room) repository() net.Addr {
	dir := r.TempDir()
	r.must(exec.Command("sh", "-c", "cd "+dir+` && export HOME=. GIT_CONFIG_NOSYSTEM=1 && git init -q work && cd work &&
		git -c user.name=a -c user.email=a@b.example commit -q --allow-empty -m first && git clone -q --bare . ../repo.git && cd ../repo.git && git update-server-info`).CombinedOutput())
	files := http.FileServer(http.Dir(dir))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if strings.HasPrefix(q.URL.Path, "/repo.git") {
			files.ServeHTTP(w, q)
			return
		}
		_, _ = fmt.Fprintf(w, "host=%s path=%s", q.Host, q.URL)
	}))
	r.Cleanup(srv.Close)
	return srv.Listener.Addr()
}

func (r *room) plain() net.Addr {
	srv, _ := site(r)
	return srv.Listener.Addr()
}

// inside makes the doors' network and runs the programs in it.
func (r *room) inside(s *Session, dir string) {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		r.Error(err)
		return
	}
	for _, args := range [][]string{{"link", "set", "lo", "up"}, {"route", "add", "local", "198.18.0.0/15", "dev", "lo"}} {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			r.Errorf("%v: %s", err, out)
			return
		}
	}
	var files []*os.File
	for _, d := range s.Doors() {
		f, err := roomSocket(d.UDP, d.Addr)
		if err != nil {
			r.Errorf("%v: %v", d, err)
			return
		}
		files = append(files, f)
	}
	if err := s.Serve(files); err != nil {
		r.Error(err)
		return
	}
	r.reach(dir)
	r.fail()
}

func roomSocket(udp bool, at netip.AddrPort) (*os.File, error) {
	if udp {
		c, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(at))
		if err != nil {
			return nil, err
		}
		defer c.Close()
		return c.File()
	}
	l, err := net.ListenTCP("tcp4", net.TCPAddrFromAddrPort(at))
	if err != nil {
		return nil, err
	}
	defer l.Close()
	return l.File()
}

func (r *room) run(args ...string) (string, error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = r.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

const (
	curl = "curl -sS --max-time 20 "
	js   = `fetch(process.argv[1]).then(r => r.text()).then(t => console.log(t), e => { console.log(e.cause); process.exit(1) })`
	py   = `import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=20).read().decode())`
)

// reach has what must work.
func (r *room) reach(dir string) {
	for _, tc := range []struct{ args, want string }{
		{curl + "https://good.example/a", "host=good.example path=/a"},
		{curl + "http://good.example/b", "host=good.example path=/b"},
		{curl + "http://good.example:8080/c", "host=good.example:8080 path=/c"},
		{curl + "--noproxy * https://good.example/d", "path=/d"},
		{curl + "--noproxy * http://good.example/e http://good.example/f", "path=/f"},
		{curl + "--noproxy * http://good.example:8080/g", "path=/g"},
		{curl + "--http2 --noproxy * http://good.example/h", "path=/h"},
		{curl + "--noproxy * -d x=y http://good.example/i http://good.example/i2", "path=/i2"},
		{curl + "-x " + r.socks("socks5h") + " https://good.example/j", "path=/j"},
		{curl + "-x " + r.socks("socks5") + " https://good.example/k", "path=/k"}, // the synthetic address instead of the name
		{curl + "--proxy-anyauth https://good.example/l", "path=/l"},
		{curl + "--tlsv1.3 --noproxy * https://good.example/m", "path=/m"},
		{curl + "--tls-max 1.2 --noproxy * https://good.example/n", "path=/n"},
		{curl + "--curves P-384:P-256 --noproxy * https://good.example/o", "path=/o"},
		{"git ls-remote http://repo.example/repo.git", "HEAD"},
		{"git clone -q http://repo.example/repo.git " + dir + "/clone", ""},
		{"git -c http.proxy= clone -q http://repo.example/repo.git " + dir + "/direct", ""},
		{"node|-e|" + js + "|https://good.example/p", "path=/p"},
		{"node|-e|" + js + "|http://good.example:8080/q", "path=/q"},
		{"/usr/bin/python3|-c|" + py + "|https://good.example/r", "path=/r"},
		{"/usr/bin/python3|-c|import os\nfor k in list(os.environ):\n  if 'proxy' in k.lower(): del os.environ[k]\n" + py +
			"|https://good.example/s", "path=/s"},
		{"wget -q --ca-certificate=" + dir + "/roots.pem -O - https://good.example/t", "path=/t"},
	} {
		args := splitArgs(tc.args)
		if _, err := exec.LookPath(args[0]); err != nil {
			r.Logf("%s is not installed here", args[0])
			continue
		}
		if out, err := r.run(args...); err != nil || !strings.Contains(out, tc.want) {
			r.Errorf("%s: %v\n%s", tc.args, err, out)
		}
	}
}

// fail has what must not.
func (r *room) fail() {
	for _, args := range []string{
		curl + "-f https://evil.example/", curl + "-f http://evil.example/", curl + "-f --noproxy * https://evil.example/",
		curl + "-f --noproxy * http://evil.example/",
		curl + "--noproxy * http://169.254.169.254/", curl + "-f http://169.254.169.254/", curl + "--noproxy * http://127.0.0.1/",
		curl + "-f -x " + r.socks("socks5h") + " http://127.0.0.1:80/",
		curl + "-f --noproxy * http://198.18.77.7/", curl + "-f --noproxy * -H Host:evil.example http://good.example/",
		curl + "-f -H Host:evil.example http://good.example/",
		curl + "-k --noproxy * --connect-to evil.example:443:good.example:443 https://evil.example/",
		curl + "-k --connect-to evil.example:443:good.example:443 https://evil.example/",
		curl + "-k --noproxy * https://198.18.0.16/", curl + "--http2-prior-knowledge --noproxy * http://good.example/",
		curl + "-f -x http://198.18.0.1:3128 http://good.example/",
		curl + "-f -x http://palyra:wrong@198.18.0.1:3128 http://good.example/", curl + "-f -x socks5h://198.18.0.1:3128 http://good.example/",
		curl + "-f https://good.example:8443/",
		curl + "-f http://2130706433/", curl + "-f telnet://good.example:25",
		"node|-e|" + js + "|https://evil.example/",
		"/usr/bin/python3|-c|import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b'x', ('8.8.8.8', 53))",
		"/usr/bin/python3|-c|import socket; s = socket.socket(socket.AF_INET6, socket.SOCK_STREAM); s.connect(('2606:4700::1', 443))",
		"/usr/bin/python3|-c|import socket; s = socket.socket(socket.AF_INET, socket.SOCK_STREAM); s.connect(('198.18.0.16', 22))",
	} {
		list := splitArgs(args)
		if _, err := exec.LookPath(list[0]); err != nil {
			continue
		}
		if out, err := r.run(list...); err == nil || strings.Contains(out, "host=") {
			r.Errorf("%s: %s", args, out)
		}
	}
	if out, _ := r.run(splitArgs(curl + "http://evil.example/")...); !strings.Contains(out, `"reason_code":"egress_denied"`) ||
		!strings.Contains(out, `"host":"evil.example"`) {
		r.Errorf("%s", out)
	}
}

func splitArgs(s string) []string {
	if strings.Contains(s, "|") {
		return strings.Split(s, "|")
	}
	return strings.Fields(s)
}

func (r *room) socks(scheme string) string {
	for _, v := range r.env {
		if s, ok := strings.CutPrefix(v, "ALL_PROXY=http"); ok {
			return scheme + s
		}
	}
	return ""
}
