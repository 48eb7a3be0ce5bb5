package e2e

import (
	"archive/zip"
	"bytes"
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// lookInside is what a run looks at before it does its work: its own environment and memory, and what other processes of the
// room show. The value is made there of two halves, so that what looks for it is not what it finds.
const lookInside = `import glob, os, sys
value = sys.argv[1] + sys.argv[2]
found = [n for n, v in os.environ.items() if value in v]
for path in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline"):
    try:
        if value.encode() in open(path, "rb").read(): found.append(path)
    except OSError: pass
for top, _, names in os.walk("."):
    for n in names:
        try:
            if value.encode() in open(os.path.join(top, n), "rb").read(): found.append(n)
        except OSError: pass
print("inside:", found)
`

// insideLine runs it.
func insideLine() string {
	return "/usr/bin/python3 inside.py " + lentValue[:15] + " " + lentValue[15:] + "; "
}

// registry answers npm and pip, and whoever else shows the token.
func (s *service) registry(w http.ResponseWriter, r *http.Request) bool {
	user, password, _ := r.BasicAuth()
	note := func(ok bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.seen = append(s.seen, fmt.Sprintf("%s %s %t", r.Method, r.URL.Path, ok))
	}
	switch path := r.URL.Path; {
	case strings.HasPrefix(path, "/npm/"):
		ok := r.Header.Get("Authorization") == "Bearer "+lentValue
		if note(ok); !ok {
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}
		if r.Method != http.MethodPut {
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, "{}")
			return true
		}
		body, _ := io.ReadAll(r.Body)
		if !bytes.Contains(body, []byte(`"_attachments"`)) {
			w.WriteHeader(http.StatusBadRequest)
			return true
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"ok":true}`)
	case strings.HasPrefix(path, "/simple/"):
		ok := user == "me" && password == lentValue
		if note(ok); !ok {
			w.Header().Set("WWW-Authenticate", `Basic realm="index"`)
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}
		if strings.HasSuffix(path, ".whl") {
			_, _ = w.Write(wheel())
			return true
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, `<!DOCTYPE html><html><body><a href="planted-1.0-py3-none-any.whl">planted-1.0-py3-none-any.whl</a></body></html>`)
	case strings.HasPrefix(path, "/api/v3/"):
		ok := r.Header.Get("Authorization") == "token "+lentValue
		if note(ok); !ok {
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"login":"me","echo":"`+lentValue+`"}`)
	case strings.HasPrefix(path, "/requests"):
		ok := user == "me" && password == lentValue
		if note(ok); !ok {
			w.WriteHeader(http.StatusUnauthorized)
		}
		_, _ = io.WriteString(w, "welcome "+password)
	case path == "/chat":
		s.chat(w, r, note)
	default:
		return false
	}
	return true
}

// wheel is a package of Python with one module.
func wheel() []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, f := range [][2]string{
		{"planted.py", "answer = 42\n"},
		{"planted-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: planted\nVersion: 1.0\n"},
		{"planted-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		{
			"planted-1.0.dist-info/RECORD",
			"planted.py,,\nplanted-1.0.dist-info/METADATA,,\nplanted-1.0.dist-info/WHEEL,,\nplanted-1.0.dist-info/RECORD,,\n",
		},
	} {
		w, _ := z.Create(f[0])
		_, _ = io.WriteString(w, f[1])
	}
	_ = z.Close()
	return b.Bytes()
}

// chat speaks WebSocket: the first message of a client must have the token. It sends the message back in two fragments, cut
// in the middle of the token.
func (s *service) chat(w http.ResponseWriter, r *http.Request, note func(bool)) {
	sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	fmt.Fprintf(rw, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n",
		base64.StdEncoding.EncodeToString(sum[:]))
	_ = rw.Flush()
	head := make([]byte, 6)
	if _, err := io.ReadFull(rw, head); err != nil || head[1]&0x80 == 0 || head[1]&0x7f > 125 {
		note(false)
		return
	}
	text := make([]byte, head[1]&0x7f)
	_, _ = io.ReadFull(rw, text)
	for i := range text {
		text[i] ^= head[2+i%4]
	}
	note(string(text) == `{"auth":"`+lentValue+`"}`)
	cut := 9 + len(lentValue)/2
	if len(text) <= cut {
		return
	}
	_, _ = conn.Write(append([]byte{0x01, byte(cut)}, text[:cut]...))
	_, _ = conn.Write(append([]byte{0x80, byte(len(text) - cut)}, text[cut:]...))
	_, _ = conn.Read(make([]byte, 1)) // the client ends it
}

// Clients as people use them log in through placeholders: the server sees the value, and nothing in the room does.
func TestSecretsAreLentToOrdinaryClients(t *testing.T) {
	t.Parallel()
	d, s := lending(t)
	for name, how := range map[string]string{
		"npm": "--header Authorization --env NPM_TOKEN", "hub": "--header Authorization --env GH_ENTERPRISE_TOKEN",
		"chat": "--websocket --env CHAT",
	} {
		d.mustVault("", append([]string{"bind", name, "--host", s.at, "--secret", "token"}, strings.Fields(how)...)...)
	}
	d.put("inside.py", lookInside)
	d.put("ask.py", `import os, requests
r = requests.get("https://`+s.at+`/requests", auth=("me", os.environ["LOGIN"]))
print(r.status_code, r.text)`)
	d.put("chat.js", `const ws = new WebSocket("wss://`+s.at+`/chat")
ws.onopen = () => ws.send(JSON.stringify({auth: process.env.CHAT}))
ws.onmessage = e => { console.log("chat says " + e.data); ws.close(); process.exit(0) }
ws.onerror = e => { console.log(e.message, e.error); process.exit(1) }`)
	d.put("pkg/package.json", `{"name":"planted","version":"1.0.0","main":"i.js"}`)
	d.put("pkg/i.js", "module.exports = 1\n")
	d.put("pkg/.npmrc", "registry=https://"+s.at+"/npm/\n//"+s.at+"/npm/:_authToken=${NPM_TOKEN}\n")
	for what, c := range map[string]struct {
		binding, line, said, seen string
	}{
		"requests": {"login", "/usr/bin/python3 ask.py", "200 welcome ", "GET /requests true"},
		"gh": {
			"hub", `GH_HOST=` + s.at + ` GH_CONFIG_DIR=$TMPDIR/gh gh api user`, `"login":"me"`, "GET /api/v3/user true",
		},
		"npm publish": {
			"npm", `cd pkg; npm publish --cache "$TMPDIR/npm" --no-update-notifier --no-audit 2>&1`, "+ planted@1.0.0", "PUT /npm/planted true",
		},
		"pip": {
			"login", `/usr/bin/python3 -m pip install -q --no-cache-dir --disable-pip-version-check --no-deps --target "$TMPDIR/lib" ` +
				`--index-url "https://me:$LOGIN@` + s.at + `/simple/" planted 2>&1; PYTHONPATH=$TMPDIR/lib /usr/bin/python3 -c 'import planted; ` +
				`print("it is", planted.answer)'`, "it is 42", "GET /simple/planted/planted-1.0-py3-none-any.whl true",
		},
		"WebSocket": {"chat", "node --no-warnings --experimental-websocket chat.js", `chat says {"auth":"ghp_`, "GET /chat true"},
	} {
		out, _ := d.allowed(d.using([]string{c.binding}, insideLine()+c.line))
		text := out.Stdout + out.Stderr + string(out.Output)
		seen := strings.Join(s.last(), "\n")
		if out.ExitCode != 0 || !strings.Contains(text, c.said) || !strings.Contains(seen, c.seen) {
			t.Errorf("%s: %s %s %d\n%s\nthe server saw %s", what, out.Outcome, out.Reason, out.ExitCode, text, seen)
		}
		if strings.Contains(text, lentValue) || !strings.Contains(text, "inside: []") {
			t.Errorf("%s: the value is in the room:\n%s", what, text)
		}
	}
	if left, err := filepath.Glob(filepath.Join(d.work, "*", ".npmrc")); err != nil || len(left) != 1 {
		t.Error(left, err)
	}
	if b, err := os.ReadFile(filepath.Join(d.work, "pkg/.npmrc")); err != nil || strings.Contains(string(b), lentValue) {
		t.Errorf("%s, %v", b, err)
	}
	d.keepsNot(lentValue)
}
