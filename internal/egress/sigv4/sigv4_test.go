package sigv4

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"palyra"
)

// The keys, requests and signatures that AWS publishes, in "Authenticating Requests" of the S3 API Reference and in the
// general test suite of Signature Version 4.
const (
	exampleID     = "AKIAIOSFODNN7EXAMPLE"
	exampleSecret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
	emptyDigest   = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

	suiteID     = "AKIDEXAMPLE"
	suiteSecret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
)

func key(id, secret, token string) Key {
	return Key{ID: id, Secret: palyra.NewSecret([]byte(secret)), Token: token}
}

var (
	example = Mandate{Region: "us-east-1", Service: "s3", Stand: key(exampleID, exampleSecret, "")}
	suite   = Mandate{Region: "us-east-1", Service: "service", Stand: key(suiteID, suiteSecret, "")}
	s3Now   = time.Date(2013, 5, 24, 0, 0, 0, 0, time.UTC)
	suiteAt = time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC)
)

// request reads a request as a server does.
func request(t testing.TB, text string) *http.Request {
	t.Helper()
	head, body, _ := strings.Cut(text, "\n\n")
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(strings.ReplaceAll(head, "\n", "\r\n") + "\r\n\r\n" + body)))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func auth(m Mandate, day, headers, signature string) string {
	return "Authorization: AWS4-HMAC-SHA256 Credential=" + m.Stand.ID + "/" + day + "/" + m.Region + "/" + m.Service +
		"/aws4_request, SignedHeaders=" + headers + ", Signature=" + signature
}

// published are requests with the signatures that AWS says they have.
var published = map[string]struct {
	mandate Mandate
	now     time.Time
	text    string
}{
	"get object": {example, s3Now, "GET /test.txt HTTP/1.1\nHost: examplebucket.s3.amazonaws.com\n" +
		auth(example, "20130524", "host;range;x-amz-content-sha256;x-amz-date",
			"f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41") +
		"\nRange: bytes=0-9\nx-amz-content-sha256: " + emptyDigest + "\nx-amz-date: 20130524T000000Z\n\n"},
	"put object": {example, s3Now, "PUT /test$file.text HTTP/1.1\nHost: examplebucket.s3.amazonaws.com\n" +
		"Date: Fri, 24 May 2013 00:00:00 GMT\n" +
		auth(example, "20130524", "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
			"98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd") +
		"\nx-amz-date: 20130524T000000Z\nx-amz-storage-class: REDUCED_REDUNDANCY\nx-amz-content-sha256: " +
		"44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072\nContent-Length: 21\n\nWelcome to Amazon S3."},
	"lifecycle": {example, s3Now, "GET /?lifecycle HTTP/1.1\nHost: examplebucket.s3.amazonaws.com\n" +
		auth(example, "20130524", "host;x-amz-content-sha256;x-amz-date", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543") +
		"\nx-amz-date: 20130524T000000Z\nx-amz-content-sha256: " + emptyDigest + "\n\n"},
	"list": {example, s3Now, "GET /?max-keys=2&prefix=J HTTP/1.1\nHost: examplebucket.s3.amazonaws.com\n" +
		auth(example, "20130524", "host;x-amz-content-sha256;x-amz-date", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7") +
		"\nx-amz-date: 20130524T000000Z\nx-amz-content-sha256: " + emptyDigest + "\n\n"},
	"get-vanilla": {suite, suiteAt, "GET / HTTP/1.1\nHost: example.amazonaws.com\n" +
		auth(suite, "20150830", "host;x-amz-date", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31") +
		"\nX-Amz-Date: 20150830T123600Z\n\n"},
	"get-vanilla-query-order-key-case": {suite, suiteAt, "GET /?Param2=value2&Param1=value1 HTTP/1.1\nHost: example.amazonaws.com\n" +
		auth(suite, "20150830", "host;x-amz-date", "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500") +
		"\nX-Amz-Date: 20150830T123600Z\n\n"},
	"post-vanilla": {suite, suiteAt, "POST / HTTP/1.1\nHost: example.amazonaws.com\n" +
		auth(suite, "20150830", "host;x-amz-date", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b") +
		"\nX-Amz-Date: 20150830T123600Z\n\n"},
}

// inParts is the payload that AWS publishes signatures of parts for: 65 KiB of one letter, in two parts.
func inParts(signatures [3]string, trailer string) string {
	return "10000;chunk-signature=" + signatures[0] + "\r\n" + strings.Repeat("a", 65536) +
		"\r\n400;chunk-signature=" + signatures[1] + "\r\n" +
		strings.Repeat("a", 1024) + "\r\n0;chunk-signature=" + signatures[2] + "\r\n" + trailer + "\r\n"
}

var chunked = inParts([3]string{
	"ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648", "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
	"b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9",
}, "")

const chunkedHead = "PUT /examplebucket/chunkObject.txt HTTP/1.1\nHost: s3.amazonaws.com\nx-amz-date: 20130524T000000Z\n" +
	"x-amz-storage-class: REDUCED_REDUNDANCY\nContent-Encoding: aws-chunked\nx-amz-decoded-content-length: 66560\n"

var withTrailer = inParts([3]string{
	"b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2", "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7",
	"2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992",
}, "x-amz-checksum-crc32c:sOO8/Q==\r\nx-amz-trailer-signature:d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n")

func chunkedRequest(t testing.TB, body string) *http.Request {
	return request(t, chunkedHead+auth(example, "20130524",
		"content-encoding;content-length;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length;x-amz-storage-class",
		"4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9")+
		"\nx-amz-content-sha256: STREAMING-AWS4-HMAC-SHA256-PAYLOAD\nContent-Length: 66824\n\n"+body)
}

func trailerRequest(t testing.TB, body string) *http.Request {
	return request(t, chunkedHead+auth(example, "20130524",
		"content-encoding;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length;x-amz-storage-class;x-amz-trailer",
		"106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e")+
		"\nx-amz-content-sha256: STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER\nx-amz-trailer: x-amz-checksum-crc32c"+
		"\nTransfer-Encoding: chunked\n\n"+
		asChunk(body))
}

// asChunk is a body as HTTP sends one whose length it does not know.
func asChunk(body string) string {
	return fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
}

// What AWS says is signed is what is verified here, and so is what is signed again.
func TestPublishedSignatures(t *testing.T) {
	for name, c := range published {
		r := request(t, c.text)
		s, err := c.mandate.Verify(r, c.now, Room())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		was := r.Header.Get("Authorization")
		err = s.Again(r, c.mandate.Stand, r.Host, func(Record) error { return nil }, func(error) {})
		if err != nil || r.Header.Get("Authorization") != was {
			t.Errorf("%s: %v, signed again it is %s", name, err, r.Header.Get("Authorization"))
		}
		if _, err := io.ReadAll(r.Body); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Payloads in parts come out with every signature made anew: by the same key they are the published ones.
func TestPublishedParts(t *testing.T) {
	for name, c := range map[string]struct {
		r    func(testing.TB, string) *http.Request
		body string
	}{"parts": {chunkedRequest, chunked}, "trailer": {trailerRequest, withTrailer}} {
		again := func(body string, key Key) (string, error) {
			r := c.r(t, body)
			s, err := example.Verify(r, s3Now, Room())
			if err != nil {
				t.Fatal(name, err)
			}
			if err := s.Again(r, key, r.Host, func(Record) error { return nil }, func(error) {}); err != nil {
				t.Fatal(name, err)
			}
			raw, err := io.ReadAll(r.Body)
			return string(raw), err
		}
		if got, err := again(c.body, example.Stand); err != nil || got != c.body {
			t.Errorf("%s: %v, %d of %d bytes", name, err, len(got), len(c.body))
		}
		other, err := again(c.body, key("AKIAOTHER", "another secret", ""))
		if err != nil || len(other) != len(c.body) || other == c.body {
			t.Errorf("%s by another key: %v, %d of %d bytes", name, err, len(other), len(c.body))
		}
		for what, bad := range map[string]string{
			"a byte":              strings.Replace(c.body, "aaaa", "aaba", 1),
			"a signature":         strings.Replace(c.body, "400;chunk-signature=", "400;chunk-signature=f", 1),
			"the order":           strings.Replace(c.body, "10000;", "10001;", 1),
			"behind":              c.body + "more",
			"no end":              c.body[:len(c.body)/2],
			"more":                c.body[:len(c.body)-2] + "x\r\n",
			"a trailer of others": strings.Replace(c.body, "sOO8", "sOO9", 1),
		} {
			if bad == c.body || what == "behind" && name == "parts" { // its length is said
				continue
			}
			got, err := again(bad, example.Stand)
			if err == nil || strings.HasSuffix(got, "\r\n\r\n") {
				t.Errorf("%s, %s changed: %v, passed on are %d bytes", name, what, err, len(got))
			}
		}
	}
}

// signed is a request that is signed with the key of a run, and then changed.
func signed(t testing.TB, change func(*http.Request)) *http.Request {
	t.Helper()
	return signedFor(t, run.Region, run.Service, run.Stand.Token, "hello", change)
}

// signedFor is one for a region and a service, with a token and a body.
func signedFor(t testing.TB, region, service, token, body string, change func(*http.Request)) *http.Request {
	t.Helper()
	r := request(t, "PUT /a%20b?x=1 HTTP/1.1\nHost: h.example\nContent-Length: 5\nX-Amz-Date: 20130524T000000Z\nX-Amz-Content-Sha256: "+
		digestOf([]byte("hello"))+"\nX-Amz-Security-Token: "+token+"\nAccept-Encoding: identity\nX-Other: a   b\n\n"+body)
	s := &Signed{
		credential: credential{id: run.Stand.ID, date: "20130524", region: region, service: service, headers: []string{
			"accept-encoding", "content-length", "host", "x-amz-content-sha256", "x-amz-date", "x-amz-security-token", "x-other",
		}}, mandate: run, time: "20130524T000000Z", payload: digestOf([]byte("hello")),
	}
	text, err := s.canonical(r)
	if err != nil {
		t.Fatal(err)
	}
	sig, err := s.sign(run.Stand, text)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+run.Stand.ID+"/"+s.scope()+",SignedHeaders="+strings.Join(s.headers, ";")+
		",Signature="+sig)
	change(r)
	return r
}

var (
	run     = Mandate{Region: "us-east-1", Service: "s3", Stand: key("AKIASTAND00000000000", "the secret of the run", "stand-token")}
	genuine = key("ASIAREAL000000000000", "the true secret", "true-token")
)

// What is not as it was signed, now and for what is bound, is refused with a remedy, and nobody is told that a signature
// is made.
func TestForgedRequests(t *testing.T) {
	again := func(r *http.Request, now time.Time) (recorded int, err error) {
		s, err := run.Verify(r, now, Room())
		if err != nil {
			return 0, err
		}
		err = s.Again(r, genuine, "h.example", func(Record) error { recorded++; return nil }, func(error) {})
		return recorded, err
	}
	good := signed(t, func(*http.Request) {})
	if n, err := again(good, s3Now); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if a := good.Header.Get("Authorization"); !strings.Contains(a, "Credential=ASIAREAL000000000000/20130524/us-east-1/s3/aws4_request") ||
		good.Header.Get("X-Amz-Security-Token") != "true-token" || strings.Contains(a, "accept-encoding") {
		t.Errorf("%v", good.Header)
	}
	set := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	inAuth := func(old, text string) func(*http.Request) {
		return func(r *http.Request) {
			was := r.Header.Get("Authorization")
			if !strings.Contains(was, old) {
				t.Fatal(old)
			}
			r.Header.Set("Authorization", strings.Replace(was, old, text, 1))
		}
	}
	for what, change := range map[string]func(*http.Request){
		"header":           set("X-Other", "a c"),
		"date":             set("X-Amz-Date", "20130524T000001Z"),
		"no date":          func(r *http.Request) { r.Header.Del("X-Amz-Date") },
		"two dates":        func(r *http.Request) { r.Header.Add("X-Amz-Date", "20130524T000000Z") },
		"payload":          set("X-Amz-Content-Sha256", digestOf([]byte("hallo"))),
		"unsigned payload": set("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD"),
		"events":           set("X-Amz-Content-Sha256", "STREAMING-AWS4-HMAC-SHA256-EVENTS"),
		"token":            set("X-Amz-Security-Token", "another-token"),
		"added x-amz":      set("X-Amz-Acl", "public-read"),
		"next hop":         set("Connection", "x-other"),
		"method":           func(r *http.Request) { r.Method = "DELETE" },
		"path":             func(r *http.Request) { r.URL.Path, r.URL.RawPath, r.RequestURI = "/other", "", "/other?x=1" },
		"query":            func(r *http.Request) { r.URL.RawQuery, r.RequestURI = "x=2", "/a%20b?x=2" },
		"bad query":        func(r *http.Request) { r.URL.RawQuery, r.RequestURI = "x=%zz", "/a%20b?x=%zz" },
		"host":             func(r *http.Request) { r.Host = "other.example" },
		"region":           inAuth("us-east-1", "eu-west-1"),
		"service":          inAuth("/s3/", "/iam/"),
		"other day":        inAuth("20130524", "20130523"),
		"long day":         inAuth("20130524", "20130524T000000Z0000"),
		"signature": func(r *http.Request) {
			a := r.Header.Get("Authorization")
			last := "0"
			if strings.HasSuffix(a, last) {
				last = "1"
			}
			r.Header.Set("Authorization", a[:len(a)-1]+last)
		},
		"no host signed": inAuth("host;", ""),
		"fewer signed":   inAuth(";x-other", ""),
		"twice signed":   inAuth("host;", "host;host;"),
		"4A":             inAuth("AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256"),
		"2":              set("Authorization", "AWS "+run.Stand.ID+":c2lnbmF0dXJl"),
		"two":            func(r *http.Request) { r.Header.Add("Authorization", r.Header.Get("Authorization")) },
		"presigned":      func(r *http.Request) { r.URL.RawQuery += "&X-Amz-Credential=" + run.Stand.ID + "%2F20130524" },
		"presigned of 2": func(r *http.Request) { r.URL.RawQuery += "&AWSAccessKeyId=" + run.Stand.ID },
		"unencoded":      func(r *http.Request) { r.RequestURI = "/a b?x=1" },
		"another key":    inAuth("Credential="+run.Stand.ID, "Credential=AKIAELSE/"+run.Stand.ID),
		"no credential":  set("Authorization", "AWS4-HMAC-SHA256 "+run.Stand.ID),
	} {
		r := signed(t, change)
		if !Claims(r, run.Stand.ID) {
			t.Errorf("%s: it is not seen", what)
		}
		n, err := again(r, s3Now)
		var e *palyra.Error
		if n != 0 || !errors.As(err, &e) || e.Reason != palyra.ReasonSignatureRefused || e.Remedy == "" ||
			strings.Contains(err.Error(), "the secret of the run") {
			t.Errorf("%s: %d signatures, %v", what, n, err)
		}
	}
	for _, late := range []time.Duration{-16 * time.Minute, 16 * time.Minute} {
		if n, err := again(signed(t, func(*http.Request) {}), s3Now.Add(late)); n != 0 || err == nil {
			t.Errorf("%s: %d signatures, %v", late, n, err)
		}
	}
	for what, r := range map[string]*http.Request{ // each is signed well
		"region":  signedFor(t, "eu-west-1", "s3", run.Stand.Token, "hello", func(*http.Request) {}),
		"service": signedFor(t, "us-east-1", "iam", run.Stand.Token, "hello", func(*http.Request) {}),
		"token":   signedFor(t, "us-east-1", "s3", "another-token", "hello", func(*http.Request) {}),
		"body":    signedFor(t, "us-east-1", "s3", run.Stand.Token, "hallo", func(*http.Request) {}),
	} {
		if n, err := again(r, s3Now); n != 0 || palyra.CodeOf(err) != palyra.Denied {
			t.Errorf("another %s: %d signatures, %v", what, n, err)
		}
	}
	forgotten := &Signed{time: "20130524T000000Z"}
	if sig, err := forgotten.sign(key("AKIA", "", ""), "text"); err == nil || sig != "" {
		t.Errorf("a key that is forgotten signs: %s", sig)
	}
	refusing := errors.New("not on record")
	s, err := example.Verify(request(t, published["list"].text), s3Now, Room())
	if err != nil {
		t.Fatal(err)
	}
	r := request(t, published["list"].text)
	err = s.Again(r, genuine, r.Host, func(Record) error { return refusing }, nil)
	if !errors.Is(err, refusing) || strings.Contains(r.Header.Get("Authorization"), "REAL") {
		t.Errorf("what is not on record: %v %v", err, r.Header)
	}
}

// A body that is not what the head says is not passed on whole.
func TestPayloadIsHeld(t *testing.T) {
	for _, c := range []struct {
		body string
		fits bool
	}{{"hello", true}, {"hellO", false}, {"", false}, {"hello, and more", false}} {
		for name, src := range map[string]io.Reader{
			"at once": strings.NewReader(c.body), "by bytes": iotest.OneByteReader(strings.NewReader(c.body)),
			"end with bytes": iotest.DataErrReader(strings.NewReader(c.body)),
		} {
			failed := 0
			body := &checked{src: src, sum: sha256.New(), want: digestOf([]byte("hello")), fail: func(error) { failed++ }}
			got, err := io.ReadAll(bufio.NewReaderSize(body, 16))
			if c.fits && (err != nil || string(got) != c.body || failed != 0) ||
				!c.fits && (err == nil || len(got) >= max(1, len(c.body)) || failed != 1) {
				t.Errorf("%q %s: %q %v %d", c.body, name, got, err, failed)
			}
		}
	}
}

// What only the body tells is read up to a limit.
func TestBodyWithoutDigest(t *testing.T) {
	s := &Signed{}
	r := request(t, "POST / HTTP/1.1\nHost: h\nContent-Length: 5\n\nhello")
	if err := s.readPayload(r, Room()); err != nil || s.payload != digestOf([]byte("hello")) {
		t.Error(err, s.payload)
	}
	if raw, err := io.ReadAll(r.Body); string(raw) != "hello" || err != nil {
		t.Errorf("%q %v", raw, err)
	}
	r.Body = io.NopCloser(io.LimitReader(zeros{}, maxRead+1))
	if err := s.readPayload(r, Room()); palyra.CodeOf(err) != palyra.Denied {
		t.Error(err)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

// FuzzAuthorization: whatever a head says, it is refused or was signed with the key of the run, and nothing breaks.
func FuzzAuthorization(f *testing.F) {
	for _, c := range published {
		f.Add(c.text)
	}
	f.Add("GET /../a//b/./%2e?a=%20&&=x&b&a=+ HTTP/1.1\nHost: h\n" + auth(suite, "20150830", "host", strings.Repeat("0", 64)) +
		"\nDate: Sun, 30 Aug 2015 12:36:00 GMT\n\n")
	known := map[string]bool{}
	for _, c := range published {
		r := request(f, c.text)
		a, _ := parse(r.Header.Get("Authorization"))
		known[a.signature] = true
	}
	f.Fuzz(func(t *testing.T, text string) {
		head, body, _ := strings.Cut(text, "\n\n")
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(strings.ReplaceAll(head, "\n", "\r\n") + "\r\n\r\n" + body)))
		if err != nil {
			return
		}
		for m, now := range map[*Mandate]time.Time{&example: s3Now, &suite: suiteAt} {
			s, err := m.Verify(r, now, Room())
			if err != nil {
				continue
			}
			if !known[s.signature] {
				t.Fatalf("a signature that nobody made: %+v", s.credential)
			}
			_ = s.Again(r, genuine, "h", func(Record) error { return nil }, func(error) {})
		}
	})
}

// FuzzParts: whatever a payload is, only what was signed is passed on.
func FuzzParts(f *testing.F) {
	const seed = "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9"
	s := &Signed{mandate: example, time: "20130524T000000Z", credential: credential{date: "20130524", region: "us-east-1", service: "s3"}}
	whole, before := "", seed
	for _, part := range []string{"hello", "you", ""} {
		text := []string{partAlgorithm, s.time, s.scope(), before, emptyDigest, digestOf([]byte(part))}
		before, _ = s.signText(example.Stand, strings.Join(text, "\n"))
		whole += fmt.Sprintf("%x;chunk-signature=%s\r\n%s\r\n", len(part), before, part)
	}
	f.Add(whole)
	f.Add("0;chunk-signature=" + strings.Repeat("0", 64) + "\r\nx-amz-trailer-signature:" + before + "\r\n\r\n")
	f.Fuzz(func(t *testing.T, body string) {
		p := &parts{
			src: bufio.NewReader(strings.NewReader(body)), was: s, next: s, key: genuine, fail: func(error) {}, old: seed, fresh: seed,
			trailer: strings.Contains(body, "trailer"),
		}
		got, err := io.ReadAll(p)
		if body == whole && err != nil || err == nil && (!strings.Contains(body, "\r\nhello\r\n") || !strings.Contains(body, before)) {
			t.Fatalf("%v, passed on: %q", err, got)
		}
	})
}

// BenchmarkAgain is what verifying a request and signing it again takes.
func BenchmarkAgain(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		r := signed(b, func(*http.Request) {})
		b.StartTimer()
		s, err := run.Verify(r, s3Now, Room())
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Again(r, genuine, "h.example", func(Record) error { return nil }, func(error) {}); err != nil {
			b.Fatal(err)
		}
	}
}
