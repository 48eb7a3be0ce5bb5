package sniff

import (
	"bytes"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/iotest"
)

// helloOf returns what a client of crypto/tls says first.
func helloOf(t testing.TB, c *tls.Config) []byte {
	t.Helper()
	client, server := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = tls.Client(client, c).Handshake()
	}()
	buf := make([]byte, 8<<10)
	n, err := server.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	_ = server.Close()
	<-done
	_ = client.Close()
	return buf[:n]
}

// extended adds an extension to a ClientHello.
func extended(t testing.TB, hello []byte, kind uint16, body string) []byte {
	t.Helper()
	b := bytes.Clone(hello)
	i := RecordHead + 4 + 2 + 32
	i += 1 + int(b[i])
	i += 2 + int(b[i])<<8 + int(b[i+1])
	i += 1 + int(b[i])
	ext := append([]byte{byte(kind >> 8), byte(kind), byte(len(body) >> 8), byte(len(body))}, body...)
	grow := func(at, size int) {
		n := 0
		for _, x := range b[at : at+size] {
			n = n<<8 | int(x)
		}
		n += len(ext)
		for k := size - 1; k >= 0; k-- {
			b[at+k] = byte(n)
			n >>= 8
		}
	}
	grow(3, 2)
	grow(RecordHead+1, 3)
	grow(i, 2)
	return append(b, ext...)
}

func splitRecord(b []byte, n int) []byte {
	var out []byte
	body := b[RecordHead:]
	for step := len(body)/n + 1; len(body) > 0; {
		k := min(step, len(body))
		out = append(append(out, b[0], b[1], b[2], byte(k>>8), byte(k)), body[:k]...)
		body = body[k:]
	}
	return out
}

func TestParseHello(t *testing.T) {
	plain := helloOf(t, &tls.Config{ServerName: "good.example"})
	for name, tc := range map[string]struct {
		in   []byte
		want Hello
		err  error
	}{
		"usual":        {plain, Hello{1, "good.example", false}, nil},
		"more follows": {append(bytes.Clone(plain), RecordData, 3, 3, 0, 1, 0), Hello{1, "good.example", false}, nil},
		"old": {
			helloOf(t, &tls.Config{ServerName: "good.example", MaxVersion: tls.VersionTLS12}),
			Hello{1, "good.example", false},
			nil,
		},
		"no name":            {helloOf(t, &tls.Config{ServerName: "127.0.0.1"}), Hello{}, nil},
		"in pieces":          {splitRecord(plain, 40), Hello{1, "good.example", false}, nil},
		"in crumbs":          {splitRecord(plain, len(plain)), Hello{}, ErrBadHello},
		"cut":                {plain[:len(plain)-1], Hello{}, ErrMore},
		"ECH":                {extended(t, plain, ExtECH, "xxxx"), Hello{1, "good.example", true}, nil},
		"ESNI":               {extended(t, plain, extESNI, ""), Hello{1, "good.example", true}, nil},
		"two names":          {extended(t, plain, ExtServerName, "\x00\x0f\x00\x00\x0cevil.example"), Hello{}, ErrBadHello},
		"an extension again": {extended(t, extended(t, plain, 0x1234, ""), 0x1234, ""), Hello{}, ErrBadHello},
		"trailing bytes":     {bumped(plain), Hello{}, ErrBadHello},
		"an endless record":  {[]byte{22, 3, 1, 0xff, 0xff}, Hello{}, ErrBadHello},
		"an empty record":    {[]byte{22, 3, 1, 0, 0}, Hello{}, ErrBadHello},
		"an endless hello":   {[]byte{22, 3, 1, 0, 4, 1, 0xff, 0xff, 0xff}, Hello{}, ErrTooLong},
		"another message":    {[]byte{22, 3, 1, 0, 4, 2, 0, 0, 0}, Hello{}, ErrBadHello},
		"another record":     {[]byte{23, 3, 1, 0, 4, 1, 0, 0, 0}, Hello{}, ErrBadHello},
		"nothing in it":      {[]byte{22, 3, 1, 0, 4, 1, 0, 0, 0}, Hello{}, ErrBadHello},
	} {
		got, size, err := ParseHello(tc.in)
		if !errors.Is(err, tc.err) || got != tc.want || err == nil && size > len(tc.in) {
			t.Errorf("%s: %+v %d %v", name, got, size, err)
		}
	}
	for _, names := range []string{
		"", "\x00\x00", "\x00\x0f\x01\x00\x0cgood.example", "\x00\x0f\x00\x00\x0dgood.example", "\x00\x03\x00\x00\x00",
		"\x00\x12\x00\x00\x0cgood.example\x00\x00\x00",
		"\x00\x0f\x00\x00\x0cgood.examplex", "\x00\x1e\x00\x00\x0cgood.example\x00\x00\x0cevil.example",
	} {
		if h, _, err := ParseHello(extended(t, helloOf(t, &tls.Config{ServerName: "127.0.0.1"}), ExtServerName, names)); err == nil {
			t.Errorf("%q: %+v", names, h)
		}
	}
}

// bumped has a byte after the ClientHello, in its record.
func bumped(b []byte) []byte {
	b = append(bytes.Clone(b), 0)
	n := int(b[3])<<8 + int(b[4]) + 1
	b[3], b[4] = byte(n>>8), byte(n)
	return b
}

func TestAsksAgain(t *testing.T) {
	retry := "\x16\x03\x03\x00\x58\x02\x00\x00\x54\x03\x03" + RetryRandom
	for name, tc := range map[string]struct {
		in           string
		again, known bool
	}{
		"a retry": {retry, true, true}, "part of one": {retry[:len(retry)-1], false, false}, "nothing": {"", false, false},
		"an answer": {strings.Replace(retry, RetryRandom[:1], "\xce", 1), false, true}, "an alert": {"\x15", false, true},
		"text":            {"HTTP/1.1 400", false, true},
		"another message": {"\x16\x03\x03\x00\x58\x0b", false, true},
	} {
		if again, known := AsksAgain([]byte(tc.in)); again != tc.again || known != tc.known {
			t.Errorf("%s: %v %v", name, again, known)
		}
	}
}

func FuzzClientHello(f *testing.F) {
	plain := helloOf(f, &tls.Config{ServerName: "good.example"})
	f.Add(plain)
	f.Add(splitRecord(plain, 7))
	f.Add(extended(f, plain, ExtECH, "x"))
	f.Add(helloOf(f, &tls.Config{ServerName: "good.example", MaxVersion: tls.VersionTLS12}))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, size, err := ParseHello(b)
		if err != nil {
			if size != 0 || h != (Hello{}) {
				t.Errorf("%+v %d %v", h, size, err)
			}
			return
		}
		if size > len(b) || (h.Names == 1) != (h.Name != "") {
			t.Errorf("%+v %d", h, size)
		}
		// Every beginning of it is too short, and what follows does not matter.
		for _, n := range []int{0, 1, size / 2, size - 1} {
			if _, _, err := ParseHello(b[:n]); !errors.Is(err, ErrMore) {
				t.Errorf("%d of %d bytes: %v", n, size, err)
			}
		}
		if again, n, err := ParseHello(append(bytes.Clone(b[:size]), 1, 2, 3)); again != h || n != size || err != nil {
			t.Errorf("%+v %d %v", again, n, err)
		}
	})
}

func FuzzClassify(f *testing.F) {
	for _, s := range []string{
		"GET / HTTP/1.1\r\n", "\x16\x03\x01", "EHLO x\r\n", "\r\n\r\n", "PRI * HTTP/2.0\r\n",
		"0032git-upload-pack /x\x00", "SSH-2.0-x\r\n", "\"HTTP/",
	} {
		f.Add([]byte(s), 3)
	}
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		all := Classify(b)
		if cut < 0 || cut > len(b) {
			return
		}
		// What was told of a beginning is not taken back, but that what is opaque
		// may turn out to be web, for which it is watched.
		if some := Classify(b[:cut]); some != Unclear && some != all && (some != Opaque || all != Web) {
			t.Errorf("%q: %v, then %v", b, some, all)
		}
		// A request that our reader takes is never taken for something else.
		if n, err := HeadSize(b); err == nil {
			if _, err := ParseHead(b[:n]); err == nil && all != Web {
				t.Errorf("%q: %v", b, all)
			}
		}
	})
}

// However a line comes, it is seen.
func FuzzWatch(f *testing.F) {
	for _, s := range []string{"GET / HTTP/1.1\r\n", "hhttp/", "x\nHTTP/", "\n\x01\nHTTP/", "HTHTTP/"} {
		f.Add([]byte(s), 3)
	}
	f.Fuzz(func(t *testing.T, b []byte, at int) {
		var whole, parts Watch
		want := whole.Sees(b)
		at = min(max(at, 0), len(b))
		got := parts.Sees(b[:at])
		if !got && !parts.Whole {
			got = parts.Sees(b[at:])
		}
		var one Watch
		single, buf := false, make([]byte, 1)
		for r := iotest.OneByteReader(bytes.NewReader(b)); !single && !one.Whole; {
			if _, err := r.Read(buf); err != nil {
				break
			}
			single = one.Sees(buf)
		}
		if got != want || single != want {
			t.Errorf("%q: %v %v %v", b, want, got, single)
		}
		line, _ := firstLine(b)
		if has := strings.Contains(strings.ToUpper(string(line)), version); has && !want {
			t.Errorf("%q was not seen", b)
		}
		if Classify(b) == Opaque && want {
			t.Errorf("%q is opaque", b)
		}
	})
}

func TestHeadSize(t *testing.T) {
	for in, want := range map[string]int{"GET / HTTP/1.1\r\n\r\nrest": 18, "A\r\nB: c\r\n\r\n": 11} {
		if n, err := HeadSize([]byte(in)); n != want || err != nil {
			t.Errorf("%q: %d %v", in, n, err)
		}
	}
	for in, more := range map[string]bool{
		"": true, "GET": true, "GET\r\n": true, "GET\r\nA: b\r\n\r": true, "GET\n": false,
		"\r\nGET": false, "A\r\n\n": false,
	} {
		if _, err := HeadSize([]byte(in)); err == nil || errors.Is(err, ErrMore) != more {
			t.Errorf("%q: %v", in, err)
		}
	}
}

func TestAuthority(t *testing.T) {
	for in, want := range map[string][2]string{
		"http://a.example":         {"a.example", "/"},
		"HTTP://a.example:80/x?y":  {"a.example:80", "/x?y"},
		"http://a.example?q":       {"a.example", "/?q"},
		"http://[::1]:8080//b/../": {"[::1]:8080", "//b/../"},
	} {
		if a, rest, err := (Head{Method: "GET", Target: in}).Authority(); err != nil || a != want[0] || rest != want[1] {
			t.Errorf("%s: %s %s %v", in, a, rest, err)
		}
	}
	if _, rest, _ := (Head{Method: "OPTIONS", Target: "http://a.example"}).Authority(); rest != "*" {
		t.Error(rest)
	}
}
