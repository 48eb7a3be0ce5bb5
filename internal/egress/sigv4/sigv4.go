// Package sigv4 signs requests again that were signed with a placeholder: AWS Signature Version 4.
//
// Words: the stand is the key that programs of a run have, and that opens nothing; the true key is the secret's. The
// scope of a signature is its date, region and service.
//
// Promises: only a request that was signed with the stand as it is sent is signed again: of the same method, path, query,
// signed headers and payload, for the one region and service, now. What is signed is the very text that was verified;
// only the token, and how the host and what a proxy does not pass on are written, differ. Anything else is refused with
// a reason, and no signature is made of it.
//
// What it does not do: signatures in a query (whoever has such an address can use it until it expires), Signature
// Version 2 and 4A, and events of a stream.
package sigv4

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"palyra"
)

// Key is a key of AWS, or of a service that is like it.
type Key struct {
	ID     string
	Secret palyra.Secret
	Token  string // of a session; empty: none
}

// Mandate is what may be signed again.
type Mandate struct {
	Region, Service string
	Stand           Key
}

// window is how far the time of a request may be from now, as services have it.
const window = 15 * time.Minute

const (
	algorithm  = "AWS4-HMAC-SHA256"
	terminator = "aws4_request"
	stamp      = "20060102T150405Z"

	headerAuth    = "Authorization"
	headerDate    = "X-Amz-Date"
	headerToken   = "X-Amz-Security-Token"
	headerPayload = "X-Amz-Content-Sha256"
)

// The payloads that are not a digest.
const (
	unsignedPayload  = "UNSIGNED-PAYLOAD"
	unsignedTrailer  = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
	streamingPayload = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
	streamingTrailer = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
)

func refused(format string, args ...any) *palyra.Error {
	return palyra.Errorf(palyra.Denied, palyra.ReasonSignatureRefused, "the request is not signed again: "+format, args...)
}

// Claims reports whether a request says that it is signed with a key: in its head or its query, by whatever scheme.
func Claims(r *http.Request, id string) bool {
	return slices.ContainsFunc(r.Header[headerAuth], func(v string) bool { return claimsHead(v, id) }) || claimsQuery(r, id)
}

func claimsHead(v, id string) bool {
	return len(v) >= 3 && strings.EqualFold(v[:3], "aws") && strings.Contains(v, id)
}

func claimsQuery(r *http.Request, id string) bool {
	return slices.ContainsFunc(strings.Split(r.URL.RawQuery, "&"), func(p string) bool {
		name, value, _ := strings.Cut(p, "=")
		key, e1 := unescape(name)
		got, e2 := unescape(value)
		return e1 && e2 && (strings.EqualFold(key, "X-Amz-Credential") || strings.EqualFold(key, "AWSAccessKeyId")) && strings.Contains(got, id)
	})
}

// credential is what an Authorization says.
type credential struct {
	id, date, region, service string
	headers                   []string // in lower case, sorted
	signature                 string
}

func (c credential) scope() string {
	return strings.Join([]string{c.date, c.region, c.service, terminator}, "/")
}

var (
	validSignature = regexp.MustCompile(`^[0-9a-f]{64}$`)
	validHeader    = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9a-z-]{1,128}$")
)

// maxSigned is how many headers a request may sign.
const maxSigned = 100

// parse reads an Authorization.
func parse(v string) (c credential, err error) {
	word, rest, _ := strings.Cut(v, " ")
	if word != algorithm {
		return c, refused("it is signed by %s", palyra.Clip(word, 64)).WithRemedy("have the program use Signature Version 4 (%s)", algorithm)
	}
	bad := refused("its Authorization cannot be read").WithRemedy("give it Credential, SignedHeaders and Signature, each once")
	seen := map[string]string{}
	for part := range strings.SplitSeq(rest, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		if _, again := seen[name]; !ok || again {
			return c, bad
		}
		seen[name] = value
	}
	of := strings.Split(seen["Credential"], "/")
	if len(seen) != 3 || len(of) != 5 || of[4] != terminator || !validSignature.MatchString(seen["Signature"]) {
		return c, bad
	}
	c = credential{
		id: of[0], date: of[1], region: of[2], service: of[3], signature: seen["Signature"], headers: strings.Split(seen["SignedHeaders"], ";"),
	}
	sorted := slices.IsSorted(c.headers) && len(slices.Compact(slices.Clone(c.headers))) == len(c.headers)
	if !sorted || len(c.headers) > maxSigned || slices.ContainsFunc(c.headers, func(h string) bool { return !validHeader.MatchString(h) }) {
		return c, bad
	}
	return c, nil
}

// Scope is the region and the service that a request says it is signed for; empty: it does not say so.
func Scope(r *http.Request) (region, service string) {
	c, err := parse(r.Header.Get(headerAuth))
	if err != nil {
		return "", ""
	}
	return c.region, c.service
}

// Signed is a request that was signed with the stand, as it is.
type Signed struct {
	credential
	mandate Mandate
	time    string
	payload string // its digest, or what stands for one
	read    bool   // its digest is that of the body, which was read
	form    string // the action that a form in it names
}

// Verify finds out that a request was signed with the stand of a mandate, for what is granted, now. It may read the body, and
// puts it back.
func (g Mandate) Verify(r *http.Request, now time.Time, room chan struct{}) (*Signed, error) {
	if claimsQuery(r, g.Stand.ID) {
		return nil, refused("its signature is in the query, which whoever sees the address can use again").
			WithRemedy("have the program sign the request in its head, as it does when it sends it by itself")
	}
	if len(r.Header[headerAuth]) != 1 {
		return nil, refused("it has %d headers %s", len(r.Header[headerAuth]), headerAuth).WithRemedy("send one")
	}
	c, err := parse(r.Header.Get(headerAuth))
	if err != nil {
		return nil, err
	}
	s := &Signed{credential: c, mandate: g}
	if c.id != g.Stand.ID {
		return nil, refused("its key is another").WithRemedy("have the program use AWS_ACCESS_KEY_ID as it finds it")
	}
	if c.region != g.Region || c.service != g.Service {
		return nil, refused("it is for %s in %s, and the binding is for %s in %s", palyra.Clip(c.service, 64), palyra.Clip(c.region, 64),
			g.Service, g.Region).WithRemedy("have the program use that region and service, or bind the key to this one: palyra vault bind --sigv4")
	}
	if err := s.checkTime(r, now); err != nil {
		return nil, err
	}
	if err := s.checkHead(r); err != nil {
		return nil, err
	}
	if err := s.readPayload(r, room); err != nil {
		return nil, err
	}
	text, err := s.canonical(r)
	if err != nil {
		return nil, err
	}
	want, err := s.sign(g.Stand, text)
	if err != nil {
		return nil, err
	}
	if !hmac.Equal([]byte(want), []byte(c.signature)) {
		return nil, refused("it is not what was signed with the key of this run").
			WithRemedy("send it as it was signed, with AWS_SECRET_ACCESS_KEY as the program finds it")
	}
	return s, nil
}

// checkTime holds a request to its time, and that to now.
func (s *Signed) checkTime(r *http.Request, now time.Time) error {
	at, err := time.Parse(stamp, r.Header.Get(headerDate))
	if r.Header.Get(headerDate) == "" {
		at, err = http.ParseTime(r.Header.Get("Date"))
	}
	if err != nil || len(r.Header[headerDate]) > 1 || len(r.Header["Date"]) > 1 {
		return refused("its time cannot be read").WithRemedy("send one header %s, such as %s", headerDate, stamp)
	}
	s.time = at.UTC().Format(stamp)
	if off := now.Sub(at).Abs(); off > window || s.date != s.time[:8] {
		return refused("it was signed at %s, which is not within %s of now", s.time, window).WithRemedy("sign it anew when it is sent")
	}
	return nil
}

// checkHead holds the signed headers to what services want of them.
func (s *Signed) checkHead(r *http.Request) error {
	if !slices.Contains(s.headers, "host") {
		return refused("its host is not signed").WithRemedy("sign the header host")
	}
	for name := range r.Header {
		if lower := strings.ToLower(name); strings.HasPrefix(lower, "x-amz-") && !slices.Contains(s.headers, lower) {
			return refused("its header %s is not signed", palyra.Clip(lower, 64)).WithRemedy("sign every header that begins with x-amz-")
		}
	}
	if got := r.Header[headerToken]; len(got) > 1 || len(got) == 1 && got[0] != s.mandate.Stand.Token {
		return refused("its token is not that of this run").WithRemedy("have the program use AWS_SESSION_TOKEN as it finds it")
	}
	return nil
}

// dropped are headers that a proxy does not pass on as they are: they are left out of the new signature.
var dropped = []string{
	"accept-charset", "accept-encoding", "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te",
	"trailer", "transfer-encoding", "upgrade",
}

// Record is what is told of a signature before it is made.
type Record struct {
	Region, Service string
	Payload         string // sha256:HEX, or what stands for a digest where the payload is signed in parts or not at all
	Request         palyra.Digest
	Shown           string // method, path, and the action that the request names
}

// Again signs the request with the true key, for a host as it will be written. record is told before, and its error
// refuses. fail is told, later, when the body turns out to be another than was signed: it is then not sent whole.
func (s *Signed) Again(r *http.Request, key Key, host string, record func(Record) error, fail func(error)) error {
	for _, list := range r.Header["Connection"] { // what it names is not passed on
		for name := range strings.SplitSeq(list, ",") {
			if slices.Contains(s.headers, strings.ToLower(strings.TrimSpace(name))) {
				return refused("a header that is signed is only for the next hop").WithRemedy("do not name it in Connection")
			}
		}
	}
	next := *s
	next.headers = slices.DeleteFunc(slices.Clone(s.headers), func(h string) bool { return slices.Contains(dropped, h) })
	next.id, r.Host = key.ID, host
	r.Header.Del(headerToken)
	next.headers = slices.DeleteFunc(next.headers, func(h string) bool { return h == strings.ToLower(headerToken) })
	if key.Token != "" {
		r.Header.Set(headerToken, key.Token)
		next.headers = append(next.headers, strings.ToLower(headerToken))
		slices.Sort(next.headers)
	}
	text, err := next.canonical(r)
	if err != nil {
		return err
	}
	if err := record(Record{
		Region: s.region, Service: s.service, Payload: payloadName(s.payload), Request: palyra.Digest("sha256:" + digestOf([]byte(text))),
		Shown: r.Method + " " + palyra.Clip(r.URL.EscapedPath(), 256) + s.action(r),
	}); err != nil {
		return err
	}
	if next.signature, err = next.sign(key, text); err != nil {
		return err
	}
	r.Header.Set(headerAuth, algorithm+" Credential="+next.id+"/"+next.scope()+", SignedHeaders="+strings.Join(next.headers, ";")+
		", Signature="+next.signature)
	return s.guardBody(r, &next, key, fail)
}

func payloadName(p string) string {
	if validSignature.MatchString(p) {
		return "sha256:" + p
	}
	return p
}

// sign computes the signature of a canonical request.
func (s *Signed) sign(key Key, canonical string) (string, error) {
	return s.signText(key, strings.Join([]string{algorithm, s.time, s.scope(), digestOf([]byte(canonical))}, "\n"))
}

// signText signs a text by the key of its day, region and service.
func (s *Signed) signText(key Key, text string) (sig string, err error) {
	err = key.Secret.Use(func(secret []byte) error {
		if len(secret) == 0 { // it is forgotten
			return refused("the run is over").WithRemedy("propose the call again")
		}
		k := append([]byte("AWS4"), secret...)
		for _, part := range []string{s.date, s.region, s.service, terminator, text} {
			next := mac(k, part)
			clear(k)
			k = next
		}
		sig = hex.EncodeToString(k)
		return nil
	})
	return sig, err
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	_, _ = h.Write([]byte(text))
	return h.Sum(nil)
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
