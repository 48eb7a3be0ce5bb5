package fetch

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"
)

func packed(t testing.TB, b []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	if _, err := z.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestAnswers(t *testing.T) {
	w := newWorld(t)
	bin := []byte{0, 0xff, 1}
	for path, body := range map[string]string{"text": "aé漢", "bin": string(bin), "nul": "a\x00b", "empty": ""} {
		w.serve(path+".test:80", false, func(rw http.ResponseWriter, r *http.Request) { fmt.Fprint(rw, body) })
	}
	if r := w.must(args{"url": "http://text.test/"}); r.text() != "aé漢" || r.BodyB64 != nil || r.Bytes != 6 || r.Truncated {
		t.Errorf("%+v", r)
	}
	if r := w.must(args{"url": "http://bin.test/"}); r.Body != nil || *r.BodyB64 != base64.StdEncoding.EncodeToString(bin) || r.Bytes != 3 {
		t.Errorf("%+v", r)
	}
	if r := w.must(args{"url": "http://nul.test/"}); r.Body != nil || r.Bytes != 3 {
		t.Errorf("%+v", r)
	}
	for most, want := range map[int]string{0: "", 1: "a", 2: "a", 3: "aé", 4: "aé", 5: "aé", 6: "aé漢", 7: "aé漢"} {
		r := w.must(args{"url": "http://text.test/", "max_bytes": most})
		if r.text() != want || r.Truncated != (most < 6) || r.Bytes != len(want) {
			t.Errorf("%d: %q %+v", most, r.text(), r)
		}
	}
	if r := w.must(args{"url": "http://empty.test/", "max_bytes": 0}); r.text() != "" || r.Truncated {
		t.Errorf("%+v", r)
	}
}

func TestPacked(t *testing.T) {
	w := newWorld(t)
	whole := packed(t, []byte("unpacked"))
	bomb := packed(t, make([]byte, 32<<20))
	nothing := bytes.Repeat(packed(t, nil), 100_000) // members that unpack to nothing
	w.serve("a.test:80", false, func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "gzip" {
			t.Errorf("%v", r.Header)
		}
		how := "gzip"
		var body []byte
		switch r.URL.Path {
		case "/good":
			body = whole
		case "/two":
			body = append(bytes.Clone(whole), whole...)
		case "/old":
			how, body = "X-GZIP", whole
		case "/bomb":
			body = bomb
		case "/nothing":
			body = nothing
		case "/cut":
			body = whole[:len(whole)-9]
		case "/wrong":
			body = append(bytes.Clone(whole[:len(whole)-8]), 1, 2, 3, 4, 5, 6, 7, 8)
		case "/garbage":
			body = []byte("not packed at all")
		case "/other":
			how, body = "br", []byte("as it is")
		case "/twice":
			how, body = "gzip, gzip", packed(t, whole)
		}
		rw.Header().Set("Content-Encoding", how)
		_, _ = rw.Write(body)
	})
	for path, want := range map[string]string{
		"good": "unpacked", "two": "unpackedunpacked", "old": "unpacked", "empty": "",
		"other": "as it is",
	} {
		r := w.must(args{"url": "http://a.test/" + path})
		_, named := r.Headers["Content-Encoding"]
		if r.text() != want || r.Truncated || named != (path == "other" || path == "empty") {
			t.Errorf("%s: %q %+v", path, r.text(), r)
		}
	}
	r := w.must(args{"url": "http://a.test/bomb", "max_bytes": 1000})
	if !r.Truncated || r.Bytes != 1000 {
		t.Errorf("%+v", r)
	}
	if r = w.must(args{"url": "http://a.test/nothing", "max_bytes": 1000}); !r.Truncated || r.Bytes != 0 {
		t.Errorf("%+v", r)
	}
	if r = w.must(args{"url": "http://a.test/twice"}); r.Body != nil || r.Headers["Content-Encoding"] != "gzip, gzip" {
		t.Errorf("%+v", r)
	}
	w.refused(reasonFailed, "before it was complete", args{"url": "http://a.test/cut"})
	w.refused(reasonFailed, "cannot be read", args{"url": "http://a.test/wrong"})
	w.refused(reasonFailed, "cannot be read", args{"url": "http://a.test/garbage"})
}

// A stream without an end is read as far as was asked for and no further.
func TestEndless(t *testing.T) {
	w := newWorld(t)
	done := make(chan int64, 1)
	w.serve("a.test:80", false, func(rw http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(rw, endless{})
		done <- n
	})
	r := w.must(args{"url": "http://a.test/", "max_bytes": 100_000})
	if !r.Truncated || r.Bytes != 100_000 {
		t.Errorf("%+v", r)
	}
	<-done // the server was told to stop
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestDeliveredHeadersAreBounded(t *testing.T) {
	h := http.Header{"Set-Cookie": {"x"}, "A": {"\xff\n"}, "Z": {strings.Repeat("z", maxAll)}, strings.Repeat("N", maxName+1): {""}}
	out, cut := delivered(h)
	if !cut || len(out) != 1 || out["A"] != "\ufffd\n" {
		t.Errorf("%v %v", out, cut)
	}
	h = http.Header{}
	for i := range maxHeaders + 1 {
		h[fmt.Sprint("H", i)] = []string{"v"}
	}
	if out, cut := delivered(h); !cut || len(out) != maxHeaders {
		t.Error(len(out), cut)
	}
	if _, cut := delivered(http.Header{"Set-Cookie": {strings.Repeat("x", maxAll)}}); cut {
		t.Error("cut without need")
	}
}

func FuzzAsText(f *testing.F) {
	f.Add([]byte("aé漢"), true)
	f.Add([]byte{0xe6, 0xbc}, true)
	f.Add([]byte{0}, false)
	f.Fuzz(func(t *testing.T, b []byte, cut bool) {
		s, ok := asText(b, cut)
		if !ok {
			if utf8.Valid(b) && bytes.IndexByte(b, 0) < 0 {
				t.Fatalf("%q is text", b)
			}
			return
		}
		if !utf8.ValidString(s) || !strings.HasPrefix(string(b), s) || len(b)-len(s) >= utf8.UTFMax || !cut && len(s) != len(b) {
			t.Fatalf("%q %v: %q", b, cut, s)
		}
	})
}
