// Package gitobject reads commits and tags as git writes them before it has them signed, strictly: what it cannot read
// to the last byte, it does not read. It also tells which files a commit changes, from objects that a stranger brings and
// whose ids it checks.
package gitobject

import (
	"bytes"
	"crypto/sha1" // git's ids
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// MaxPayload is the largest commit or tag that is read, in bytes.
const MaxPayload = 64 << 10

// The kinds of objects.
const (
	KindCommit = "commit"
	KindTag    = "tag"
	KindTree   = "tree"
	KindBlob   = "blob"
)

const maxParents = 16

// Ident is who wrote something, and when.
type Ident struct {
	Name, Email string
	At          time.Time // in the zone that was named
}

// Object is a commit or a tag that is to be signed.
type Object struct {
	Kind      string // KindCommit or KindTag
	Tree      string // of a commit
	Parents   []string
	Author    Ident
	Committer Ident // of a tag: the tagger
	Encoding  string
	Merged    int // tags that it merges, with their signatures in it

	Target     string // of a tag: the object
	TargetKind string
	Name       string // of a tag

	Message string
}

var errObject = errors.New("it is no commit and no tag as git writes them")

func bad(what string) error { return fmt.Errorf("%w: %s", errObject, what) }

// Parse reads a commit or a tag.
func Parse(text []byte) (Object, error) {
	if len(text) > MaxPayload {
		return Object{}, bad(fmt.Sprintf("it has more than %d bytes", MaxPayload))
	}
	head, message, ok := bytes.Cut(text, []byte("\n\n"))
	if !ok || bytes.IndexByte(text, 0) >= 0 {
		return Object{}, bad("no head and message")
	}
	r := &reader{lines: strings.Split(string(head), "\n")}
	o := Object{Message: string(message)}
	if strings.HasPrefix(r.next(), "tree ") {
		o.commit(r)
	} else {
		o.tag(r)
	}
	if r.err != nil {
		return Object{}, r.err
	}
	return o, nil
}

// reader reads the lines of a head, in their order.
type reader struct {
	lines []string
	err   error
}

func (r *reader) next() string {
	if len(r.lines) == 0 {
		return ""
	}
	return r.lines[0]
}

// optional reads the value of a line with a key, if it is the next.
func (r *reader) optional(key string) (string, bool) {
	v, ok := strings.CutPrefix(r.next(), key+" ")
	if ok {
		r.lines = r.lines[1:]
	}
	return v, ok
}

func (r *reader) need(key string) string {
	v, ok := r.optional(key)
	if !ok {
		r.fail("no " + key)
	}
	return v
}

func (r *reader) fail(what string) {
	if r.err == nil {
		r.err = bad(what)
	}
}

var validID = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

func (r *reader) id(text string) string {
	if !validID.MatchString(text) {
		r.fail("an id that is none")
	}
	return text
}

var identLine = regexp.MustCompile(`^([^<>\n]*) <([^<>\n]*)> ([0-9]{1,12}) ([+-])([0-9]{2})([0-9]{2})$`)

func (r *reader) ident(key string) (id Ident) {
	m := identLine.FindStringSubmatch(r.need(key))
	if m == nil {
		r.fail("an " + key + " that is none")
		return id
	}
	sec, _ := strconv.ParseInt(m[3], 10, 64)
	hours, _ := strconv.Atoi(m[5])
	minutes, _ := strconv.Atoi(m[6])
	if hours > 14 || minutes > 59 {
		r.fail("a time zone that is none")
	}
	east := hours*3600 + minutes*60
	if m[4] == "-" {
		east = -east
	}
	return Ident{Name: m[1], Email: m[2], At: time.Unix(sec, 0).In(time.FixedZone("", east))}
}

func (o *Object) commit(r *reader) {
	o.Kind = KindCommit
	o.Tree = r.id(r.need("tree"))
	for {
		p, ok := r.optional("parent")
		if !ok {
			break
		}
		o.Parents = append(o.Parents, r.id(p))
	}
	if len(o.Parents) > maxParents {
		r.fail("too many parents")
	}
	o.Author, o.Committer = r.ident("author"), r.ident("committer")
	if e, ok := r.optional("encoding"); ok {
		o.Encoding = e
	}
	for {
		if _, ok := r.optional("mergetag"); !ok {
			break
		}
		o.Merged++
		for strings.HasPrefix(r.next(), " ") { // the tag's own lines
			r.lines = r.lines[1:]
		}
	}
	if len(r.lines) > 0 {
		r.fail("a line that is not known")
	}
}

func (o *Object) tag(r *reader) {
	o.Kind = KindTag
	o.Target = r.id(r.need("object"))
	switch o.TargetKind = r.need("type"); o.TargetKind {
	case KindCommit, KindTag, KindTree, KindBlob:
	default:
		r.fail("a kind of object that is none")
	}
	if o.Name = r.need("tag"); o.Name == "" || len(o.Name) > 1024 {
		r.fail("no name")
	}
	o.Committer = r.ident("tagger")
	o.Author = o.Committer
	if len(r.lines) > 0 {
		r.fail("a line that is not known")
	}
}

// ID is the id of an object, as long as another one of its repository.
func ID(kind string, content []byte, like string) string {
	head := fmt.Sprintf("%s %d\x00", kind, len(content))
	if len(like) == 2*sha256.Size {
		h := sha256.New()
		h.Write([]byte(head))
		h.Write(content)
		return hex.EncodeToString(h.Sum(nil))
	}
	h := sha1.New()
	h.Write([]byte(head))
	h.Write(content)
	return hex.EncodeToString(h.Sum(nil))
}

// SignedCommit is the id of a commit with its signature in it, as git writes it.
func SignedCommit(payload, signature []byte, like string) string {
	head, message, _ := bytes.Cut(payload, []byte("\n\n"))
	var b bytes.Buffer
	b.Write(head)
	b.WriteString("\n")
	key := "gpgsig"
	if len(like) == 2*sha256.Size {
		key = "gpgsig-sha256"
	}
	for line := range strings.Lines(string(signature)) {
		b.WriteString(key + " " + line)
		key = ""
	}
	b.WriteString("\n")
	b.Write(message)
	return ID(KindCommit, b.Bytes(), like)
}

// IsID reports whether a text is an id.
func IsID(text string) bool { return validID.MatchString(text) }
